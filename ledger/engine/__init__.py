"""The one loop: gather, lock and load, decide, save, commit.

Read `apply`, then `batch` (what happens when a transaction fails), `gathering` (who is next) and `lane` (the thread).
"""
