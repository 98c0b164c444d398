"""The contract's messages to validated domain words, and back. No I/O.

`fields` checks one value; `commands`, `evidence`, `budgets` and `queries` read requests; `answers` and `books` write responses;
`pages` keeps the place in a list.
"""
