"""Writing what was decided: one statement per kind of row, all in one round trip. The commit is the caller's."""

from collections.abc import Sequence
from operator import attrgetter, itemgetter
from typing import Any

from sqlalchemy import Connection

from ledger.domain.batch import Decision, Loaded
from ledger.domain.model import Observation
from ledger.store import records as r
from ledger.store import rows
from ledger.store import tables as t
from ledger.store.feed import RECORD
from ledger.store.pipeline import Answer, StaleRow, pipeline
from ledger.store.statements import append, append_once, change, remove

_CHANGING_HOLD = (
    "state", "expire_at", "updated_at", "attempt", "generation", "executor", "dispatcher", "nonce_hash", "dispatched_at",
    "lease_expires_at", "failure", "retry_until", "inferred", "execution_seen", "usage_seen", "provider_receipt", "revision",
    "resolution_kind", "resolution_digest", "settled", "resolved_at", "version",
)  # fmt: skip
# Columns that are named otherwise in the model.
_ROLLOVER = {"rollover": "rollover.kind", "rollover_cap": "rollover.cap"}
_SCHEDULE = {
    "period": "schedule.kind", "zone": "schedule.zone", "anchor": "schedule.anchor", "period_seconds": "schedule.seconds",
}  # fmt: skip
_THRESHOLDS = {"thresholds": "thresholds.percents", "threshold_basis": "thresholds.basis"}
_CHANGING_BOOK = {
    **{
        name: name
        for name in (
            "floor",
            "closed",
            "version",
            "open_holds",
            *t.BALANCES,
            "period_end",
            "carried",
            "carried_on",
            "crossed",
        )
    },
    **_ROLLOVER,
    **_THRESHOLDS,
}
_CHECKED_BOOK = ("budget_id", "provider", "period_start")
_CHANGING_BUDGET = {
    **{name: name for name in ("path", "display_name", "max_hold", "max_open_holds", "closed_at", "version", "credit_line")},
    "limit_amount": "limit", **_SCHEDULE, **_ROLLOVER, **_THRESHOLDS,
}  # fmt: skip
_hold_change = attrgetter("tenant", "operation_id", *_CHANGING_HOLD)
_book_change = attrgetter("tenant", "book_id", *_CHECKED_BOOK, *_CHANGING_BOOK.values())
_budget_change = attrgetter("tenant", "budget_id", *_CHANGING_BUDGET.values())

_receipt_key = itemgetter(0, 1, 2, 3)


def _bound_receipt(row: Sequence[Any]) -> tuple[str, str, str]:
    seen = Observation._make(row)
    return (seen.tenant, seen.provider or "", seen.provider_receipt or "")


NEW_BUDGETS = append(t.budget)
NEW_BOOKS = append(t.book)
NEW_HOLDS = append(t.hold)
# A row that was read under its lock is at the version before. These guards hold if it was not.
CHANGED_HOLDS = change(t.hold, _CHANGING_HOLD, "hold.version = excluded.version - 1")
CHANGED_BUDGETS = change(t.budget, tuple(_CHANGING_BUDGET), "budget.version = excluded.version - 1")
CHANGED_BOOKS = change(t.book, tuple(_CHANGING_BOOK), "book.version <= excluded.version", checked=_CHECKED_BOOK)
NEW_ENTRIES = append(t.entry)
NEW_POSTINGS = append(t.posting)
NEW_RECEIPTS = append(r.receipt)
NEW_REFUSED = append(r.refused)
NEW_EVIDENCE = append(r.evidence)
NEW_OBSERVATIONS = append(r.observation)
NEW_RESOLUTIONS = append(r.resolution)
NEW_INCIDENTS = append_once(r.incident)
NEW_GRANTS = append(r.budget_grant)
NEW_CARDS = append(r.price_card)
NEW_POLICIES = append(r.evidence_policy)
NEW_PARKED = append(r.parked)
GONE_PARKED = remove(r.parked)


def save(connection: Connection, decision: Decision, loaded: Loaded) -> None:
    """Writes the decided rows within the transaction in which `loaded` was loaded.

    The number of statements depends on which kinds of rows there are, not on how many. Raises StaleRow if a hold, book or budget is
    not the one that was loaded, and sqlalchemy.exc.DBAPIError if the database refuses a row (IntegrityError: a key that is
    taken, or a law). After either nothing of the batch is saved, and the transaction must be rolled back.
    """
    d = decision
    # New rows go in by the order of their keys: two batches with the same keys wait for each other then, and never crosswise.
    holds = [(d.holds[key], key in loaded.holds) for key in sorted(d.holds)]
    books = [(d.books[key], key in loaded.books) for key in sorted(d.books)]
    budgets = [(d.budgets[key], key in loaded.budgets) for key in sorted(d.budgets)]
    changed_budgets = [_budget_change(budget) for budget, known in budgets if known]
    changed_holds = [_hold_change(hold) for hold, known in holds if known]
    changed_books = [_book_change(book) for book, known in books if known]
    with pipeline(connection) as p:
        p.send(NEW_BUDGETS, [rows.budget_row(budget) for budget, known in budgets if not known])
        budgets_written = p.send(CHANGED_BUDGETS, changed_budgets)
        # A book is closed before the next of its budget is opened: one is open at a time.
        books_written = p.send(CHANGED_BOOKS, changed_books)
        p.send(NEW_BOOKS, [rows.book_row(book) for book, known in books if not known])
        p.send(NEW_HOLDS, [rows.hold_row(hold) for hold, known in holds if not known])
        holds_written = p.send(CHANGED_HOLDS, changed_holds)
        p.send(NEW_ENTRIES, d.entries)
        p.send(NEW_POSTINGS, d.postings)
        p.send(NEW_RECEIPTS, sorted(d.receipts, key=_receipt_key))
        p.send(NEW_REFUSED, d.refused)
        p.send(NEW_EVIDENCE, list(map(rows.evidence_row, d.evidence)))
        # In the order of the receipts that they bind, for the same reason as the keys above.
        p.send(NEW_OBSERVATIONS, sorted(d.observations, key=_bound_receipt))
        p.send(NEW_RESOLUTIONS, d.resolutions)
        p.send(NEW_INCIDENTS, d.incidents)
        p.send(NEW_GRANTS, d.grants)
        p.send(NEW_PARKED, d.parked)
        unparked = p.send(GONE_PARKED, d.unparked)
        p.send(NEW_CARDS, [rows.card_row(card, loaded.now) for card in d.cards])
        p.send(NEW_POLICIES, [rows.policy_row(policy, loaded.now) for policy in d.policies])
        # The last: its place in the feed is read when nothing is waited for any more.
        p.send(RECORD, [(tenant, loaded.now, d.events[tenant]) for tenant in sorted(d.events)])
    _all_written("budget", budgets_written, len(changed_budgets))
    _all_written("book", books_written, len(changed_books))
    _all_written("hold", holds_written, len(changed_holds))
    _all_written("parked", unparked, len(d.unparked))


def _all_written(table: str, answer: Answer | None, expected: int) -> None:
    if answer is not None and answer.rowcount != expected:
        raise StaleRow(f"{expected - answer.rowcount} of {expected} rows of {table} changed since they were read")
