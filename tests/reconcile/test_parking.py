"""Evidence before its hold, over gRPC: parked, filed by the worker, and a case if the hold does not come."""

import asyncio
from pathlib import Path
from typing import Any

import psycopg
import pytest

from ledger.engine.lane import Engine
from ledger.engine.reader import Reader
from ledger.reconcile.parking import Parking
from ledger.store.database import Database
from ledger.v1 import evidence_pb2, hold_pb2, journal_pb2
from tests.service.harness import (
    NONCE,
    Ledger,
    refusal,
    reserve_request,
    resolve_request,
    sending_request,
    serving,
)
from tests.watching import violations

DAY = 86_400.0


def webhook(operation_id: str, amount: str = "1", **fields: Any) -> hold_pb2.ResolveRequest:
    request = resolve_request(operation_id, amount, **fields)
    request.usage.source = hold_pb2.EVIDENCE_SOURCE_WEBHOOK
    request.usage.provider_receipt = f"r-{operation_id}"
    return request


def rejection(operation_id: str) -> hold_pb2.ResolveRequest:
    proof = hold_pb2.NoCostProof(
        kind=hold_pb2.NO_COST_KIND_REJECTED_BEFORE_EXECUTION, provider_status=429, provider_request_id="q-1"
    )
    return hold_pb2.ResolveRequest(idempotency_key=f"n-{operation_id}", operation_id=operation_id, no_cost=proof)


async def hold_of(ledger: Ledger, operation_id: str) -> hold_pb2.Hold:
    hold: hold_pb2.Hold = (await ledger.auditor.holds.GetHold(hold_pb2.GetHoldRequest(operation_id=operation_id))).hold
    return hold


async def until(ledger: Ledger, operation_id: str, state: "hold_pb2.HoldState.ValueType") -> hold_pb2.Hold:
    for _ in range(200):
        hold = await hold_of(ledger, operation_id)
        if hold.state == state:
            return hold
        await asyncio.sleep(0.05)
    raise AssertionError(f"{operation_id} is still {hold}")


async def parked(ledger: Ledger, **asked: Any) -> list[str]:
    found = await ledger.auditor.evidence.ListParkedEvidence(evidence_pb2.ListParkedEvidenceRequest(**asked))
    return [evidence.operation_id for evidence in found.evidence]


async def test_a_webhook_then_the_reserve_then_the_worker(database_url: str, tmp_path: Path) -> None:
    async with serving(database_url, tmp_path, sweep_seconds=0.1) as ledger:
        await ledger.budget()
        holds = ledger.gateway.holds
        first = await holds.Resolve(webhook("op-1", "0.75"))
        assert (first.parked, first.replayed, first.HasField("hold"), first.incident_id) == (True, False, False, "")
        again = await holds.Resolve(webhook("op-1", "0.75"))
        assert (again.parked, again.replayed, again.HasField("hold")) == (True, True, False)
        assert await parked(ledger) == ["op-1"]
        assert violations(database_url) == []

        reserved = await holds.Reserve(sending_request("op-1", "2"))
        assert not reserved.may_send
        assert reserved.hold.attempt.inferred
        settled = await until(ledger, "op-1", hold_pb2.HOLD_STATE_SETTLED)
        assert settled.resolution.amount.amount == "0.75"
        assert (settled.attempt.inferred, settled.attempt.provider_receipt) == (True, "r-op-1")
        late = await holds.BeginDispatch(
            hold_pb2.BeginDispatchRequest(
                idempotency_key="b-1", operation_id="op-1", dispatch=hold_pb2.Dispatch(nonce=NONCE)
            )
        )
        assert not late.may_send
        assert (await hold_of(ledger, "op-1")).version == settled.version
        replay = await holds.Resolve(webhook("op-1", "0.75"))
        assert (replay.parked, replay.replayed, replay.hold.state) == (False, True, hold_pb2.HOLD_STATE_SETTLED)
        assert await parked(ledger) == []

        entries = (await ledger.auditor.journal.ListEntries(journal_pb2.ListEntriesRequest())).entries
        of_op = [(journal_pb2.EntryKind.Name(e.kind), e.actor) for e in entries if e.operation_id == "op-1"]
        assert of_op == [("ENTRY_KIND_RESERVE", "gateway-1"), ("ENTRY_KIND_SETTLE", "gateway-1")]
        balance = journal_pb2.GetBalanceRequest(account=journal_pb2.ACCOUNT_AVAILABLE, budget_id="team")
        assert (await ledger.auditor.journal.GetBalance(balance)).balance.amount == "99.25"
    assert violations(database_url) == []


async def test_a_report_that_cannot_be_read_does_not_hold_up_the_others(database_url: str, tmp_path: Path) -> None:
    async with serving(database_url, tmp_path, sweep_seconds=3600) as ledger:
        await ledger.budget()
        for operation in ("op-1", "op-2"):
            await ledger.gateway.holds.Resolve(webhook(operation))
    with psycopg.connect(database_url) as connection:
        # As a newer version might write it.
        connection.execute("ALTER TABLE parked DISABLE TRIGGER USER")
        connection.execute(
            "UPDATE parked SET report = jsonb_set(report, '{Usage,of_the_future}', '\"1\"') WHERE operation_id = 'op-1'"
        )
        connection.execute("ALTER TABLE parked ENABLE TRIGGER USER")
    (tmp_path / "tokens.jsonl").unlink()
    async with serving(database_url, tmp_path, sweep_seconds=0.1) as ledger:
        for operation in ("op-1", "op-2"):
            await ledger.gateway.holds.Reserve(sending_request(operation, "2"))
        await until(ledger, "op-2", hold_pb2.HOLD_STATE_SETTLED)
        assert await parked(ledger) == ["op-1"]


async def test_what_says_nothing_of_the_call_is_not_parked(database_url: str, tmp_path: Path) -> None:
    async with serving(database_url, tmp_path, sweep_seconds=0.1) as ledger:
        await ledger.budget()
        never = rejection("op-1")
        never.no_cost.kind = hold_pb2.NO_COST_KIND_NEVER_SENT
        never.no_cost.cause = hold_pb2.NEVER_SENT_CAUSE_DNS_FAILURE
        assert (await refusal(ledger.gateway.holds.Resolve(never)))[:2] == ("NOT_FOUND", "NOT_FOUND")
        assert (await ledger.gateway.holds.Resolve(rejection("op-1"))).parked
        assert not (await ledger.gateway.holds.Reserve(sending_request("op-1"))).may_send
        free = await until(ledger, "op-1", hold_pb2.HOLD_STATE_SETTLED)
        assert (free.resolution.kind, free.resolution.amount.amount) == (hold_pb2.RESOLUTION_KIND_NO_COST, "0")


async def test_evidence_of_another_provider_leaves_the_hold_unknown(database_url: str, tmp_path: Path) -> None:
    async with serving(database_url, tmp_path, sweep_seconds=0.1) as ledger:
        await ledger.budget()
        request = webhook("op-1")
        request.usage.provider = "another"
        batch = [hold_pb2.Command(resolve=request), hold_pb2.Command(reserve=sending_request("op-1"))]
        answer = await ledger.gateway.holds.BatchExecute(hold_pb2.BatchExecuteRequest(commands=batch))
        assert answer.results[0].resolve.parked
        assert not answer.results[1].reserve.may_send
        unknown = await until(ledger, "op-1", hold_pb2.HOLD_STATE_OUTCOME_UNKNOWN)
        assert unknown.attempt.inferred
        assert await parked(ledger) == []
    assert violations(database_url) == []


async def test_evidence_whose_hold_does_not_come_is_an_incident(database_url: str, tmp_path: Path) -> None:
    async with serving(database_url, tmp_path, sweep_seconds=0.1, parking_seconds=0.3) as ledger:
        await ledger.budget()
        await ledger.gateway.holds.Resolve(webhook("op-1"))
        for _ in range(200):
            found = await ledger.finance.holds.ListIncidents(hold_pb2.ListIncidentsRequest())
            if found.incidents:
                break
            await asyncio.sleep(0.05)
        (case,) = found.incidents
        assert (case.kind, case.operation_id) == (hold_pb2.INCIDENT_KIND_ORPHAN_EVIDENCE, "op-1")
        assert (case.detail["source"], case.detail["actor"]) == ("WEBHOOK", "gateway-1")
        assert await parked(ledger) == []
        told = await ledger.gateway.holds.Resolve(webhook("op-1"))
        assert (told.parked, told.incident_id) == (True, case.incident_id)
        assert violations(database_url) == []
        # It counts against a reserve even now.
        assert not (await ledger.gateway.holds.Reserve(sending_request("op-1"))).may_send
        await until(ledger, "op-1", hold_pb2.HOLD_STATE_OUTCOME_UNKNOWN)
    assert violations(database_url) == []


async def test_sixteen_reports_of_one_operation_wait_and_no_more(database_url: str, tmp_path: Path) -> None:
    async with serving(database_url, tmp_path) as ledger:
        await ledger.budget()
        reports = [webhook("op-1", f"0.{cents:02}", idempotency_key=f"k{cents}") for cents in range(1, 18)]
        for request in reports[:16]:
            assert (await ledger.gateway.holds.Resolve(request)).parked
        for _ in range(2):
            code, reason, facts = await refusal(ledger.gateway.holds.Resolve(reports[16]))
            assert (code, reason) == ("FAILED_PRECONDITION", "EVIDENCE_NOT_PARKED")
        (case,) = (await ledger.finance.holds.ListIncidents(hold_pb2.ListIncidentsRequest())).incidents
        assert case.incident_id == facts["incident_id"]
        assert (await ledger.gateway.holds.Resolve(webhook("op-2"))).parked
        assert await parked(ledger) == ["op-1"] * 16 + ["op-2"]
        assert await parked(ledger, operation_id="op-2") == ["op-2"]
        page = await ledger.auditor.evidence.ListParkedEvidence(evidence_pb2.ListParkedEvidenceRequest(page_size=10))
        rest = await parked(ledger, page_size=10, page_token=page.next_page_token)
        assert rest == ["op-1"] * 6 + ["op-2"]
        one = page.evidence[0]
        assert (one.kind, one.source, one.actor, one.reporter) == (
            hold_pb2.RESOLUTION_KIND_USAGE,
            hold_pb2.EVIDENCE_SOURCE_WEBHOOK,
            "gateway-1",
            evidence_pb2.REPORTER_GATEWAY,
        )
        code, reason, _ = await refusal(
            ledger.gateway.evidence.ListParkedEvidence(evidence_pb2.ListParkedEvidenceRequest())
        )
        assert (code, reason) == ("PERMISSION_DENIED", "ROLE_NOT_ALLOWED")
        # The refused key was never claimed, and the same report is taken once there is a hold.
        await ledger.gateway.holds.Reserve(reserve_request("op-1", "1"))
        answer = await ledger.gateway.holds.Resolve(reports[16])
        assert (answer.replayed, answer.hold.resolution.amount.amount) == (False, "0.17")
    assert violations(database_url) == []


async def test_workers_of_several_servers_file_each_report_once(database_url: str, tmp_path: Path) -> None:
    """More of them than one round takes, and some without a hold in between."""
    async with serving(database_url, tmp_path) as ledger:
        await ledger.budget()
        both = [f"op-{i:02}" for i in range(40)]
        for names in (both, [f"none-{i:02}" for i in range(20)]):
            batch = [hold_pb2.Command(resolve=webhook(name, "0.5")) for name in names]
            await ledger.gateway.holds.BatchExecute(hold_pb2.BatchExecuteRequest(commands=batch))
        batch = [hold_pb2.Command(reserve=reserve_request(name)) for name in both]
        await ledger.gateway.holds.BatchExecute(hold_pb2.BatchExecuteRequest(commands=batch))
        databases = [Database(database_url) for _ in range(3)]
        engines = [Engine(database) for database in databases]
        workers = []
        for engine, database in zip(engines, databases, strict=True):
            engine.start()
            worker = Parking(engine, Reader(database), 3600, DAY)
            worker._most = 7
            workers.append(worker)

        async def work(worker: Parking) -> int:
            rounds = 1
            while await worker.tick():
                rounds += 1
            return rounds

        rounds = await asyncio.gather(*(work(worker) for worker in workers))
        for engine, database in zip(engines, databases, strict=True):
            assert await engine.stop(10)
            database.close()
        # 60 rows, 7 at a time, and fewer once others have filed some: each ends at its first short page.
        assert max(rounds) <= 9
        settled = hold_pb2.ListHoldsRequest(state=hold_pb2.HOLD_STATE_SETTLED)
        assert len((await ledger.auditor.holds.ListHolds(settled)).holds) == 40
        assert len(await parked(ledger)) == 20
        balance = journal_pb2.GetBalanceRequest(account=journal_pb2.ACCOUNT_SPENT, budget_id="team")
        assert (await ledger.auditor.journal.GetBalance(balance)).balance.amount == "20"
    with psycopg.connect(database_url) as connection:
        kept = connection.execute("SELECT classification, count(*) FROM evidence GROUP BY 1 ORDER BY 1").fetchall()
    assert kept == [("AUTHORITATIVE", 40), ("PARKED", 60)]
    assert violations(database_url) == []


async def test_what_became_of_the_reports_is_logged(
    database_url: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", logger="ledger.reconcile")
    async with serving(database_url, tmp_path) as ledger:
        await ledger.budget()
        for name, amount in (("fits", "1"), ("too-much", "2"), ("alone", "1")):
            await ledger.gateway.holds.Resolve(webhook(name, amount))
        for name in ("fits", "too-much"):
            await ledger.gateway.holds.Reserve(reserve_request(name))
        database = Database(database_url)
        engine = Engine(database)
        engine.start()
        for patience in (DAY, 0.000_001):
            assert not await Parking(engine, Reader(database), 3600, patience).tick()
        assert await engine.stop(10)
        database.close()
    told = {
        record.getMessage(): record.count  # type: ignore[attr-defined]  # from `extra`
        for record in caplog.records
        if record.name == "ledger.reconcile"
    }
    assert told == {
        "parked evidence was filed": 1,
        "parked evidence was refused": 1,
        "parked evidence was orphaned": 1,
    }
