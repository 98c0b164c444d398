"""A fake provider, an example gateway, and the story that they tell against the real server: `main` in `run`.

Read `gateway` to see how a program uses the ledger, and `story` for what can happen to a call.
"""
