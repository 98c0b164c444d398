"""Watch: what it tells, how it goes on after a token, and that a reader who stands still harms nobody."""

import asyncio
import base64
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import grpc.aio
import pytest

from ledger.client import Client, NotDone, Refused
from ledger.client import Ledger as Sdk
from ledger.domain.model import Caller, Role
from ledger.service.translate import feed
from ledger.store.database import Database
from ledger.store.feed import Batch, Place, batches
from ledger.v1 import budget_pb2, feed_pb2, hold_pb2, journal_pb2
from tests.conftest import new_database
from tests.service.harness import (
    Ledger,
    invalid,
    put_card,
    refusal,
    reserve_request,
    resolve_request,
    sending_request,
    serving,
)

# Seconds, on a machine that has much else to do.
SOON = 20.0


async def read(
    client: Client, number: int, token: str = "", **asked: Any
) -> tuple[list[feed_pb2.Event], list[feed_pb2.WatchResponse]]:
    """The first events that a reader gets, so many or a few more, and the responses in which they came."""
    call = client.feed.Watch(feed_pb2.WatchRequest(resume_token=token, **asked))
    events: list[feed_pb2.Event] = []
    responses: list[feed_pb2.WatchResponse] = []
    async with asyncio.timeout(SOON):
        while len(events) < number:
            response = await call.read()
            assert isinstance(response, feed_pb2.WatchResponse), "the stream goes on"
            responses.append(response)
            events += response.events
    call.cancel()
    return events, responses


def watched(client: Client, **asked: Any) -> Any:
    """The first response, to be awaited."""
    return client.feed.Watch(feed_pb2.WatchRequest(**asked)).read()


async def test_a_story_is_told_in_order(database_url: str, tmp_path: Path) -> None:
    async with serving(database_url, tmp_path) as ledger:
        await ledger.budget(limit="100")
        await put_card(ledger)
        await ledger.gateway.holds.Reserve(sending_request("op-1", "6"))
        await ledger.finance.holds.Resolve(resolve_request("op-1", "5.50"))
        events, _ = await read(ledger.auditor, 5)
        assert [event.WhichOneof("change") for event in events] == ["budget", "entry", "price_card", "hold", "hold"]
        budget, opened, card, born, settled = events
        assert (budget.budget.budget_id, budget.budget.version, budget.budget.limit) == ("team", 1, "100")
        assert opened.entry.kind == journal_pb2.ENTRY_KIND_OPEN
        assert list(opened.entry.book_ids) == ["team#0"]
        assert (card.price_card.card_id, card.price_card.version) == ("gpt-5", 1)
        assert (born.hold.version, getattr(born.hold, "from"), born.hold.to) == (1, 0, hold_pb2.HOLD_STATE_DISPATCHING)
        assert not born.hold.HasField("resolution")
        assert [entry.kind for entry in born.hold.entries] == [journal_pb2.ENTRY_KIND_RESERVE]
        assert getattr(settled.hold, "from") == hold_pb2.HOLD_STATE_DISPATCHING
        assert settled.hold.to == hold_pb2.HOLD_STATE_SETTLED
        assert (settled.hold.amount.amount, settled.hold.amount.currency) == ("6", "USD")
        resolution = settled.hold.resolution
        assert (resolution.kind, resolution.revision, resolution.settled) == (
            hold_pb2.RESOLUTION_KIND_USAGE,
            1,
            "5.5",
        )
        hold = (await ledger.auditor.holds.GetHold(hold_pb2.GetHoldRequest(operation_id="op-1"))).hold
        assert resolution.digest == hold.resolution.digest
        assert len({event.event_id for event in events}) == 5


async def test_every_kind_of_event_is_told(database_url: str, tmp_path: Path) -> None:
    async with serving(database_url, tmp_path) as ledger:
        await ledger.budget()
        grant = budget_pb2.GrantBudgetRequest(idempotency_key="g", budget_id="team", reference="po-1")
        grant.amount.amount, grant.amount.currency = "5", "USD"
        await ledger.finance.budgets.GrantBudget(grant)
        await ledger.gateway.holds.Reserve(sending_request("op-1"))
        unknown = hold_pb2.MarkOutcomeUnknownRequest(idempotency_key="u", operation_id="op-1", observation="time-out")
        await ledger.gateway.holds.MarkOutcomeUnknown(unknown)
        await ledger.gateway.holds.RecordDelivery(
            hold_pb2.RecordDeliveryRequest(idempotency_key="d", operation_id="op-1", delivery=hold_pb2.DELIVERY_PARTIAL)
        )
        await ledger.gateway.holds.Resolve(resolve_request("op-1", "1"))
        conflict = resolve_request("op-1", "0.5", idempotency_key="other")
        assert (await refusal(ledger.gateway.holds.Resolve(conflict)))[1] == "RESOLUTION_CONFLICT"
        events, _ = await read(ledger.finance, 9)
        told = {event.WhichOneof("change"): event for event in events}
        assert set(told) == {"budget", "entry", "grant", "hold", "observation", "incident"}
        assert (told["grant"].grant.reference, told["grant"].grant.amount.amount) == ("po-1", "5")
        said = [event.observation for event in events if event.WhichOneof("change") == "observation"]
        assert {(o.WhichOneof("said"), o.delivery or o.execution) for o in said} >= {
            ("execution", hold_pb2.EXECUTION_UNKNOWN),
            ("delivery", hold_pb2.DELIVERY_PARTIAL),
        }
        assert told["incident"].incident.kind == hold_pb2.INCIDENT_KIND_RESOLUTION_CONFLICT
        only, _ = await read(ledger.finance, 1, types=[feed_pb2.EVENT_TYPE_INCIDENT])
        assert [event.event_id for event in only] == [told["incident"].event_id]


async def test_a_reader_goes_on_after_its_token_also_at_a_new_server(database_url: str, tmp_path: Path) -> None:
    async with serving(database_url, tmp_path) as ledger:
        await ledger.budget()
        _, (first, *_) = await read(ledger.auditor, 2)
        for number in range(4):
            await ledger.gateway.holds.Reserve(reserve_request(f"op-{number}"))
        everything, _ = await read(ledger.auditor, 6)
    async with serving(database_url, tmp_path) as ledger:
        rest, (*_, last) = await read(ledger.auditor, 4, first.resume_token, types=[feed_pb2.EVENT_TYPE_HOLD])
        assert rest == [event for event in everything if event.HasField("hold")]
        await ledger.gateway.holds.Reserve(reserve_request("op-new"))
        ((new,), _) = await read(ledger.auditor, 1, last.resume_token)
        assert new.hold.operation_id == "op-new"


async def test_a_batch_that_is_longer_than_a_response_goes_on_in_its_middle(database_url: str, tmp_path: Path) -> None:
    async with serving(database_url, tmp_path, max_batch=2000) as ledger:
        await ledger.budget(limit="10000")
        commands = [hold_pb2.Command(reserve=reserve_request(f"op-{number:04}")) for number in range(900)]
        await ledger.gateway.holds.BatchExecute(hold_pb2.BatchExecuteRequest(commands=commands))
        database = Database(database_url, 1)
        with database.read() as connection:
            assert max(len(batch.events) for batch in batches(connection, "acme", None, 10)) > feed.MOST_EVENTS
        database.close()
        events, responses = await read(ledger.auditor, 902)
        assert [len(response.events) for response in responses][:1] == [500]
        assert [e.hold.operation_id for e in events if e.HasField("hold")] == [c.reserve.operation_id for c in commands]
        again, _ = await read(ledger.auditor, 402, responses[0].resume_token)
        assert again == events[500:]
        # With another filter the place is the same.
        ((one,), _) = await read(ledger.auditor, 1, responses[0].resume_token, operation_id="op-0899")
        assert one == events[-1]


def test_a_response_has_its_bound_of_bytes() -> None:
    event = {"type": "ENTRY", "entry_id": "x", "kind": "OPEN", "books": ["b" * 100_000]}
    made = [Batch(Place(1, n, n, n), datetime.now(UTC), [event] * 7) for n in range(1, 4)]
    asked = feed.read_watch(feed_pb2.WatchRequest(), caller_of("acme"))
    found = list(feed.responses(made, asked))
    assert sum(len(response.events) for _, response in found) == 21
    assert all(response.ByteSize() < 1_048_576 for _, response in found)
    assert len(found) == 3


def caller_of(tenant: str) -> Caller:
    return Caller(tenant, "auditor-1", Role.AUDITOR)


async def test_from_now_on_and_heartbeats(database_url: str, tmp_path: Path) -> None:
    async with serving(database_url, tmp_path) as ledger:
        await ledger.budget()
        request = feed_pb2.WatchRequest(from_now=True)
        request.heartbeat.FromTimedelta(timedelta(seconds=1))
        call = ledger.auditor.feed.Watch(request)
        started = time.monotonic()
        beat = await call.read()
        assert 0.9 < time.monotonic() - started < SOON
        assert isinstance(beat, feed_pb2.WatchResponse)
        assert not beat.events
        await ledger.gateway.holds.Reserve(reserve_request("op-1"))
        told: Any = beat
        while not told.events:
            told = await call.read()
            assert isinstance(told, feed_pb2.WatchResponse)
        assert [event.hold.operation_id for event in told.events] == ["op-1"]
        call.cancel()
        # What came between the heartbeat and now is after its token.
        events, _ = await read(ledger.auditor, 1, beat.resume_token)
        assert events == list(told.events)


async def test_nothing_yet_has_a_token_too(database_url: str, tmp_path: Path) -> None:
    async with serving(database_url, tmp_path) as ledger:
        request = feed_pb2.WatchRequest(from_now=True)
        request.heartbeat.FromTimedelta(timedelta(seconds=1))
        beat = await ledger.auditor.feed.Watch(request).read()
        assert isinstance(beat, feed_pb2.WatchResponse)
        await ledger.budget()
        events, _ = await read(ledger.auditor, 2, beat.resume_token)
        assert [event.WhichOneof("change") for event in events] == ["budget", "entry"]


async def test_a_token_that_is_not_this_feeds_is_refused(
    server_url: str, template: str, database_url: str, tmp_path: Path
) -> None:
    async with serving(database_url, tmp_path) as ledger:
        await ledger.budget()
        _, (response, *_) = await read(ledger.auditor, 1)
        token = response.resume_token
        assert await invalid(watched(ledger.rival(Role.AUDITOR), resume_token=token)) == "resume_token"
        raw = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))
        forged = base64.urlsafe_b64encode(raw.replace(b'"1"', b'"2"')).rstrip(b"=").decode()
        for bad in ("x", token[:-4], token + "A", forged, "é", "A" * 3000, base64.b64encode(b"[]").decode()):
            assert await invalid(watched(ledger.auditor, resume_token=bad)) == "resume_token", bad
        assert await invalid(watched(ledger.auditor, resume_token=token, from_now=True)) == "from_now"
        assert await invalid(watched(ledger.auditor, types=[99])) == "types[0]"
        assert await invalid(watched(ledger.auditor, operation_id="*")) == "operation_id"
        for seconds in (0.5, 61):
            request = feed_pb2.WatchRequest()
            request.heartbeat.FromTimedelta(timedelta(seconds=seconds))
            assert await invalid(ledger.auditor.feed.Watch(request).read()) == "heartbeat"
    # Another ledger with a tenant of the same name, as after a restore from before the event.
    with new_database(server_url, template) as url:
        async with serving(url, tmp_path) as other:
            assert await invalid(watched(other.auditor, resume_token=token)) == "resume_token"


def test_an_event_of_a_newer_version_is_not_passed_over() -> None:
    for event in ({"type": "MOON"}, {"type": "INCIDENT", "incident_id": "i", "kind": "MOON", "operation_id": "o"}):
        batch = Batch(Place(1, 2, 3, 4), datetime.now(UTC), [event])
        with pytest.raises(Exception, match="STORE_UNAVAILABLE"):
            list(feed.responses([batch], feed.read_watch(feed_pb2.WatchRequest(), caller_of("acme"))))


async def test_gateways_may_not_read_it(database_url: str, tmp_path: Path) -> None:
    async with serving(database_url, tmp_path) as ledger:
        assert (await refusal(watched(ledger.gateway)))[1] == "ROLE_NOT_ALLOWED"
        await ledger.budget()
        rival = ledger.rival(Role.ADMIN)
        await rival.budgets.CreateBudget(
            budget_pb2.CreateBudgetRequest(idempotency_key="b", budget_id="theirs", currency="USD")
        )
        events, _ = await read(rival, 1)
        assert [event.budget.budget_id for event in events] == ["theirs"]


async def test_a_token_that_is_taken_back_ends_the_stream(database_url: str, tmp_path: Path) -> None:
    async with serving(database_url, tmp_path) as ledger:
        request = feed_pb2.WatchRequest()
        request.heartbeat.FromTimedelta(timedelta(seconds=1))
        call = ledger.auditor.feed.Watch(request)
        await call.read()
        tokens = tmp_path / "tokens.jsonl"
        lines = tokens.read_text().splitlines(keepends=True)
        tokens.write_text("".join(line for line in lines if "auditor" not in line))
        async with asyncio.timeout(SOON):
            assert await call.code() is grpc.StatusCode.UNAUTHENTICATED


async def test_there_is_a_bound_on_readers(database_url: str, tmp_path: Path) -> None:
    async with serving(database_url, tmp_path, max_watchers=2) as ledger:
        await ledger.budget()
        calls = [ledger.auditor.feed.Watch(feed_pb2.WatchRequest()) for _ in range(2)]
        for call in calls:
            await call.read()
        assert (await refusal(watched(ledger.auditor)))[1] == "THROTTLED"
        calls[0].cancel()
        async with asyncio.timeout(SOON):
            while True:
                try:
                    await watched(ledger.auditor)
                except grpc.aio.AioRpcError:
                    await asyncio.sleep(0.05)
                else:
                    return


async def fill(ledger: Ledger, batches_: int) -> None:
    for number in range(batches_):
        commands = [hold_pb2.Command(reserve=reserve_request(f"op-{number}-{k}")) for k in range(500)]
        await ledger.gateway.holds.BatchExecute(hold_pb2.BatchExecuteRequest(commands=commands))


async def test_readers_who_stand_still_harm_nobody(database_url: str, tmp_path: Path) -> None:
    """More of them than the feed has threads and connections, each with more to come than its stream takes."""
    async with serving(database_url, tmp_path, drain_seconds=60) as ledger:
        await ledger.budget(limit="1000000")
        await fill(ledger, 20)
        stuck = [ledger.auditor.feed.Watch(feed_pb2.WatchRequest()) for _ in range(8)]
        # Their channel's windows are full; others go on over their own connection.
        await asyncio.sleep(1)
        started = time.monotonic()
        events, _ = await read(ledger.finance, 10_000)
        assert len(events) == 10_002
        await ledger.gateway.holds.Reserve(reserve_request("op-after"))
        assert time.monotonic() - started < SOON
        database = Database(database_url, 1)
        with database.read() as connection:
            held = connection.exec_driver_sql(
                "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
                " AND state IN ('idle in transaction', 'idle in transaction (aborted)')"
            ).scalar_one()
        database.close()
        assert held == 0
        # The server does not wait for them to the end of its patience.
        started = time.monotonic()
        await ledger.server.drain()
        assert time.monotonic() - started < SOON
        del stuck


async def test_a_stop_ends_watches_with_what_is_theirs(database_url: str, tmp_path: Path) -> None:
    async with serving(database_url, tmp_path, drain_seconds=60) as ledger:
        await ledger.budget()
        call = ledger.auditor.feed.Watch(feed_pb2.WatchRequest())
        response = await call.read()
        assert isinstance(response, feed_pb2.WatchResponse)
        started = time.monotonic()
        await ledger.server.drain()
        assert time.monotonic() - started < SOON
        assert await call.read() is grpc.aio.EOF
        assert await call.code() is grpc.StatusCode.OK


async def test_the_client_goes_on_where_it_was(database_url: str, tmp_path: Path) -> None:
    """Over the end of one server and the start of another; what happens in between is not lost."""
    seen: list[str] = []

    async def follow(address: str, token: str) -> None:
        async with Sdk.connect(address, token) as sdk:
            async for response in sdk.watch(types=[feed_pb2.EVENT_TYPE_HOLD]):
                seen.extend(event.hold.operation_id for event in response.events)

    async def until(number: int) -> None:
        async with asyncio.timeout(SOON):
            while len(seen) < number:
                await asyncio.sleep(0.02)

    async with serving(database_url, tmp_path) as ledger:
        await ledger.budget()
        await ledger.gateway.holds.Reserve(reserve_request("op-1"))
        address = ledger.address
        following = asyncio.create_task(follow(address, ledger.token("acme", Role.AUDITOR)))
        await until(1)
    async with serving(database_url, tmp_path) as other:
        await other.gateway.holds.Reserve(reserve_request("op-2"))
    async with serving(database_url, tmp_path, listen=address) as ledger:
        await ledger.gateway.holds.Reserve(reserve_request("op-3"), wait_for_ready=True)
        await until(3)
    assert seen == ["op-1", "op-2", "op-3"]
    following.cancel()
    async with Sdk.connect(address, "nobody") as sdk:
        with pytest.raises(NotDone):
            await anext(sdk.watch(patience=timedelta(milliseconds=1)))
    async with serving(database_url, tmp_path, listen=address), Sdk.connect(address, "nobody") as sdk:
        with pytest.raises(Refused):
            await anext(sdk.watch())
