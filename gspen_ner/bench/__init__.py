"""Side-by-side measurements: ours and a peer's in one process, in turns, as a ratio of medians.

timing      how two functions are timed against each other, and the rows and tables that come out
peers       other people's CRFs behind one interface; plain torch as it is usually written
chain       `gspen-ner bench chain`
inference   `gspen-ner bench inference`
tagging     `gspen-ner bench tag`; serving: `gspen-ner bench serve`
"""
