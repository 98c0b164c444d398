"""The contract's messages to validated domain words, and back. No I/O.

`fields` checks one value; `commands`, `budgets`, `prices` and `queries` read requests; `answers` writes responses; `pages` keeps
the place in a list.
"""
