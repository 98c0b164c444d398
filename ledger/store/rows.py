"""Rows of the tables as the types of ledger.domain.model, and back.

A row is a tuple in the order of its table's columns, which is the order of the fields.
"""

import json
from datetime import datetime
from functools import lru_cache
from operator import attrgetter
from typing import Any

from ledger.domain.model import (
    Book,
    Budget,
    Evidence,
    Hold,
    Receipt,
    Resolution,
)
from ledger.domain.quotes import PriceCard, Quote
from ledger.domain.states import HoldState, ResolutionKind
from ledger.store.statements import SEPARATOR

encode_json = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode

_STATES = {state.value: state for state in HoldState}
_KINDS: dict[str | None, ResolutionKind | None] = {None: None, **{kind.value: kind for kind in ResolutionKind}}


@lru_cache(maxsize=4096)
def quote_from(document: str) -> Quote:
    """The quote of a hold. It is immutable, and many holds have the same."""
    return Quote.from_document(json.loads(document))


def joined(texts: tuple[str, ...]) -> str:
    """A text[] as it travels."""
    return SEPARATOR.join(texts)


def hold_from(row: tuple[Any, ...]) -> Hold:
    (tenant, operation_id, state, currency, amount, quote, budget_ids, books, labels, *rest) = row
    rest[17] = _KINDS[rest[17]]
    return Hold(
        tenant, operation_id, _STATES[state], currency, amount, quote_from(quote), tuple(budget_ids), tuple(books),
        {} if labels == "{}" else json.loads(labels), *rest,
    )  # fmt: skip


_HOLD_BEFORE = attrgetter("tenant", "operation_id", "state", "currency", "amount")
_HOLD_AFTER = attrgetter(
    "actor", "fingerprint", "created_at", "expire_at", "updated_at", "exclusive_key", "request_group", "attempt",
    "generation", "executor", "dispatcher", "nonce_hash", "dispatched_at", "lease_expires_at", "inferred",
    "provider_receipt", "revision", "resolution_kind", "resolution_digest", "settled", "resolved_at", "version",
)  # fmt: skip


def hold_row(hold: Hold) -> tuple[Any, ...]:
    return (
        *_HOLD_BEFORE(hold),
        encode_json(hold.quote.to_document()),
        joined(hold.budget_ids),
        joined(hold.books),
        encode_json(hold.labels) if hold.labels else "{}",
        *_HOLD_AFTER(hold),
    )


def book_from(row: tuple[Any, ...]) -> Book:
    tenant, book_id, budget_id, provider, model, currency, floor, *rest = row
    return Book(tenant, book_id, budget_id, currency, floor, provider, model, *rest)


book_row = attrgetter(
    "tenant", "book_id", "budget_id", "provider", "model", "currency", "floor", "closed", "version",
    "authority", "available", "held", "unknown", "spent", "deficit", "expense", "payable",
)  # fmt: skip


def budget_from(row: tuple[Any, ...]) -> Budget:
    tenant, budget_id, path, *rest = row
    return Budget(tenant, budget_id, tuple(path), *rest)


def budget_row(budget: Budget) -> tuple[Any, ...]:
    return (
        budget.tenant, budget.budget_id, joined(budget.path), budget.currency, budget.display_name, budget.limit,
        budget.created_at,
    )  # fmt: skip


def receipt_from(row: tuple[Any, ...]) -> Receipt:
    receipt = Receipt._make(row)
    return receipt if receipt.refusal is None else receipt._replace(refusal=json.loads(row[8]))


def receipt_row(receipt: Receipt) -> tuple[Any, ...]:
    if receipt.refusal is None:
        return receipt
    return (*receipt[:8], encode_json(receipt.refusal), *receipt[9:])


def evidence_row(evidence: Evidence) -> tuple[Any, ...]:
    # Reasons are sentences, and may quote what a caller sent.
    reasons = joined(tuple(reason.replace(SEPARATOR, " ") for reason in evidence.reasons))
    return (*evidence[:6], reasons, *evidence[7:13], encode_json(evidence.body))


def resolution_row(resolution: Resolution) -> tuple[Any, ...]:
    return (*resolution[:9], encode_json(resolution.lines), *resolution[10:])


def card_from(tenant: str, card_id: str, version: int, document: str) -> PriceCard:
    return PriceCard.from_document(tenant, card_id, version, json.loads(document))


def card_row(card: PriceCard, created_at: datetime) -> tuple[Any, ...]:
    return (
        card.tenant, card.card_id, card.version, card.provider, card.model, card.digest,
        encode_json(card.to_document()), created_at,
    )  # fmt: skip
