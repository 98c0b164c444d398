"""What a batch changed, as events for whoever follows the ledger.

They are derived here and nowhere else, from the rows that were decided: a rule does not say what it changed, so none can forget
to. A hold that is written is one event, whatever its rule, its states and its entries; an entry that no hold and no grant stands
for is one of its own. An event is a JSON object of texts, ids and small numbers (an enum takes as long to write as all the rest);
its `type` says which fields it has: see proto/ledger/v1/feed.proto.
"""

from collections.abc import Mapping
from typing import Any, Final, TypeAlias
from uuid import UUID

from ledger.domain.batch import Decision, Loaded
from ledger.domain.model import Entry, Hold
from ledger.domain.money import ZERO, plain

Event: TypeAlias = dict[str, Any]
Key: TypeAlias = tuple[str, str]

# The rows of a decision that are no events: answers, what an event names by its entry or digest, and what changes no state.
SILENT: Final = frozenset(
    {"outcomes", "events", "books", "postings", "receipts", "refused", "evidence", "parked", "unparked", "resolutions"}
)


def derive(loaded: Loaded, decision: Decision) -> None:
    """Adds the events to the decision, by tenant, causes before what they made possible."""
    entries: dict[Key, list[Entry]] = {}
    alone: list[Entry] = []
    for entry in decision.entries:
        key = (entry.tenant, entry.operation_id)
        if entry.operation_id is not None and key in decision.holds:
            entries.setdefault((entry.tenant, entry.operation_id), []).append(entry)
        else:
            alone.append(entry)
    events = decision.events
    if decision.budgets or decision.cards or decision.policies or alone:
        _of_the_books(decision, alone)
    for key, hold in decision.holds.items():
        changed = _hold(loaded.holds.get(key), hold, entries.get(key, ()))
        events.setdefault(key[0], []).append(changed)
    for crossing in decision.crossings:
        events.setdefault(crossing.tenant, []).append(
            {
                "type": "THRESHOLD",
                "budget_id": crossing.budget_id,
                "book_id": crossing.book_id,
                "percent": crossing.percent,
                "basis": crossing.basis.value,
                "amount": plain(crossing.amount),
                "authority": plain(crossing.authority),
                "currency": crossing.currency,
            }
        )
    for seen in decision.observations:
        events.setdefault(seen.tenant, []).append(
            {
                "type": "OBSERVATION",
                "observation_id": seen.observation_id,
                "operation_id": seen.operation_id,
                "axis": seen.axis.value,
                "value": str(seen.value),
                "attempt": seen.attempt,
            }
        )
    for incident in decision.incidents:
        events.setdefault(incident.tenant, []).append(
            {
                "type": "INCIDENT",
                "incident_id": incident.incident_id,
                "kind": incident.kind,
                "operation_id": incident.operation_id,
            }
        )


def _hold(before: Hold | None, hold: Hold, entries: list[Entry] | tuple[()]) -> Event:
    event: Event = {
        "type": "HOLD",
        "operation_id": hold.operation_id,
        "version": hold.version,
        "to": hold.state.value,
        "attempt": hold.attempt,
        "amount": plain(hold.amount),
        "currency": hold.currency,
    }
    if before is not None:
        event["from"] = before.state.value
    if hold.resolution_kind is not None:
        event["revision"] = hold.revision
        event["kind"] = hold.resolution_kind.value
        event["digest"] = (hold.resolution_digest or b"").hex()
        event["settled"] = plain(hold.settled or ZERO)
    if entries:
        event["entries"] = [{"id": entry.entry_id, "kind": entry.kind.value} for entry in entries]
    return event


def _of_the_books(decision: Decision, alone: list[Entry]) -> None:
    """Budgets, price cards, policies, grants, and entries that are about no hold of the batch."""
    events = decision.events
    for budget in decision.budgets.values():
        event: Event = {
            "type": "BUDGET",
            "budget_id": budget.budget_id,
            "version": budget.version,
            "currency": budget.currency,
            "closed": budget.closed_at is not None,
        }
        if budget.parent_id is not None:
            event["parent_id"] = budget.parent_id
        if budget.limit is not None:
            event["limit"] = plain(budget.limit)
        events.setdefault(budget.tenant, []).append(event)
    for card in decision.cards:
        events.setdefault(card.tenant, []).append(
            {"type": "PRICE_CARD", "card_id": card.card_id, "version": card.version, "digest": card.digest.hex()}
        )
    for policy in decision.policies:
        events.setdefault(policy.tenant, []).append(
            {"type": "POLICY", "provider": policy.provider, "version": policy.version, "digest": policy.digest.hex()}
        )
    by_id = {(entry.tenant, entry.entry_id): entry for entry in alone}
    for grant in decision.grants:
        entry = by_id.pop((grant.tenant, grant.entry_id))
        events.setdefault(grant.tenant, []).append(
            {
                "type": "GRANT",
                "budget_id": grant.budget_id,
                "reference": grant.reference,
                "amount": plain(grant.amount),
                "currency": entry.currency,
                "entry_id": grant.entry_id,
            }
        )
    books = _books(decision, by_id)
    for entry_key, entry in by_id.items():
        event = {"type": "ENTRY", "entry_id": entry.entry_id, "kind": entry.kind.value, "books": books[entry_key]}
        if entry.operation_id is not None:
            event["operation_id"] = entry.operation_id
        events.setdefault(entry.tenant, []).append(event)


def _books(decision: Decision, entries: Mapping[tuple[str, UUID], Entry]) -> dict[tuple[str, UUID], list[str]]:
    """The books that the entries moved, each once, in the order of the lines."""
    books: dict[tuple[str, UUID], dict[str, None]] = {key: {} for key in entries}
    for posting in decision.postings:
        moved = books.get((posting.tenant, posting.entry_id))
        if moved is not None:
            moved[posting.book_id] = None
    return {key: list(moved) for key, moved in books.items()}
