"""Rows of the tables as the types of ledger.domain.model, and back.

A row is a tuple in the order of its table's columns, which is the order of the fields.
"""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import lru_cache
from operator import attrgetter
from typing import Any, TypeAlias

from pydantic_core import from_json

from ledger.domain.cards import PriceCard
from ledger.domain.invocations import Receipt
from ledger.domain.model import Book, Budget, Classification, Evidence, Hold, Resolution, Role
from ledger.domain.periods import NO_PERIODS, NO_ROLLOVER, PeriodKind, Rollover, RolloverKind, Schedule
from ledger.domain.policies import EvidencePolicy
from ledger.domain.quotes import Quote
from ledger.domain.states import HoldState, ResolutionKind
from ledger.domain.thresholds import Basis, Thresholds
from ledger.domain.waiting import Parked
from ledger.store import tables as t
from ledger.store.arrays import SEPARATOR

Row: TypeAlias = tuple[Any, ...]

_STATES = {state.value: state for state in HoldState}
_KINDS: dict[str | None, ResolutionKind | None] = {None: None, **{kind.value: kind for kind in ResolutionKind}}
_REST = list(t.hold.c.keys())[9:]
_KIND, _FAILURE = _REST.index("resolution_kind"), _REST.index("failure")


@lru_cache(maxsize=4096)
def quote_from(document: str) -> Quote:
    """The quote of a hold. It is immutable, and many holds may have the same."""
    return Quote.from_document(from_json(document))


def hold_from(row: Row) -> Hold:
    tenant, operation_id, state, currency, amount, quote, budget_ids, books, labels, *rest = row
    rest[_KIND] = _KINDS[rest[_KIND]]
    if rest[_FAILURE] is not None:
        rest[_FAILURE] = from_json(rest[_FAILURE])
    return Hold(
        tenant, operation_id, _STATES[state], currency, amount, quote_from(quote), tuple(budget_ids), tuple(books),
        from_json(labels), *rest,
    )  # fmt: skip


_plain_hold_row: Callable[[Hold], Row] = attrgetter(
    "tenant", "operation_id", "state", "currency", "amount", "quote", "budget_ids", "books", "labels", "actor",
    "fingerprint", "fingerprint_version", "created_at", "expire_at", "updated_at", "exclusive_key", "request_group", "attempt",
    "generation", "executor", "dispatcher", "nonce_hash", "dispatched_at", "lease_expires_at", "failure", "retry_until", "inferred",
    "execution_seen", "usage_seen", "provider_receipt", "revision", "resolution_kind", "resolution_digest", "settled",
    "resolved_at", "version",
)  # fmt: skip


def hold_row(hold: Hold) -> Row:
    row = _plain_hold_row(hold)
    return (*row[:5], hold.quote.to_document(), *row[6:])


def book_from(row: Row) -> Book:
    (
        tenant,
        book_id,
        budget_id,
        provider,
        model,
        currency,
        floor,
        *rest,
        kind,
        cap,
        carried,
        carried_on,
        percents,
        basis,
        crossed,
    ) = row
    rest += (rollover_from(kind, cap), carried, carried_on, thresholds_from(tuple(percents), basis), tuple(crossed))
    return Book(tenant, book_id, budget_id, currency, floor, provider, model, *rest)


def rollover_from(kind: str, cap: Decimal | None) -> Rollover:
    return NO_ROLLOVER if kind == NO_ROLLOVER.kind else Rollover(RolloverKind(kind), cap)


@lru_cache(maxsize=256)
def thresholds_from(percents: tuple[int, ...], basis: str) -> Thresholds:
    return Thresholds(percents, Basis(basis))


book_row: Callable[[Book], Row] = attrgetter(
    "tenant", "book_id", "budget_id", "provider", "model", "currency", "floor", "closed", "version",
    "open_holds", "authority", "available", "held", "unknown", "spent", "deficit", "expense", "payable",
    "period_start", "period_end", "rollover.kind", "rollover.cap", "carried", "carried_on", "thresholds.percents",
    "thresholds.basis", "crossed",
)  # fmt: skip


def budget_from(row: Row) -> Budget:
    tenant, budget_id, path, *rest, period, zone, anchor, seconds, rollover, cap, percents, basis = row
    rest += (_schedule_from(period, zone, anchor, seconds), rollover_from(rollover, cap))
    rest.append(thresholds_from(tuple(percents), basis))
    return Budget(tenant, budget_id, tuple(path), *rest)


def _schedule_from(period: str, zone: str, anchor: datetime | None, seconds: int | None) -> Schedule:
    if period == NO_PERIODS.kind:
        return NO_PERIODS
    at = None if anchor is None else anchor.astimezone(UTC)
    return Schedule(PeriodKind(period), zone, at, None if seconds is None else timedelta(seconds=seconds))


budget_row: Callable[[Budget], Row] = attrgetter(
    "tenant", "budget_id", "path", "currency", "display_name", "limit", "created_at", "max_hold", "max_open_holds", "closed_at",
    "version", "credit_line", "schedule.kind", "schedule.zone", "schedule.anchor", "schedule.seconds", "rollover.kind",
    "rollover.cap", "thresholds.percents", "thresholds.basis",
)  # fmt: skip


def receipt_from(row: Row) -> Receipt:
    receipt = Receipt._make(row)
    return receipt if receipt.refusal is None else receipt._replace(refusal=from_json(row[8]))


def evidence_row(evidence: Evidence) -> Row:
    # Reasons are sentences that may quote what a caller sent.
    return evidence._replace(reasons=tuple(reason.replace(SEPARATOR, " ") for reason in evidence.reasons))


def parked_from(row: Row) -> Parked:
    tenant, operation_id, evidence_id, identity, kind, source, actor, role, attempt, report, parked_at = row
    return Parked(
        tenant, operation_id, evidence_id, identity, ResolutionKind(kind), source, actor, Role(role), attempt, from_json(report),
        parked_at,
    )  # fmt: skip


def evidence_from(row: Row) -> Evidence:
    """A row whose last column is the body as text; NULL where it was not read."""
    kept = Evidence._make(row)
    return kept._replace(
        kind=ResolutionKind(kept.kind),
        classification=Classification(kept.classification),
        reasons=tuple(kept.reasons),
        body=None if kept.body is None else from_json(row[-1]),
    )


def resolution_from(row: Row) -> Resolution:
    tenant, operation_id, revision, kind, *facts = row
    resolution = Resolution(tenant, operation_id, revision, ResolutionKind(kind), *facts)
    return resolution._replace(lines=tuple(from_json(row[9])), passed_ceilings=tuple(row[10]))


def card_from(tenant: str, card_id: str, version: int, document: str) -> PriceCard:
    return PriceCard.from_document(tenant, card_id, version, from_json(document))


@lru_cache(maxsize=1024)
def policy_from(tenant: str, provider: str, version: int, document: str) -> EvidencePolicy:
    """A policy. It is immutable, and every batch that resolves reads it."""
    return EvidencePolicy.from_document(tenant, provider, version, from_json(document))


def policy_row(policy: EvidencePolicy, created_at: datetime) -> Row:
    return (policy.tenant, policy.provider, policy.version, policy.digest, policy.to_document(), created_at)


def card_row(card: PriceCard, created_at: datetime) -> Row:
    return (
        card.tenant, card.card_id, card.version, card.provider, card.model, card.digest, card.to_document(), created_at
    )  # fmt: skip
