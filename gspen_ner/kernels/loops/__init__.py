"""The compiled loops: serial, without the GIL, over a range of rows or a block of examples.

Chains (indices: b or r row, t position, i label at t - 1, j label at t):

    interleaved   rows that share their tables: the batch is the innermost axis, so that every operation is a
                  long vector operation
    rowwise       rows with their own tables, or few rows: one row after another
    log_space     safe for any scores: rows that the other two cannot compute reliably; k-best; sampling

The first two work in the probability domain, where a step costs L * L multiply-adds and no exp, but numbers
can underflow. A number that underflows is smaller than `tiny`, so the mass lost at (t, j) is at most
tiny * beta[t, j] * scale[t], times the largest factor by which a step can multiply a number. A row is trusted
while this risk stays below a limit.

Factor graphs (`graph` holds the arrays of their structure):

    messages      sweeps over the nodes of a block of examples; then, `rounding` makes factors and nodes agree
    forests       best labellings of graphs without loops
    minimum_cut   best points of the local polytope over pairs of binary variables

No loop calls a loop of another file: numba's disk cache checks only the file of the calling function, so a
change of the other file would not lead to a recompilation.
"""

LOG_PARTITION, NODES, EDGES = 0, 1, 2  # results of forward-backward; each includes those before it
