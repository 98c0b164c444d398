"""The exercise: a fault at every boundary of a call, and what is true afterwards.

Read `boundaries` (where a call is broken, and how callers behave), `cases` (what must come of it, by hand), `gateway` (the two
callers), `play` (one case), `verdict`.
"""
