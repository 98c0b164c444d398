"""The permission of a guarded call: given once, not after the block, and again only where nothing was sent."""

import asyncio
from contextlib import suppress
from pathlib import Path

import pytest

from ledger.client import Guard, NotPermitted, Refused, WriteOutcomeUnknown
from ledger.v1 import hold_pb2
from tests.client.sdk import SEVEN, TEN, sdk, seconds, state, state_of
from tests.client.wire import Wire, wire_to
from tests.service.harness import serving

REFUSED = hold_pb2.NEVER_SENT_CAUSE_CONNECTION_REFUSED


class Broken(Exception):
    """What a provider's library raises."""


async def test_two_tasks_of_one_block_do_not_both_get_the_permission(database_url: str, tmp_path: Path) -> None:
    async with serving(database_url, tmp_path) as served, sdk(served) as ledger:
        await served.budget()
        async with ledger.guard("op", budgets=["team"], quote=TEN) as operation:
            asked = await asyncio.gather(operation.begin_dispatch(), operation.begin_dispatch(), return_exceptions=True)
            assert [type(answer) for answer in asked] == [hold_pb2.Hold, RuntimeError]
            assert "being asked for already" in str(asked[1])
            await operation.settle(charged=SEVEN)


async def test_a_permission_that_comes_after_the_block_was_left_is_not_given(database_url: str, tmp_path: Path) -> None:
    """The finaliser proves that nothing was sent: whoever still waits for the permission must not send then."""
    async with serving(database_url, tmp_path) as served, wire_to(served.address) as wire:
        await served.budget()
        async with sdk(served, address=wire.address) as ledger:
            with suppress(Broken):
                async with ledger.guard("op", budgets=["team"], quote=TEN) as operation:
                    wire.hold()
                    asking = asyncio.create_task(operation.begin_dispatch())
                    await asyncio.sleep(0.02)
                    asyncio.get_running_loop().call_later(0.05, wire.let_go)
                    raise Broken
            with pytest.raises(RuntimeError, match="do not send"):
                await asking
            assert not operation.may_send
            hold = await ledger.get_hold("op")
            assert (state(hold), hold.resolution.kind) == ("SETTLED", hold_pb2.RESOLUTION_KIND_NO_COST)


async def test_after_a_failure_before_the_dispatch_the_next_attempt_is_begun(database_url: str, tmp_path: Path) -> None:
    async with serving(database_url, tmp_path) as served, sdk(served) as ledger:
        await served.budget()
        async with ledger.guard("op", budgets=["team"], quote=TEN, dispatch=True) as operation:
            for number in (1, 2):
                assert operation.hold.attempt.number == number
                ended = await operation.failed_before_dispatch(REFUSED)
                assert (state(ended), operation.may_send) == ("DISPATCHING", False)
                await operation.begin_dispatch()
            assert (operation.hold.attempt.number, operation.may_send) == (3, True)
            bound = await operation.record_receipt("req-9")
            assert (bound.applied, operation.hold.attempt.provider_receipt) == (True, "req-9")
            await operation.settle(charged=SEVEN)
        hold = await ledger.get_hold("op")
        assert (state(hold), hold.resolution.amount.amount, hold.attempt.number) == ("SETTLED", "7", 3)


async def test_left_without_a_next_attempt_the_hold_is_settled_as_never_sent(database_url: str, tmp_path: Path) -> None:
    async with serving(database_url, tmp_path) as served, sdk(served) as ledger:
        await served.budget()
        async with ledger.guard("op", budgets=["team"], quote=TEN) as operation:
            await operation.begin_dispatch()
            await operation.failed_before_dispatch(REFUSED)
        hold = await ledger.get_hold("op")
        assert (state(hold), hold.resolution.kind) == ("SETTLED", hold_pb2.RESOLUTION_KIND_NO_COST)
        assert (await ledger.get_budget("team")).balances.available == "100"


@pytest.mark.parametrize("at_once", [True, False])
async def test_who_may_not_send_is_told_why_and_what_can_be_done(
    database_url: str, tmp_path: Path, at_once: bool
) -> None:
    async with serving(database_url, tmp_path) as served, sdk(served) as ledger, sdk(served) as other:
        await served.budget()
        first = ledger.guard("op", budgets=["team"], quote=TEN, dispatch=at_once)
        second = other.guard("op", budgets=["team"], quote=TEN, dispatch=at_once)
        async with first as operation:
            if not at_once:
                await second.__aenter__()
                await operation.begin_dispatch()
            with pytest.raises(NotPermitted, match="Wait for what the process that sends will report") as denied:
                await (second.__aenter__() if at_once else second.begin_dispatch())
            assert denied.value.denial.reason == hold_pb2.DENIAL_REASON_ANOTHER_ATTEMPT_RUNS
            assert denied.value.metadata == {"state": "DISPATCHING", "denial": "ANOTHER_ATTEMPT_RUNS"}
            await operation.settle(charged=SEVEN)
        late = other.guard("op", budgets=["team"], quote=TEN, dispatch=at_once)
        with pytest.raises(NotPermitted, match=r"a new intent (is a new operation|needs a new operation_id)"):
            await late.__aenter__()


async def test_nothing_that_was_said_beside_a_whole_evidence_is_lost(database_url: str, tmp_path: Path) -> None:
    async with serving(database_url, tmp_path) as served, sdk(served) as ledger:
        await served.budget()
        async with ledger.guard("op", budgets=["team"], quote=TEN, dispatch=True) as operation:
            with pytest.raises(ValueError, match="put receipt"):
                await operation.settle(operation.evidence(charged=SEVEN), receipt="req-1")
            await operation.settle(operation.evidence(charged=SEVEN, receipt="req-1"))
        assert (await ledger.get_hold("op")).attempt.provider_receipt == "req-1"


async def test_the_lease_is_extended_after_a_settlement_that_was_refused(database_url: str, tmp_path: Path) -> None:
    """The block goes on, and may bring better evidence."""
    async with serving(database_url, tmp_path, sweep_seconds=0.05) as served, sdk(served) as ledger:
        await served.budget()
        async with ledger.guard("op", budgets=["team"], quote=TEN, dispatch=True, lease=seconds(1)) as operation:
            with pytest.raises(Refused, match="EVIDENCE_REJECTED"):
                await operation.settle(charged=(7, "EUR"))
            await asyncio.sleep(1.5)
            assert (await state_of(ledger, "op"), operation.may_continue) == ("DISPATCHING", True)
            await operation.settle(charged=SEVEN)


async def test_another_process_may_begin_the_next_attempt(database_url: str, tmp_path: Path) -> None:
    """The first one recorded that its attempt was not sent, and died."""
    async with serving(database_url, tmp_path) as served, sdk(served) as ledger, sdk(served) as other:
        await served.budget()
        dead = ledger.guard("op", budgets=["team"], quote=TEN)
        await dead.__aenter__()
        await dead.begin_dispatch()
        await dead.failed_before_dispatch(REFUSED)
        async with other.guard("op", budgets=["team"], quote=TEN) as operation:
            assert (await operation.begin_dispatch()).attempt.number == 2
            with pytest.raises(NotPermitted):
                await dead.begin_dispatch()
            await operation.settle(charged=SEVEN)
        assert await state_of(ledger, "op") == "SETTLED"


async def begin_without_an_answer(operation: Guard, wire: Wire, *, recorded: bool) -> None:
    """The answer is lost, or the request already."""
    wire.swallow = recorded
    if not recorded:
        wire.hold()
    try:
        await operation.begin_dispatch()
    finally:
        wire.cut()
        wire.swallow = False
        wire.let_go()


async def test_a_next_attempt_that_was_not_answered_is_proved_unsent(database_url: str, tmp_path: Path) -> None:
    """Whether it was recorded or not: the attempt that stands is this guard's, by one of its nonces."""
    async with serving(database_url, tmp_path) as served, wire_to(served.address) as wire:
        await served.budget(limit=None)
        async with sdk(served, address=wire.address, timeout=seconds(0.2)) as ledger:
            for name, recorded in (("asked", False), ("begun", True)):
                with suppress(WriteOutcomeUnknown):
                    async with ledger.guard(name, budgets=["team"], quote=TEN, dispatch=True) as operation:
                        await operation.failed_before_dispatch(REFUSED)
                        await begin_without_an_answer(operation, wire, recorded=recorded)
                        raise AssertionError("it was answered")
                hold = await ledger.get_hold(name, timeout=seconds(10))
                assert (state(hold), hold.resolution.kind) == ("SETTLED", hold_pb2.RESOLUTION_KIND_NO_COST)
