"""The only code that touches a run directory: where things are, who may write them, how they are read.

`atomic` is the only module that changes a disk; everything else decides what to ask of it. The
format, its invariants and what each crash leaves are in docs/store-format.md.
"""
