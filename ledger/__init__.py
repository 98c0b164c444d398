"""A double-entry spend ledger with budget holds whose outcome may be unknown, and which only evidence settles."""
