"""The laws of the books as SQL over all rows, for an auditor who trusts neither the service nor the triggers.

Each law is one query with one row for each thing that is held to it: NULL if it keeps the law, else a sentence that names it and
what is wrong. They are asked in one snapshot.
"""

from ledger.store.laws.attempts import ATTEMPTS
from ledger.store.laws.books import BOOKS
from ledger.store.laws.corrections import CORRECTIONS
from ledger.store.laws.entries import ENTRIES
from ledger.store.laws.events import EVENTS
from ledger.store.laws.holds import HOLDS
from ledger.store.laws.law import EXAMPLES, Law, Measured, measure, snapshot
from ledger.store.laws.periods import PERIODS
from ledger.store.laws.records import RECORDS
from ledger.store.laws.schema import SCHEMA
from ledger.store.laws.stored import (
    StoredCard,
    StoredEvidence,
    StoredPolicy,
    StoredQuote,
    StoredResolution,
    Unreadable,
    evidence_with_bodies,
    policies,
    price_cards,
    quotes,
    resolutions,
)

LAWS = (*ENTRIES, SCHEMA, *BOOKS, *PERIODS, *HOLDS, *CORRECTIONS, *ATTEMPTS, *RECORDS, *EVENTS)

__all__ = [
    "EXAMPLES",
    "LAWS",
    "Law",
    "Measured",
    "StoredCard",
    "StoredEvidence",
    "StoredPolicy",
    "StoredQuote",
    "StoredResolution",
    "Unreadable",
    "evidence_with_bodies",
    "measure",
    "policies",
    "price_cards",
    "quotes",
    "resolutions",
    "snapshot",
]
