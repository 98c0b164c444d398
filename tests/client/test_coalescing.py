"""Concurrent commands of one process go together by themselves, and nobody pays for his neighbour."""

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest

from ledger.client import Batching, Ledger, NotDone, Refused, WriteOutcomeUnknown, dispatch, fixed_quote, usage_evidence
from ledger.v1 import error_pb2, hold_pb2
from tests.client.sdk import SEVEN, TEN, refusal, sdk, seconds, state, state_of
from tests.client.wire import wire_to
from tests.service.harness import NONCE, serving


class Trips:
    """The batches that a client sends, as they go out, and the most that were on the wire at a time."""

    def __init__(self, ledger: Ledger) -> None:
        self.batches: list[list[str]] = []
        self.most = self._now = 0
        self._execute: Any = ledger.stubs.holds.BatchExecute
        ledger.stubs.holds.BatchExecute = self  # type: ignore[assignment] # looks on, and sends

    @property
    def sizes(self) -> list[int]:
        return [len(batch) for batch in self.batches]

    async def __call__(self, request: hold_pb2.BatchExecuteRequest, **options: Any) -> Any:
        self.batches.append([str(command.WhichOneof("command")) for command in request.commands])
        self._now += 1
        self.most = max(self.most, self._now)
        try:
            return await self._execute(request, **options)
        finally:
            self._now -= 1


def reserving(ledger: Ledger, number: int, **options: Any) -> Any:
    given: dict[str, Any] = {"budgets": ["team"], "quote": TEN}
    return ledger.reserve(f"op-{number}", **given | options)


async def test_one_caller_is_sent_at_once_and_alone(database_url: str, tmp_path: Path) -> None:
    async with serving(database_url, tmp_path) as served, sdk(served) as ledger:
        await served.budget()
        trips = Trips(ledger)
        await reserving(ledger, 1)
        await ledger.begin_dispatch("op-1", dispatch(NONCE))
        await ledger.resolve("op-1", usage_evidence("openai", charged=SEVEN))
        assert trips.batches == [["reserve"], ["begin_dispatch"], ["resolve"]]


async def test_what_one_turn_of_the_loop_brings_goes_in_one_call(database_url: str, tmp_path: Path) -> None:
    async with serving(database_url, tmp_path) as served, sdk(served) as ledger:
        await served.budget(limit=None)
        trips = Trips(ledger)
        answers = await asyncio.gather(*(reserving(ledger, number) for number in range(100)))
        assert trips.sizes == [100]
        assert [answer.hold.operation_id for answer in answers] == [f"op-{number}" for number in range(100)]


async def test_what_comes_while_batches_are_on_the_wire_gathers(database_url: str, tmp_path: Path) -> None:
    async with serving(database_url, tmp_path) as served, wire_to(served.address) as wire:
        await served.budget(limit=None)
        async with sdk(served, address=wire.address) as ledger:
            await reserving(ledger, 0)
            trips = Trips(ledger)
            wire.hold()
            calls = []
            for number in range(1, 21):
                calls.append(asyncio.create_task(reserving(ledger, number)))
                await asyncio.sleep(0.002)
            wire.let_go()
            await asyncio.gather(*calls)
        assert trips.sizes == [1, 1, 1, 17]
        assert trips.most == 3


@pytest.mark.parametrize(
    ("batching", "sizes"),
    [
        (Batching(most_commands=8), [8, 8, 4]),
        # A reserve here has about 80 bytes; one that is longer than all the room still goes, alone.
        (Batching(most_bytes=10), [1] * 20),
        (Batching(on_the_wire=1), [20]),
    ],
)
async def test_batches_are_bounded(database_url: str, tmp_path: Path, batching: Batching, sizes: list[int]) -> None:
    async with serving(database_url, tmp_path) as served, sdk(served, batching=batching) as ledger:
        await served.budget(limit=None)
        trips = Trips(ledger)
        await asyncio.gather(*(reserving(ledger, number) for number in range(20)))
        assert trips.sizes == sizes
        assert trips.most <= batching.on_the_wire


async def test_a_refusal_is_its_own_caller_s(database_url: str, tmp_path: Path) -> None:
    async with serving(database_url, tmp_path) as served, sdk(served) as ledger:
        await served.budget(limit="25")
        trips = Trips(ledger)
        named = [
            reserving(ledger, 1),
            reserving(ledger, 2, budgets=["nobody"]),
            reserving(ledger, 3),
            reserving(ledger, 4),
        ]
        ended = await asyncio.gather(*named, return_exceptions=True)
        assert trips.sizes == [4]
        told = [e.reason if isinstance(e, Refused) else state(e.hold) for e in ended]  # type: ignore[union-attr] # one of the two
        assert told == [
            "RESERVED",
            error_pb2.ERROR_REASON_NOT_FOUND,
            "RESERVED",
            error_pb2.ERROR_REASON_INSUFFICIENT_BUDGET,
        ]


async def test_commands_on_one_hold_keep_their_order(database_url: str, tmp_path: Path) -> None:
    """All are asked for at the same moment; each is sent when the one before it is answered."""
    async with serving(database_url, tmp_path) as served, sdk(served) as ledger:
        await served.budget(limit=None)
        trips = Trips(ledger)

        async def life(number: int) -> list[str]:
            name = f"op-{number}"
            answers = await asyncio.gather(
                reserving(ledger, number),
                ledger.begin_dispatch(name, dispatch(NONCE)),
                ledger.mark_outcome_unknown(name, "time-out"),
                ledger.resolve(name, usage_evidence("openai", charged=SEVEN)),
            )
            return [state(answer.hold) for answer in answers]

        lives = await asyncio.gather(*(life(number) for number in range(10)))
        assert lives == [["RESERVED", "DISPATCHING", "OUTCOME_UNKNOWN", "SETTLED"]] * 10
        assert trips.sizes == [10] * 4


async def test_the_order_is_kept_through_a_lost_answer(database_url: str, tmp_path: Path) -> None:
    """A release that was asked for after a dispatch does not pass it while the dispatch is asked for again."""
    async with serving(database_url, tmp_path) as served, wire_to(served.address) as wire:
        await served.budget()
        async with sdk(served, address=wire.address) as ledger:
            await reserving(ledger, 1)
            trips = Trips(ledger)
            wire.swallow = True
            beginning = asyncio.create_task(ledger.begin_dispatch("op-1", dispatch(NONCE)))
            await asyncio.sleep(0.05)
            releasing = asyncio.create_task(refusal(ledger.release("op-1")))
            await asyncio.sleep(0.05)
            wire.swallow = False
            wire.cut()
            begun = await beginning
            assert (begun.may_send, begun.replayed) == (True, True)
            assert await releasing == "HOLD_STATE"
        assert trips.batches[-1] == ["release"]
        assert all(batch == ["begin_dispatch"] for batch in trips.batches[:-1])


async def test_a_command_that_comes_as_a_batch_returns_is_not_forgotten(database_url: str, tmp_path: Path) -> None:
    """Whatever turn of the loop it comes in: with one batch on the wire, a trip that is just ending must not be waited for."""
    async with serving(database_url, tmp_path) as served, sdk(served, batching=Batching(on_the_wire=1)) as ledger:
        await served.budget(limit=None)
        for turns in range(12):
            await reserving(ledger, turns)
            for _ in range(turns % 6):
                await asyncio.sleep(0)
            ahead = [reserving(ledger, 100 + turns, timeout=seconds(5))] if turns < 6 else []
            tasks = [asyncio.create_task(each) for each in ahead] or [
                asyncio.create_task(later(ledger, 100 + turns, turns % 6))
            ]
            await asyncio.wait_for(asyncio.gather(*tasks), 5)


async def later(ledger: Ledger, number: int, turns: int) -> None:
    for _ in range(turns):
        await asyncio.sleep(0)
    await reserving(ledger, number, timeout=seconds(5))


async def test_a_caller_who_gives_up_costs_the_others_nothing(database_url: str, tmp_path: Path) -> None:
    async with serving(database_url, tmp_path) as served, wire_to(served.address) as wire:
        await served.budget(limit=None)
        async with sdk(served, address=wire.address, batching=Batching(on_the_wire=2)) as ledger:
            await reserving(ledger, 0)
            wire.hold()
            on_the_wire = [asyncio.create_task(reserving(ledger, number)) for number in (1, 2, 3)]
            await asyncio.sleep(0.02)
            second = asyncio.create_task(reserving(ledger, 4))
            await asyncio.sleep(0.02)
            gathered = [asyncio.create_task(reserving(ledger, number)) for number in (5, 6, 7)]
            await asyncio.sleep(0.02)
            on_the_wire[1].cancel()
            gathered[1].cancel()
            await asyncio.sleep(0.02)
            wire.let_go()
            answered = await asyncio.gather(*on_the_wire, second, *gathered, return_exceptions=True)
            names = [each.hold.operation_id for each in answered if isinstance(each, hold_pb2.ReserveResponse)]
            assert names == ["op-1", "op-3", "op-4", "op-5", "op-7"]
            # What was on the wire was done all the same; what was not is dropped.
            assert await state_of(ledger, "op-2") == "RESERVED"
            assert await state_of(ledger, "op-6") == ""


async def test_each_command_has_its_own_deadline(database_url: str, tmp_path: Path) -> None:
    async with serving(database_url, tmp_path) as served, wire_to(served.address) as wire:
        await served.budget(limit=None)
        async with sdk(served, address=wire.address, batching=Batching(on_the_wire=2)) as ledger:
            await reserving(ledger, 0)
            await asyncio.sleep(0.02)
            wire.hold()
            began = time.monotonic()
            patient = asyncio.create_task(reserving(ledger, 1, timeout=seconds(20)))
            with pytest.raises(WriteOutcomeUnknown) as unknown:
                await reserving(ledger, 2, timeout=seconds(0.3))
            assert 0.2 < time.monotonic() - began < 3
            assert unknown.value.idempotency_key == "op-2/reserve"
            assert "op-2/reserve" in str(unknown.value)
            assert unknown.value.recovery_action == error_pb2.RECOVERY_ACTION_RETRY_SAME_KEY
            # One that waits behind what is on the wire was certainly not sent.
            other = asyncio.create_task(reserving(ledger, 3, timeout=seconds(20)))
            await asyncio.sleep(0.02)
            with pytest.raises(NotDone):
                await reserving(ledger, 4, timeout=seconds(0.2))
            wire.let_go()
            assert state((await patient).hold) == state((await other).hold) == "RESERVED"
            assert await state_of(ledger, "op-4") == ""
            # The key that the error names finds out what became of it.
            assert (await reserving(ledger, 2)).replayed


async def test_a_batch_that_the_server_finds_too_long_is_taken_apart(database_url: str, tmp_path: Path) -> None:
    """Ten reserves have about 1,000 bytes together, and one 100."""
    async with serving(database_url, tmp_path, max_message_bytes=600) as served, sdk(served) as ledger:
        await served.budget(limit=None)
        trips = Trips(ledger)
        answers = await asyncio.gather(*(reserving(ledger, number) for number in range(10)))
        assert [state(answer.hold) for answer in answers] == ["RESERVED"] * 10
        assert trips.sizes == [10, *[1] * 10]
        long = fixed_quote(10, "USD", provider="openai", reason="x" * 600)
        ended = await asyncio.gather(reserving(ledger, 11), reserving(ledger, 12, quote=long), return_exceptions=True)
        assert isinstance(ended[0], hold_pb2.ReserveResponse)
        # gRPC says the same where the answer to a command that was done is too long.
        assert isinstance(ended[1], WriteOutcomeUnknown)


async def test_who_is_throttled_asks_again(database_url: str, tmp_path: Path) -> None:
    batching = Batching(most_commands=1, on_the_wire=30)
    async with (
        serving(database_url, tmp_path, max_concurrent_rpcs=2) as served,
        sdk(served, batching=batching) as ledger,
    ):
        await served.budget(limit=None)
        trips = Trips(ledger)
        answers = await asyncio.gather(*(reserving(ledger, number) for number in range(30)))
        assert [state(answer.hold) for answer in answers] == ["RESERVED"] * 30
        assert len(trips.sizes) > 30


async def test_nothing_is_left_behind(database_url: str, tmp_path: Path) -> None:
    """A storm of calls without the time for an answer, twice; afterwards the client is as new."""
    async with serving(database_url, tmp_path) as served, wire_to(served.address) as wire:
        await served.budget(limit=None)
        async with sdk(served, address=wire.address) as ledger:
            await reserving(ledger, 0)
            for cut in (False, True):
                wire.hold()
                wire.deaf = cut
                if cut:
                    wire.cut()
                storm = [reserving(ledger, n % 300, timeout=seconds(0.05 + n % 7 / 50)) for n in range(1, 500)]
                ended = await asyncio.gather(*storm, return_exceptions=True)
                assert {type(each) for each in ended} <= {NotDone, WriteOutcomeUnknown}
                wire.deaf = False
                wire.let_go()
            answers = await asyncio.gather(*(reserving(ledger, number) for number in range(300)))
            assert {state(answer.hold) for answer in answers} == {"RESERVED"}
            await asyncio.sleep(0.01)
            courier = ledger._courier
            assert not courier._open
            assert not courier._trips
            assert not courier._lines.any_ready
            assert not courier._lines._lines


async def test_a_closed_client_says_what_it_knows(database_url: str, tmp_path: Path) -> None:
    async with serving(database_url, tmp_path) as served, wire_to(served.address) as wire:
        await served.budget(limit=None)
        ledger = sdk(served, address=wire.address, batching=Batching(on_the_wire=1))
        await reserving(ledger, 0)
        wire.hold()
        sent = asyncio.create_task(reserving(ledger, 1))
        await asyncio.sleep(0.02)
        waiting = asyncio.create_task(reserving(ledger, 2))
        await asyncio.sleep(0.02)
        await ledger.close()
        ended = await asyncio.gather(sent, waiting, return_exceptions=True)
        assert [type(each) for each in ended] == [WriteOutcomeUnknown, NotDone]
        with pytest.raises(NotDone, match="closed"):
            await reserving(ledger, 3)
