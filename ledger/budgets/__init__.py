"""The commands about budgets: tree, show, periods, create, grant, limit, move, close. A client of the ledger, as any other."""
