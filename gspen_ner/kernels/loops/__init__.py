"""The compiled loops: serial, without the GIL, over a range of rows or a block of examples.

Chains (axes: b or r row, t position, i label before, j label after):

    interleaved   rows that share their table (or their table at each position): the batch is the innermost
                  axis, so that every operation is a long vector operation
    rowwise       rows with tables of their own, or only a few rows: one after the other
    log_space     safe at any spread: rows the two others do not vouch for; k-best; sampling

The first two live in the probability domain, where a step costs L * L multiply-adds and no exp. What
underflows there is lost. A lost number was smaller than `tiny`, so the mass lost with it at (t, j) is at
most tiny * beta[t, j] * scale[t], times what one step can multiply a number by; a row is trusted while
that risk stays below a limit.

Factor graphs (`graph` holds the arrays of their structure):

    messages      sweeps over the nodes of a block of examples; `rounding` then makes factors agree with nodes
    forests       best labellings of graphs without loops
    minimum_cut   best points of the local polytope over pairs of binary variables

No loop calls one of another file: numba's caches on disk look at a function's own file only, so a change of
the other would go unnoticed.
"""

LOG_PARTITION, NODES, EDGES = 0, 1, 2  # what forward-backward is asked for; each includes those before
