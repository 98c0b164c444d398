"""What the Get and List calls need: one statement each, by an index, from a snapshot that cannot write.

with database.read() as connection:
    page = read.list_holds(connection, tenant, limit=100)
"""

from ledger.store.read.budgets import BudgetState, get_budget, list_budgets
from ledger.store.read.cards import get_card, list_cards
from ledger.store.read.evidence import get_policy, list_evidence
from ledger.store.read.holds import due, get_hold, list_holds, list_incidents, list_open_holds, list_resolutions
from ledger.store.read.journal import Balance, JournalEntry, balance, list_entries, list_postings
from ledger.store.read.page import Key, Page
from ledger.store.read.writes import Invocation, Written, list_invocations, written

__all__ = [
    "Balance",
    "BudgetState",
    "Invocation",
    "JournalEntry",
    "Key",
    "Page",
    "Written",
    "balance",
    "due",
    "get_budget",
    "get_card",
    "get_hold",
    "get_policy",
    "list_budgets",
    "list_cards",
    "list_entries",
    "list_evidence",
    "list_holds",
    "list_incidents",
    "list_invocations",
    "list_open_holds",
    "list_postings",
    "list_resolutions",
    "written",
]
