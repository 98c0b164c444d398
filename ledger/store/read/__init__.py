"""What the Get and List calls need, by an index, from a snapshot that cannot write: one statement each, but for the axes of a hold.

with database.read() as connection:
    page = read.list_holds(connection, tenant, limit=100)
"""

from ledger.store.read.budgets import BudgetState, PeriodState, get_budget, list_budgets, list_periods
from ledger.store.read.cards import get_card, list_cards
from ledger.store.read.evidence import get_policy, list_evidence
from ledger.store.read.history import HoldEvent, Standing, get_standing, list_hold_events
from ledger.store.read.holds import due, get_hold, list_holds, list_incidents, list_open_holds, list_resolutions
from ledger.store.read.journal import Balance, JournalEntry, balance, list_entries, list_postings
from ledger.store.read.page import Key, Page
from ledger.store.read.parked import Place, Round, list_parked, waited
from ledger.store.read.writes import Invocation, Written, list_invocations, written

__all__ = [
    "Balance",
    "BudgetState",
    "HoldEvent",
    "Invocation",
    "JournalEntry",
    "Key",
    "Page",
    "PeriodState",
    "Place",
    "Round",
    "Standing",
    "Written",
    "balance",
    "due",
    "get_budget",
    "get_card",
    "get_hold",
    "get_policy",
    "get_standing",
    "list_budgets",
    "list_cards",
    "list_entries",
    "list_evidence",
    "list_hold_events",
    "list_holds",
    "list_incidents",
    "list_invocations",
    "list_open_holds",
    "list_parked",
    "list_periods",
    "list_postings",
    "list_resolutions",
    "waited",
    "written",
]
