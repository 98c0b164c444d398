"""Generated from proto/ledger/v1 by scripts/generate; not to be edited."""
