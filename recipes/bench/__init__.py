"""Benchmarks of ours against peers, as ratios of medians of alternating runs: `python -m recipes.bench`.

timing         contests, peers, alternating runs, and the table of results
chain          chain inference against other CRF libraries and a plain torch loop
graph          message passing on factor graphs against a numpy loop and PGMax, which `pgmax_script` runs in a
               separate interpreter
inference      one GSPEN inference against an encoder
training       an epoch of GSPEN against its CRF, and of the CRF against pytorch-crf
flair_taggers  the command `flair`
table          the command `table`
tagging        the command `tag`
serving        the command `serve`
"""
