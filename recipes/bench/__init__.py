"""Side-by-side measurements: ours and a peer's in one process, in turns, as a ratio of medians.

timing         how functions are timed against each other, and the rows and tables that come out
chain          `gspen-ner bench chain`: `contests` with `peers`, other people's CRFs behind one interface, and
               with `torch_loop`, plain torch as it is usually written
graph          `gspen-ner bench graph`: likewise with `graph_peers`, `graph_numpy` and `graph_pgmax`;
               the latter runs `pgmax_script` in an interpreter of its own
inference      `gspen-ner bench inference`
training       `gspen-ner bench training`
flair_taggers  `gspen-ner bench flair`
run_times      `gspen-ner bench table`, of the `epochs` of all systems and tasks
tagging        `gspen-ner bench tag`
serving        `gspen-ner bench serve`
"""
