"""What time does to holds: through the same rules and the same lanes, by as many servers as like."""

import asyncio
from pathlib import Path

import psycopg
import pytest

from ledger.domain.commands import Lapse
from ledger.domain.model import Caller, Role
from ledger.engine.lane import Engine
from ledger.engine.reader import Reader
from ledger.reconcile.expiry import Expiry
from ledger.reconcile.looper import Looper
from ledger.store.database import Database
from ledger.v1 import hold_pb2, journal_pb2
from tests.service.harness import NONCE, Ledger, reserve_request, resolve_request, sending_request, serving


async def state(ledger: Ledger, operation_id: str) -> str:
    answer = await ledger.auditor.holds.GetHold(hold_pb2.GetHoldRequest(operation_id=operation_id))
    return hold_pb2.HoldState.Name(answer.hold.state).removeprefix("HOLD_STATE_")


async def until(ledger: Ledger, operation_id: str, wanted: str) -> None:
    for _ in range(200):
        if await state(ledger, operation_id) == wanted:
            return
        await asyncio.sleep(0.05)
    raise AssertionError(f"{operation_id} is still {await state(ledger, operation_id)}")


def age(database_url: str) -> None:
    """An hour passes for the holds that are there."""
    with psycopg.connect(database_url) as connection:
        connection.execute("SET session_replication_role = replica")
        connection.execute(
            "UPDATE hold SET expire_at = expire_at - interval '1 hour', lease_expires_at = lease_expires_at - interval '1 hour',"
            " retry_until = retry_until - interval '1 hour'"
        )


async def test_the_sweep(database_url: str, tmp_path: Path) -> None:
    async with serving(database_url, tmp_path, sweep_seconds=0.1) as ledger:
        await ledger.budget()
        holds = ledger.gateway.holds
        await holds.Reserve(reserve_request("reserved"))
        await holds.Reserve(sending_request("sent"))
        await holds.Reserve(sending_request("settled"))
        await holds.Resolve(resolve_request("settled", "0.5"))
        await asyncio.sleep(0.3)
        assert await state(ledger, "reserved") == "RESERVED", "not before its time"
        age(database_url)
        await holds.Reserve(reserve_request("young"))
        await until(ledger, "reserved", "RELEASED")
        await until(ledger, "sent", "OUTCOME_UNKNOWN")
        assert [await state(ledger, name) for name in ("settled", "young")] == ["SETTLED", "RESERVED"]
        # Evidence still settles what time made unknown.
        assert (await holds.Resolve(resolve_request("sent", "0.7"))).hold.state == hold_pb2.HOLD_STATE_SETTLED
        entries = (await ledger.auditor.journal.ListEntries(journal_pb2.ListEntriesRequest())).entries
        by_time = {
            (entry.operation_id, journal_pb2.EntryKind.Name(entry.kind))
            for entry in entries
            if entry.actor == "system:expiry"
        }
        assert by_time == {("reserved", "ENTRY_KIND_RELEASE"), ("sent", "ENTRY_KIND_OUTCOME_UNKNOWN")}


async def test_a_queue_that_is_shorter_than_a_round_is_swept_in_parts(database_url: str, tmp_path: Path) -> None:
    async with serving(database_url, tmp_path, sweep_seconds=0.1, max_queue=2) as ledger:
        await ledger.budget()
        for i in range(5):
            await ledger.gateway.holds.Reserve(reserve_request(f"op-{i}"))
        age(database_url)
        for i in range(5):
            await until(ledger, f"op-{i}", "RELEASED")


async def test_servers_that_sweep_at_once_do_no_harm(database_url: str, tmp_path: Path) -> None:
    async with serving(database_url, tmp_path) as ledger:
        await ledger.budget()
        batch = [hold_pb2.Command(reserve=reserve_request(f"op-{i}")) for i in range(50)]
        await ledger.gateway.holds.BatchExecute(hold_pb2.BatchExecuteRequest(commands=batch))
        age(database_url)
        databases = [Database(database_url) for _ in range(3)]
        engines, sweeps = [], []
        for database in databases:
            engine = Engine(database)
            engine.start()
            engines.append(engine)
            sweeps.append(Expiry(engine, Reader(database), 3600))
        await asyncio.gather(*(sweep.tick() for sweep in sweeps))
        for engine, database in zip(engines, databases, strict=True):
            assert await engine.stop(10)
            database.close()
        released = hold_pb2.ListHoldsRequest(state=hold_pb2.HOLD_STATE_RELEASED)
        assert len((await ledger.auditor.holds.ListHolds(released)).holds) == 50
        balance = journal_pb2.GetBalanceRequest(account=journal_pb2.ACCOUNT_AVAILABLE, budget_id="team")
        assert (await ledger.auditor.journal.GetBalance(balance)).balance.amount == "100"


async def test_a_lapse_that_comes_too_early_or_too_late_changes_nothing(database_url: str, tmp_path: Path) -> None:
    async with serving(database_url, tmp_path) as ledger:
        await ledger.budget()
        await ledger.gateway.holds.Reserve(reserve_request("op-1"))
        database = Database(database_url)
        engine = Engine(database)
        engine.start()
        lapse = Lapse(Caller("acme", "system:expiry", Role.SYSTEM), "op-1", "op-1")
        early = await engine.submit_one(lapse)
        assert (early.refusal, early.applied) == (None, False)
        age(database_url)
        assert (await engine.submit_one(lapse)).applied
        assert not (await engine.submit_one(lapse)).applied
        assert await engine.stop(10)
        database.close()
        assert await state(ledger, "op-1") == "RELEASED"


class Counter(Looper):
    def __init__(self, more: int) -> None:
        super().__init__(0.01)
        self.ticks = 0
        self.more = more

    async def tick(self) -> bool:
        self.ticks += 1
        if self.ticks == 2:
            raise RuntimeError("a bad round")
        return self.ticks < self.more


async def test_a_round_that_fails_is_not_the_last(caplog: pytest.LogCaptureFixture) -> None:
    counter = Counter(more=0)
    counter.start()
    while counter.ticks < 4:
        await asyncio.sleep(0.01)
    await counter.stop()
    ticks = counter.ticks
    await asyncio.sleep(0.05)
    assert counter.ticks == ticks, "stopped is stopped"
    assert caplog.messages == ["a round of Counter failed"]


async def test_an_attempt_that_failed_before_it_was_sent_is_settled_when_no_other_came(
    database_url: str, tmp_path: Path
) -> None:
    async with serving(database_url, tmp_path, sweep_seconds=0.1) as ledger:
        await ledger.budget()
        holds = ledger.gateway.holds
        for name in ("over", "waiting"):
            await holds.Reserve(sending_request(name, "5"))
        failed = hold_pb2.RecordFailedBeforeDispatchRequest(
            idempotency_key="f",
            operation_id="over",
            nonce=NONCE,
            cause=hold_pb2.NEVER_SENT_CAUSE_DNS_FAILURE,
            adapter="sdk",
        )
        await holds.RecordFailedBeforeDispatch(failed)
        age(database_url)
        await until(ledger, "waiting", "OUTCOME_UNKNOWN")
        await until(ledger, "over", "SETTLED")
        answer = await ledger.auditor.holds.GetHold(hold_pb2.GetHoldRequest(operation_id="over"))
        assert answer.hold.resolution.kind == hold_pb2.RESOLUTION_KIND_NO_COST
        # Of two holds of 5 one is free again, and the other's outcome is unknown.
        balance = journal_pb2.GetBalanceRequest(account=journal_pb2.ACCOUNT_AVAILABLE, budget_id="team")
        assert (await ledger.auditor.journal.GetBalance(balance)).balance.amount == "95"
