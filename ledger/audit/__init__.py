"""For auditors: the books are recomputed from the rows. Read `check`."""
