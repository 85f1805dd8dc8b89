"""The compiled loops of chain inference: serial, without the GIL, over a range of rows.

    interleaved   rows that share their table (or their table at each position): the batch is the innermost
                  axis, so that every operation is a long vector operation
    rowwise       rows with tables of their own, or only a few rows: one after the other
    log_space     safe at any spread: rows the two others do not vouch for; k-best; sampling

Axes: b or r row, t position, i label before, j label after.

The first two live in the probability domain, where a step costs L * L multiply-adds and no exp. What
underflows there is lost. A lost number was smaller than `tiny`, so the mass lost with it at (t, j) is at
most tiny * beta[t, j] * scale[t], times what one step can multiply a number by; a row is trusted while
that risk stays below a limit.
"""
