"""Rows and commands to test the store with, each valid as it is; a test names only what it is about."""

from collections.abc import Sequence
from concurrent.futures import Future
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID, uuid4

from sqlalchemy import text

from ledger.domain.batch import Decision, Loaded, Outcome
from ledger.domain.cards import PriceCard, Rate
from ledger.domain.commands import Command, Correct, Dispatch, NoCostProof, Reserve, Resolve, Usage
from ledger.domain.decide import decide
from ledger.domain.invocations import Receipt
from ledger.domain.model import (
    Account,
    Axis,
    Book,
    Budget,
    Caller,
    Classification,
    Entry,
    EntryKind,
    Evidence,
    Grant,
    Hold,
    Incident,
    Observation,
    Posting,
    Resolution,
    Role,
)
from ledger.domain.quotes import Quote, QuoteKind, QuoteLine, QuoteSpec
from ledger.domain.states import HoldState, ResolutionKind
from ledger.domain.waiting import Parked
from ledger.store.database import Database
from ledger.store.load import load
from ledger.store.save import save
from tests import watching

T = "tenant-a"
NOON = datetime(2026, 3, 1, 12, 0, 0, 123456, tzinfo=UTC)
GATEWAY = Caller(T, "gateway-1", Role.GATEWAY)
FINANCE = Caller(T, "finance-1", Role.FINANCE)
ADMIN = Caller(T, "admin-1", Role.ADMIN)
ENTRY = UUID("01890000-0000-7000-8000-000000000001")

METERED = Quote(
    kind=QuoteKind.METERED,
    amount=Decimal("0.018"),
    currency="USD",
    tolerance=Decimal("0.001"),
    provider="openai",
    model="gpt-x",
    card_id="gpt-x",
    card_version=2,
    card_digest="ab" * 32,
    service_tier="priority",
    service_tiers=("priority", "standard"),
    region="eu",
    api_flavor="chat",
    lines=(
        QuoteLine("input_tokens", 1000, Decimal(3), 1_000_000, Decimal("0.003")),
        QuoteLine("output_tokens", 1000, Decimal(15), 1_000_000, Decimal("0.015")),
    ),
    clamped=("output_tokens",),
    valid_until=NOON,
)
FIXED = Quote(QuoteKind.FIXED, Decimal("2.50"), "USD", Decimal(0), "stripe", "refund", reason='said "ja", für 2 €\n')


def budget(budget_id: str = "team", path: tuple[str, ...] = ("org", "team"), limit: str | None = "10") -> Budget:
    return Budget(T, budget_id, path, "USD", f"The {budget_id}", None if limit is None else Decimal(limit), NOON)


def book(budget_id: str = "team", **changes: Any) -> Book:
    given: dict[str, Any] = {
        "tenant": T,
        "book_id": f"{budget_id}#0",
        "budget_id": budget_id,
        "currency": "USD",
        "period_start": NOON,
    }
    return Book(**({"floor": None} | given | changes))


def hold(operation_id: str = "op-1", **changes: Any) -> Hold:
    given: dict[str, Any] = {
        "tenant": T,
        "operation_id": operation_id,
        "state": HoldState.RESERVED,
        "currency": "USD",
        "amount": Decimal("2.50"),
        "quote": FIXED,
        "budget_ids": ("team",),
        "books": ("org#0", "team#0"),
        "labels": {},
        "actor": "gateway-1",
        "fingerprint": b"f" * 32,
        "fingerprint_version": 1,
        "created_at": NOON,
        "expire_at": NOON + timedelta(minutes=5),
        "updated_at": NOON,
    }
    return Hold(**(given | changes))


DISPATCHED: dict[str, Any] = {
    "state": HoldState.DISPATCHING,
    "attempt": 1,
    "generation": 1,
    "executor": "pod-7",
    "dispatcher": "gateway-1",
    "nonce_hash": b"n" * 32,
    "dispatched_at": NOON,
    "lease_expires_at": NOON + timedelta(minutes=15),
}
SETTLED: dict[str, Any] = {
    "state": HoldState.SETTLED,
    "revision": 1,
    "resolution_kind": ResolutionKind.USAGE,
    "resolution_digest": b"d" * 32,
    "settled": Decimal("2.25"),
    "execution_seen": True,
    "usage_seen": True,
    "resolved_at": NOON,
}


def entry(entry_id: UUID = ENTRY, **changes: Any) -> Entry:
    return Entry(T, entry_id, EntryKind.RESERVE, "USD", NOON, NOON, date(2026, 3, 1), "op-1", "gateway-1")._replace(
        **changes
    )


def posting(version: int, account: Account, amount: str, **changes: Any) -> Posting:
    return Posting(T, "team#0", version, ENTRY, account, Decimal(amount))._replace(**changes)


def receipt(key: str = "key-1", **changes: Any) -> Receipt:
    return Receipt(T, "gateway-1", "Reserve", key, b"f" * 32, 1, "op-1", "OK", None, HoldState.RESERVED, NOON)._replace(
        **changes
    )


def with_hold(hold: Hold) -> Decision:
    """The decision to write this hold and nothing else."""
    return Decision(holds={(hold.tenant, hold.operation_id): hold})


def evidence(**changes: Any) -> Evidence:
    return Evidence(
        T, "op-1", UUID(int=7), 1, ResolutionKind.USAGE, Classification.AUTHORITATIVE, (), "PROVIDER_RESPONSE",
        "gateway-1", "sdk", "7", "#built-in/1", None, NOON, None, None, b"o" * 32, None, {"buckets": {"input_tokens": "12"}},
    )._replace(**changes)  # fmt: skip


def parked(**changes: Any) -> Parked:
    return Parked(
        T, "op-1", UUID(int=7), b"i" * 32, ResolutionKind.USAGE, "WEBHOOK", "gateway-1", Role.GATEWAY, 0,
        {"Usage": {"source": "WEBHOOK", "defects": ["größer"]}, "accept_overrun_reason": ""}, NOON,
    )._replace(**changes)  # fmt: skip


def observation(**changes: Any) -> Observation:
    return Observation(
        T, "op-1", UUID(int=11), Axis.EXECUTION, "ACCEPTED", 1, "RecordReceipt", "gateway-1", "sdk", "7", NOON, NOON, "stripe",
        "rcpt-1", {"said": "so"},
    )._replace(**changes)  # fmt: skip


def resolution(**changes: Any) -> Resolution:
    return Resolution(
        T, "op-1", 1, ResolutionKind.USAGE, b"d" * 32, None, Decimal("2.25"), "USD", Decimal(0),
        ({"bucket": "input_tokens", "amount": "2.25"},), ("input_tokens",), UUID(int=7), ENTRY, "gateway-1", None, NOON,
    )._replace(**changes)  # fmt: skip


def incident() -> Incident:
    return Incident(T, UUID(int=9), "DOUBLE_ACCEPTANCE", "op-1", NOON, {"provider_receipt": "rcpt-2"})


def grant(reference: str = "po-1") -> Grant:
    return Grant(T, "team", reference, Decimal("7.5"), ENTRY, "admin-1", NOON)


def card(version: int = 1, card_id: str = "gpt-x") -> PriceCard:
    rates = (
        Rate("input_tokens", "standard", 0, Decimal(3), 1_000_000),
        Rate("output_tokens", "standard", 0, Decimal(15), 1_000_000),
    )
    return PriceCard(T, card_id, version, "openai", "gpt-x", ("gpt-x-latest",), "USD", rates, 200_000, None, NOON, None)


def reserve(operation_id: str = "op-1", *, key: str = "", amount: str = "1", **changes: Any) -> Reserve:
    quoted = QuoteSpec(
        QuoteKind.FIXED,
        Decimal(0),
        amount=Decimal(amount),
        currency="USD",
        provider="stripe",
        model="refund",
        reason="r",
    )
    given: dict[str, Any] = {"budget_ids": ("team",), "quote": quoted, "ttl": timedelta(minutes=5)}
    return Reserve(GATEWAY, key or f"reserve-{operation_id}", operation_id, **(given | changes))


def dispatched(operation_id: str = "op-1") -> Reserve:
    return reserve(operation_id, dispatch=Dispatch("nonce-0123456789", timedelta(minutes=15), "pod-7"))


def settle(operation_id: str = "op-1", amount: str = "1") -> Resolve:
    usage = Usage(
        "PROVIDER_RESPONSE", "stripe", "refund", "", "test", "1", charged=Decimal(amount), charged_currency="USD"
    )
    return Resolve(GATEWAY, f"settle-{operation_id}", operation_id, usage)


def correct(resolved: Hold, amount: str) -> Correct:
    """Of what the hold is resolved on, by another charge."""
    key, digest = f"correct-{resolved.operation_id}", resolved.resolution_digest or b""
    return Correct(FINANCE, key, resolved.operation_id, digest, settle(amount=amount).evidence, "a bill")


def never_sent(operation_id: str = "op-1") -> Resolve:
    return Resolve(GATEWAY, f"free-{operation_id}", operation_id, NoCostProof("NEVER_SENT", "test", "1"))


def nothing_loaded(**found: Any) -> Loaded:
    return Loaded(now=NOON, new_id=uuid4, **found)


def write(database: Database, decision: Decision, loaded: Loaded | None = None) -> None:
    """Saves a decision that was made by hand, and commits."""
    with database.transaction() as connection:
        save(connection, decision, loaded or nothing_loaded())
        connection.commit()


def read(database: Database, commands: Sequence[Command], stripe: int = 0) -> Loaded:
    """What a batch would be decided on; without keeping its locks."""
    with database.transaction() as connection:
        return load(connection, commands, stripe, uuid4)[0]


def apply(database: Database, commands: Sequence[Command], stripe: int = 0) -> list[Outcome]:
    """One batch from beginning to end."""
    with database.transaction() as connection:
        loaded, _ = load(connection, commands, stripe, uuid4)
        decision = decide(loaded, commands)
        save(connection, decision, loaded)
        connection.commit()
    return decision.outcomes


def until_waiting(database: Database, *calls: Future[Any]) -> None:
    """Until somebody waits for a lock. The calls that are to wait must not end before."""
    url = database.engine.url.set(drivername="postgresql").render_as_string(hide_password=False)
    watching.until_waiting(url, *calls)


def column(database: Database, query: str) -> list[Any]:
    """The first column of a query."""
    with database.read() as connection:
        return list(connection.execute(text(query)).scalars())
