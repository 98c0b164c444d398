"""The commands about prices: of recorded usage, of a call to come, and of whole catalogues on their way into the ledger."""
