"""Every kind of row comes back from the database as it was decided."""

from dataclasses import fields, is_dataclass, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID, uuid4

import pytest
from sqlalchemy import Table, select

from ledger.domain.attempt_commands import RecordReceipt
from ledger.domain.batch import Decision
from ledger.domain.commands import BeginDispatch, CreateBudget, Dispatch, Resolve, Usage
from ledger.domain.document_commands import PutPriceCard
from ledger.domain.filing import filing, to_document
from ledger.domain.model import (
    Account,
    Classification,
    EntryKind,
    Evidence,
    Incident,
    Observation,
    Posting,
    Resolution,
    Role,
)
from ledger.domain.refusals import Reason
from ledger.domain.states import HoldState, ResolutionKind
from ledger.domain.waiting import Sign
from ledger.store import records as r
from ledger.store import tables as t
from ledger.store.database import Database
from ledger.store.load import load
from ledger.store.pipeline import StaleRow
from ledger.store.read import list_parked
from tests.store import samples as s
from tests.store.samples import ADMIN, GATEWAY, NOON, T


def stored(database: Database, table: Table) -> list[tuple[Any, ...]]:
    with database.read() as connection:
        return [tuple(row) for row in connection.execute(select(table).order_by(*table.primary_key.columns))]


def test_new_hold_with_every_field(database: Database) -> None:
    given = s.hold(
        quote=s.METERED,
        amount=Decimal("0.018"),
        labels={"cost_centre": "4711", "project": "größer"},
        budget_ids=("team", "user"),
        exclusive_key="order-1",
        request_group="group-1",
        provider_receipt="rcpt-1",
        inferred=True,
        execution_seen=True,
        usage_seen=True,
        **s.DISPATCHED,
    )
    s.write(database, s.with_hold(given))
    assert s.read(database, [s.settle()]).holds == {(T, "op-1"): given}


def test_new_hold_with_few_fields(database: Database) -> None:
    s.write(database, s.with_hold(s.hold()))
    found = s.read(database, [s.settle()]).holds[(T, "op-1")]
    assert found == s.hold()
    assert found.state is HoldState.RESERVED
    assert found.created_at.tzinfo is UTC or found.created_at.utcoffset() == timedelta(0)


def test_changed_hold(database: Database) -> None:
    before = s.hold(labels={"a": "b"}, exclusive_key="order-1", **s.DISPATCHED)
    s.write(database, s.with_hold(before))
    after = before._replace(**s.SETTLED, provider_receipt="rcpt-1", updated_at=NOON + timedelta(hours=1), version=2)
    s.write(database, s.with_hold(after), s.read(database, [s.settle()]))
    found = s.read(database, [s.settle()]).holds[(T, "op-1")]
    assert found == after
    assert found.resolution_kind is ResolutionKind.USAGE


def test_hold_whose_attempt_failed_before_it_was_sent(database: Database) -> None:
    before = s.hold(**s.DISPATCHED)
    s.write(database, s.with_hold(before))
    failure = {"attempt": "1", "cause": "DNS_FAILURE", "adapter": "sdk", "adapter_revision": "7", "nonce": "6e"}
    after = before._replace(failure=failure, retry_until=NOON, lease_expires_at=None, nonce_hash=None, version=2)
    s.write(database, s.with_hold(after), s.read(database, [s.settle()]))
    assert s.read(database, [s.settle()]).holds[(T, "op-1")] == after


def test_observations_and_who_has_a_receipt(database: Database) -> None:
    bare = s.observation(observation_id=UUID(int=12), provider=None, provider_receipt=None, observed_at=None)
    s.write(database, Decision(observations=[s.observation(), bare]))
    assert [Observation._make(row) for row in stored(database, r.observation)] == [s.observation(), bare]
    s.write(database, s.with_hold(s.hold("op-2", provider_receipt="rcpt-2", **s.DISPATCHED)))
    commands = [RecordReceipt(GATEWAY, "k", "op-9", "stripe", f"rcpt-{number}") for number in (1, 2, 3)]
    assert s.read(database, commands).bound == {(T, "stripe", "rcpt-1"): "op-1", (T, "stripe", "rcpt-2"): "op-2"}
    # The same id of another provider is another receipt.
    assert s.read(database, [RecordReceipt(GATEWAY, "k", "op-9", "adyen", "rcpt-2")]).bound == {}


def test_who_has_a_receipt_that_evidence_brings(database: Database) -> None:
    holds = [s.hold("op-2", provider_receipt="rcpt-2", **s.DISPATCHED), s.hold("op-3", **s.DISPATCHED)]
    s.write(database, Decision(holds={(T, h.operation_id): h for h in holds}))
    brings = Usage("WEBHOOK", "stripe", "refund", "", "test", "1", provider_receipt="rcpt-2")
    assert s.read(database, [replace(s.settle("op-3"), evidence=brings)]).bound == {(T, "stripe", "rcpt-2"): "op-2"}
    assert s.read(database, [replace(s.settle("op-2"), evidence=brings)]).bound == {}, "it is its own"
    assert s.read(database, [s.settle("op-3")]).bound == {}


def test_nonces_of_attempts_that_failed(database: Database) -> None:
    failure = {"attempt": "2", "cause": "DNS_FAILURE", "adapter": "sdk", "adapter_revision": "7", "nonce": "6f"}
    ended = s.DISPATCHED | {"attempt": 2, "generation": 2, "nonce_hash": None, "lease_expires_at": None}
    twice = s.hold("op-1", failure=failure, retry_until=NOON, **ended)
    said = [
        s.observation(
            observation_id=UUID(int=number), source="RecordFailedBeforeDispatch", value="NOT_SENT", detail={"nonce": nonce},
            provider=None, provider_receipt=None,
        )
        for number, nonce in ((21, "6e"), (22, "6f"))
    ]  # fmt: skip
    other = s.observation(observation_id=UUID(int=23), provider=None, provider_receipt=None)
    s.write(database, Decision(holds={(T, "op-1"): twice}, observations=[*said, other]))
    begin = BeginDispatch(GATEWAY, "k", "op-1", Dispatch("nonce-0123456789", timedelta(minutes=1), "pod"))
    assert s.read(database, [begin]).ended == {(T, "op-1"): [b"n", b"o"]}


def test_entries_and_postings(database: Database) -> None:
    linked = s.entry(UUID(int=3), kind=EntryKind.CORRECT, corrects=UUID(int=2))
    entries = [
        s.entry(),
        s.entry(UUID(int=2), operation_id=None, effective_at=datetime(2020, 1, 1, tzinfo=UTC)),
        linked,
    ]
    lines = [
        s.posting(1, Account.AVAILABLE, "0.000000000000000001"),
        s.posting(2, Account.HELD, "-0.000000000000000001"),
        Posting(T, "org#0", 1, UUID(int=2), Account.AUTHORITY, Decimal("99999999999999999999.999999999999999999")),
        Posting(T, "org#0", 2, UUID(int=2), Account.AVAILABLE, Decimal("-99999999999999999999.999999999999999999")),
    ]
    s.write(database, Decision(entries=entries, postings=lines))
    assert stored(database, t.entry) == sorted(tuple(e) for e in entries)
    assert stored(database, t.posting) == sorted(tuple(p) for p in lines)


def test_receipts(database: Database) -> None:
    refused = s.receipt(
        "key-2", outcome=Reason.INSUFFICIENT_BUDGET, refusal={"message": "no", "metadata": {"x": "1"}}, state=None
    )
    s.write(database, Decision(receipts=[s.receipt(), refused, s.receipt("key-3")]))
    loaded = s.read(database, [s.reserve("op-1", key="key-1"), s.reserve("op-2", key="key-2"), s.reserve("op-4")])
    assert loaded.receipts == {s.receipt()[:4]: s.receipt(), refused[:4]: refused}


def test_evidence_resolutions_and_incidents(database: Database) -> None:
    rejected = s.evidence(
        evidence_id=UUID(int=8),
        classification=Classification.REJECTED,
        reasons=("provider is x, quoted was y", "input_tokens is\x1fnegative"),
        observed_at=NOON,
        provider_receipt="rcpt-1",
        digest=b"d" * 32,
        payload_digest=b"p" * 32,
        body={"document": '{"a": [1, 2.50]}', "nothing": None},
    )
    revised = s.resolution(
        revision=2, supersedes=b"d" * 32, digest=b"e" * 32, lines=(), evidence_id=None, entry_id=None, reason="bill"
    )
    s.write(
        database,
        Decision(evidence=[s.evidence(), rejected], resolutions=[s.resolution(), revised], incidents=[s.incident()]),
    )
    kept = [Evidence._make(row)._replace(reasons=tuple(row[6])) for row in stored(database, r.evidence)]
    assert kept == [s.evidence(), rejected._replace(reasons=(rejected.reasons[0], "input_tokens is negative"))]
    facts = [
        Resolution._make(row)._replace(lines=tuple(row[9]), passed_ceilings=tuple(row[10]))
        for row in stored(database, r.resolution)
    ]
    assert facts == [s.resolution(), revised]
    assert [Incident._make(row) for row in stored(database, r.incident)] == [s.incident()]


def test_revisions_of_a_hold_that_was_corrected(database: Database) -> None:
    first = s.resolution(lines=({"bucket": "requests", "amount": "2.25"},))
    second = s.resolution(
        revision=2, supersedes=b"d" * 32, digest=b"e" * 32, kind=ResolutionKind.NO_COST, amount=Decimal(0), lines=()
    )
    other = s.resolution(operation_id="op-2")
    corrected = s.hold(**{**s.DISPATCHED, **s.SETTLED, "revision": 2})
    for hold in (s.hold(), s.hold("op-2")):
        s.write(database, s.with_hold(hold))
    for state in (s.DISPATCHED, s.SETTLED, {"revision": 2}):
        hold = s.read(database, [s.settle()]).holds[(T, "op-1")]
        s.write(database, s.with_hold(hold._replace(**state, version=hold.version + 1)), s.read(database, [s.settle()]))
    s.write(database, Decision(resolutions=[first, second, other]))
    assert s.read(database, [s.settle()]).resolutions == {(T, "op-1"): [first, second]}
    # Of a hold at its first revision they are needed only to correct it.
    assert s.read(database, [s.settle("op-2")]).resolutions == {}
    assert s.read(database, [s.correct(s.hold("op-2"), "1")]).resolutions == {(T, "op-2"): [other]}
    assert s.read(database, [s.correct(corrected, "1")]).resolutions == {(T, "op-1"): [first, second]}


def test_what_waits_and_what_waited_in_vain(database: Database) -> None:
    second = s.parked(evidence_id=UUID(int=8), identity=b"j" * 32, kind=ResolutionKind.NO_COST, role=Role.FINANCE)
    other = s.parked(operation_id="op-2", tenant="tenant-b")
    case = s.incident()._replace(kind="ORPHAN_EVIDENCE", detail={"kind": "USAGE"})
    s.write(database, Decision(parked=[s.parked(), second, other], incidents=[case]))
    s.write(database, Decision(incidents=[s.incident()._replace(incident_id=UUID(int=10))]))
    signs = [
        Sign(T, "op-1", b"i" * 32, None, "USAGE", NOON),
        Sign(T, "op-1", b"j" * 32, None, "NO_COST", NOON),
        Sign(T, "op-1", None, case.incident_id, "USAGE", NOON),
    ]
    for command in (s.settle(), s.reserve()):
        found = dict(s.read(database, [command]).signs)
        assert sorted(found.pop((T, "op-1")), key=lambda sign: sign[2] or b"k") == signs
        assert found == {}
    assert s.read(database, [s.settle()]).waiting == {T: 2}
    usage = Usage("WEBHOOK", "stripe", "", "", "test", "1", charged=Decimal(1), charged_currency="USD")
    waiting = s.parked(
        evidence_id=UUID(int=9), identity=b"k" * 32, report=to_document(Resolve(GATEWAY, "k", "o", usage))
    )
    s.write(database, Decision(parked=[waiting]))
    command = filing(waiting, timedelta(days=1))
    assert s.read(database, [command]).parked == {command.parked_key: waiting}
    assert s.read(database, [command]).signs == {}
    s.write(database, Decision(unparked=[command.parked_key]))
    assert s.read(database, [command]).parked == {}
    with pytest.raises(StaleRow, match="1 of 1 rows of parked"):
        s.write(database, Decision(unparked=[command.parked_key]))
    with database.read() as connection:
        assert list_parked(connection, T, limit=9).items == (s.parked(), second)


def test_newest_card_and_pinned_card(database: Database) -> None:
    s.write(database, Decision(cards=[s.card(1), s.card(2), s.card(1, "other")]))
    s.write(database, s.with_hold(s.hold(quote=s.METERED, books=(), **s.DISPATCHED)))
    put = PutPriceCard(ADMIN, "k", s.card(0))
    loaded = s.read(database, [put, s.settle()])
    assert loaded.cards == {(T, "gpt-x", 0): s.card(2), (T, "gpt-x", 2): s.card(2)}
    s.write(database, Decision(cards=[s.card(3)]))
    assert s.read(database, [put]).cards[(T, "gpt-x", 0)] == s.card(3)
    assert s.read(database, [put, s.settle()]).cards[(T, "gpt-x", 2)] == s.card(2)


def test_exclusive_key_is_owned_by_an_open_hold_only(database: Database) -> None:
    command = s.reserve("op-2", exclusive_key="order-1")
    s.write(database, s.with_hold(s.hold("op-1", exclusive_key="order-1")))
    assert s.read(database, [command]).exclusive == {(T, "order-1"): "op-1"}
    released = s.hold(
        "op-1", exclusive_key="order-1", version=2, state=HoldState.RELEASED, revision=1, settled=Decimal(0)
    )
    s.write(database, s.with_hold(released), s.read(database, [s.settle("op-1")]))
    assert s.read(database, [command]).exclusive == {}


def test_clock_and_transaction(database: Database) -> None:
    with database.transaction() as connection:
        loaded, transaction_id = load(connection, [CreateBudget(ADMIN, "k", "org", None, "USD", "", None)], 5, uuid4)
        connection.commit()
    assert abs(loaded.now - datetime.now(UTC)) < timedelta(minutes=1)
    assert loaded.now.utcoffset() == timedelta(0)
    assert loaded.stripe == 5
    assert s.column(database, f"SELECT pg_xact_status('{int(transaction_id)}'::xid8)") == ["committed"]


def test_tables_have_the_fields_of_the_model() -> None:
    flat = {
        "limit": ["limit_amount"],
        "schedule": ["period", "zone", "anchor", "period_seconds"],
        "rollover": ["rollover", "rollover_cap"],
        "thresholds": ["thresholds", "threshold_basis"],
    }
    for table, sample in (
        (t.budget, s.budget()), (t.book, s.book()), (t.hold, s.hold()), (t.entry, s.entry()),
        (t.posting, s.posting(1, Account.HELD, "1")), (r.receipt, s.receipt()), (r.evidence, s.evidence()), (r.parked, s.parked()),
        (r.observation, s.observation()), (r.resolution, s.resolution()), (r.incident, s.incident()), (r.budget_grant, s.grant()),
    ):  # fmt: skip
        names = [f.name for f in fields(sample)] if is_dataclass(sample) else sample._fields
        assert {column for name in names for column in flat.get(name, [name])} == set(table.c.keys()), table.name
