"""What is believed of a transaction whose COMMIT did not answer."""

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from uuid import UUID, uuid4

import psycopg

from ledger.domain.attempt_commands import Heartbeat
from ledger.domain.batch import Decision
from ledger.domain.claims import Claim
from ledger.domain.commands import VerifyWrite
from ledger.domain.invocations import Receipt
from ledger.domain.model import Classification, Entry, EntryKind, Evidence, Incident
from ledger.domain.states import ResolutionKind
from ledger.engine.batch import Runner
from ledger.store.database import Database
from ledger.store.fate import Fate, fate_of
from tests.engine.asks import GATEWAY, NONCE, reserve, resolve, told

NOW = datetime(2026, 3, 1, tzinfo=UTC)


def ask(database: Database, transaction_id: str, decision: Decision) -> Fate:
    with database.read() as connection:
        return fate_of(connection, transaction_id, decision)


def entry(entry_id: UUID) -> Entry:
    return Entry("acme", entry_id, EntryKind.RESERVE, "USD", NOW, NOW, date(2026, 3, 1), "a", "gateway")


def xid(connection: psycopg.Connection) -> str:
    row = connection.execute("SELECT pg_current_xact_id()::text").fetchone()
    assert row is not None
    return str(row[0])


def test_aborted_in_progress_and_not_given_out(database: Database, superuser: psycopg.Connection) -> None:
    with superuser.transaction(force_rollback=True):
        aborted = xid(superuser)
        assert ask(database, aborted, Decision()) is Fate.UNKNOWN
    assert ask(database, aborted, Decision()) is Fate.ABORTED
    assert ask(database, str(int(aborted) + 1_000_000), Decision()) is Fate.ABORTED


def test_committed_is_believed_for_a_decision_that_wrote_nothing(
    database: Database, superuser: psycopg.Connection
) -> None:
    assert ask(database, xid(superuser), Decision()) is Fate.COMMITTED


def test_a_committed_stranger_with_the_same_number_is_not_believed(
    database: Database, superuser: psycopg.Connection
) -> None:
    stranger = xid(superuser)
    evidence = Evidence(
        "acme", "a", uuid4(), 1, ResolutionKind.USAGE, Classification.REJECTED, (), "WEBHOOK", "g", "sdk", "7", "#built-in/1",
        None, NOW, None, None, b"f", None, {},
    )  # fmt: skip
    receipt = Receipt("acme", "gateway", "Reserve", "k", b"x", 1, "a", "OK", None, "RESERVED", NOW)
    opened = Incident("acme", uuid4(), "WRITE_MISMATCH", "a", NOW, {})
    for decision in (
        Decision(entries=[entry(uuid4())]),
        Decision(evidence=[evidence]),
        Decision(receipts=[receipt]),
        Decision(incidents=[opened]),
    ):
        assert ask(database, stranger, decision) is Fate.ABORTED


def test_a_row_of_the_decision_is_the_witness(
    database: Database, runner: Runner, superuser: psycopg.Connection
) -> None:
    assert told(runner, reserve("a", "1", dispatch=True)) == ["DISPATCHING"]
    assert told(runner, resolve("a", "0.5")) == ["SETTLED"]
    committed = xid(superuser)
    (entry_id,) = superuser.execute("SELECT entry_id FROM entry WHERE kind = 'SETTLE'").fetchall()[0]
    assert ask(database, committed, Decision(entries=[entry(entry_id)])) is Fate.COMMITTED
    (fingerprint, recorded_at) = superuser.execute(
        "SELECT fingerprint, recorded_at FROM receipt WHERE command = 'Reserve'"
    ).fetchall()[0]
    receipt = Receipt("acme", "gateway", "Reserve", "r-a", fingerprint, 1, "a", "OK", None, "DISPATCHING", recorded_at)
    assert ask(database, committed, Decision(receipts=[receipt])) is Fate.COMMITTED
    assert ask(database, committed, Decision(receipts=[receipt._replace(recorded_at=NOW)])) is Fate.ABORTED


def test_the_witness_of_a_heartbeat_is_the_hold_as_it_left_it(
    database: Database, runner: Runner, superuser: psycopg.Connection
) -> None:
    assert told(runner, reserve("a", "1", dispatch=True)) == ["DISPATCHING"]
    beat = Heartbeat(GATEWAY, "a", "a", NONCE, timedelta(minutes=20))
    (outcome,) = runner.execute([beat])
    assert outcome.hold is not None
    assert outcome.may_continue
    committed = xid(superuser)
    assert ask(database, committed, Decision(holds={beat.hold_key: outcome.hold})) is Fate.COMMITTED
    # A heartbeat whose row has moved on is told as lost: it is sent again, and does no harm.
    assert told(runner, resolve("a", "0.5")) == ["SETTLED"]
    assert ask(database, committed, Decision(holds={beat.hold_key: outcome.hold})) is Fate.ABORTED


def test_the_witness_of_a_case_is_the_case_that_was_opened_then(
    database: Database, runner: Runner, superuser: psycopg.Connection
) -> None:
    assert told(runner, reserve("a", "1")) == ["RESERVED"]
    (outcome,) = runner.execute([VerifyWrite(GATEWAY, "v", "a", Claim(amount=(Decimal(2), "USD")))])
    assert outcome.incident_id is not None
    assert outcome.as_of is not None
    committed = xid(superuser)
    opened = Incident("acme", outcome.incident_id, "WRITE_MISMATCH", "a", outcome.as_of, {})
    assert ask(database, committed, Decision(incidents=[opened])) is Fate.COMMITTED
    # The same case, opened by another: ours was not written, and is tried again.
    later = opened._replace(opened_at=outcome.as_of + timedelta(microseconds=1))
    assert ask(database, committed, Decision(incidents=[later])) is Fate.ABORTED


def test_the_witness_of_what_waits_no_longer_is_that_it_is_gone(
    database: Database, runner: Runner, superuser: psycopg.Connection
) -> None:
    (outcome,) = runner.execute([resolve("early", "1")])
    assert outcome.parked
    (waits,) = superuser.execute("SELECT tenant, operation_id, evidence_id FROM parked").fetchall()
    committed = xid(superuser)
    assert ask(database, committed, Decision(unparked=[waits])) is Fate.ABORTED
    superuser.execute("DELETE FROM parked")
    assert ask(database, committed, Decision(unparked=[waits])) is Fate.COMMITTED
