"""The client when the server or the wire fails: lost answers, cuts, restarts, kill -9; and when nothing happens at all."""

import asyncio
import logging
from pathlib import Path

import pytest

from ledger.client import Backoff, Ledger, LedgerError, NotDone, WriteOutcomeUnknown, dispatch, usage_evidence
from ledger.domain.model import Role
from ledger.v1 import budget_pb2, error_pb2, hold_pb2
from tests.acceptance.harness import LiveLedger, live_ledger
from tests.acceptance.wire import Wire as FaultyWire
from tests.acceptance.wire import WireFault
from tests.client.sdk import SEVEN, TEN, sdk, seconds, state, state_of
from tests.client.wire import Wire, wire_to
from tests.service.harness import NONCE, serving

NO_WAIT = Backoff(first=seconds(0.01), longest=seconds(0.05))


class Broken(Exception):
    """What a provider's library raises."""


async def lose_one_answer(wire: Wire) -> None:
    """What is on the wire is done, and nobody hears of it."""
    wire.swallow = True
    await asyncio.sleep(0.1)
    wire.swallow = False
    wire.cut()


async def test_every_answer_of_a_lifecycle_is_lost_once(database_url: str, tmp_path: Path) -> None:
    """Each write is asked for again with its key; the permission that was lost is given again, because the nonce is the same."""
    async with serving(database_url, tmp_path) as served, wire_to(served.address) as wire:
        await served.budget()
        async with sdk(served, address=wire.address) as ledger:
            await ledger.get_budget("team")
            losing = asyncio.create_task(lose_one_answer(wire))
            reserved = await ledger.reserve("op", budgets=["team"], quote=TEN)
            assert reserved.replayed
            await losing
            losing = asyncio.create_task(lose_one_answer(wire))
            begun = await ledger.begin_dispatch("op", dispatch(NONCE))
            assert (begun.replayed, begun.may_send) == (True, True)
            await losing
            losing = asyncio.create_task(lose_one_answer(wire))
            settled = await ledger.resolve("op", usage_evidence("openai", charged=SEVEN))
            assert (settled.replayed, state(settled.hold)) == (True, "SETTLED")
            await losing
            balances = (await ledger.get_budget("team")).balances
            assert (balances.available, balances.spent, balances.held) == ("93", "7", "0")


async def test_a_question_is_asked_again_too(database_url: str, tmp_path: Path) -> None:
    async with serving(database_url, tmp_path) as served, wire_to(served.address) as wire:
        await served.budget()
        async with sdk(served, Role.ADMIN, wire.address) as ledger:
            await ledger.get_budget("team")
            losing = asyncio.create_task(lose_one_answer(wire))
            made = await ledger.create_budget("part", currency="USD", limit=5, parent_id="team")
            assert made.replayed
            await losing
            losing = asyncio.create_task(lose_one_answer(wire))
            assert (await ledger.get_budget("part")).limit == "5"
            await losing


async def test_a_server_that_is_not_there_was_sent_nothing(database_url: str, tmp_path: Path) -> None:
    async with serving(database_url, tmp_path) as served, wire_to(served.address) as wire:
        wire.deaf = True
        await served.budget()
        async with sdk(served, address=wire.address) as ledger:
            with pytest.raises(NotDone) as absent:
                await ledger.reserve("op", budgets=["team"], quote=TEN, timeout=seconds(0.5))
            assert absent.value.recovery_action == error_pb2.RECOVERY_ACTION_RETRY_SAME_KEY
            with pytest.raises(NotDone):
                async with ledger.guard("op", budgets=["team"], quote=TEN, timeout=seconds(0.3)):
                    raise AssertionError("the provider must not be called")
            # The same client, as soon as there is one.
            waiting = asyncio.create_task(ledger.reserve("op", budgets=["team"], quote=TEN))
            await asyncio.sleep(0.1)
            wire.deaf = False
            assert state((await waiting).hold) == "RESERVED"


# Of a piece that is sent: commands go together, so that there are few.
OFTEN = {WireFault.DELAY: 0.5, WireFault.THROTTLE: 0.5} | dict.fromkeys(
    (WireFault.CUT_BEFORE, WireFault.CUT_AFTER, WireFault.STALL, WireFault.RESET), 0.1
)


@pytest.mark.parametrize("fault", list(WireFault), ids=lambda fault: fault.name.lower())
async def test_a_wire_that_fails_again_and_again(database_url: str, tmp_path: Path, fault: WireFault) -> None:
    """Sixteen callers, and none of them sees an error: each lifecycle ends, once, and the books are exact."""
    async with serving(database_url, tmp_path) as served:
        host, _, port = served.address.rpartition(":")
        await served.budget(limit=None)
        async with (
            FaultyWire(lambda: asyncio.open_connection(host, int(port))) as wire,
            sdk(served, address=f"127.0.0.1:{wire.port}", timeout=seconds(60), backoff=NO_WAIT) as ledger,
        ):
            done = 0

            async def caller(number: int) -> None:
                nonlocal done
                turn = 0
                while wire.struck < 5:
                    turn += 1
                    async with ledger.guard(f"op-{number}-{turn}", budgets=["team"], quote=TEN) as operation:
                        await operation.begin_dispatch()
                        await operation.settle(charged=SEVEN)
                    done += 1

            wire.spoil(fault, OFTEN[fault])
            await asyncio.gather(*(caller(number) for number in range(16)))
            wire.mend()
            balances = (await ledger.get_budget("team")).balances
            assert (balances.spent, balances.held, balances.unknown) == (str(7 * done), "0", "0")
            assert ledger.finalisers.failed == 0


async def test_a_finaliser_that_reaches_nobody_is_told_and_the_lease_does_its_work(
    database_url: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with (
        serving(database_url, tmp_path, sweep_seconds=0.05) as served,
        wire_to(served.address) as wire,
        sdk(served) as near,
    ):
        await served.budget()
        async with sdk(served, address=wire.address, finalising=seconds(0.5)) as ledger:

            async def call(name: str, ending: Exception | None) -> None:
                async with ledger.guard(name, budgets=["team"], quote=TEN, dispatch=True, lease=seconds(1)):
                    wire.deaf = True
                    wire.cut()
                    if ending is not None:
                        raise ending

            with caplog.at_level(logging.WARNING, "ledger.client"), pytest.raises(Broken) as broken:
                await call("op-1", Broken())
            assert "The ledger could not be told" in broken.value.__notes__[0]
            (said,) = caplog.records
            assert said.__dict__["operation_id"] == "op-1"
            wire.deaf = False
            # Where nothing else is raised, it is.
            with pytest.raises(LedgerError):
                await call("op-2", None)
            assert ledger.finalisers.failed == 2
        for name in ("op-1", "op-2"):
            await until(near, name, "OUTCOME_UNKNOWN")


async def until(ledger: Ledger, operation_id: str, wanted: str) -> None:
    for _ in range(300):
        if (found := await state_of(ledger, operation_id)) == wanted:
            return
        await asyncio.sleep(0.02)
    raise AssertionError(f"{operation_id} is {found}, and not {wanted}")


async def test_closing_waits_for_a_finaliser_and_not_for_ever(database_url: str, tmp_path: Path) -> None:
    async with serving(database_url, tmp_path) as served, wire_to(served.address) as wire:
        await served.budget()
        ledger = sdk(served, address=wire.address, finalising=seconds(0.4))
        begun = asyncio.Event()

        async def call() -> None:
            async with ledger.guard("op", budgets=["team"], quote=TEN, dispatch=True):
                begun.set()
                await asyncio.sleep(3600)

        task = asyncio.create_task(call())
        await begun.wait()
        wire.hold()
        task.cancel()
        await asyncio.wait([task])
        await asyncio.wait_for(ledger.close(), 5)
        assert ledger.finalisers.failed == 1


async def test_an_idle_client_sends_nothing(database_url: str, tmp_path: Path) -> None:
    """Half a minute passes between two pings: in less than that not one byte goes over the wire, and no timer runs."""
    async with serving(database_url, tmp_path) as served, wire_to(served.address) as wire:
        await served.budget(limit=None)
        async with sdk(served, address=wire.address) as ledger:
            for turn in range(3):
                await asyncio.gather(
                    *(ledger.reserve(f"op-{turn}-{n}", budgets=["team"], quote=TEN) for n in range(20))
                )
            await asyncio.sleep(0.3)
            before = (wire.bytes_up, wire.bytes_down)
            await asyncio.sleep(2)
            assert (wire.bytes_up, wire.bytes_down) == before
            others = asyncio.all_tasks() - {asyncio.current_task()}
            assert not [task for task in others if "ledger/client" in str(task.get_coro())]
            assert not ledger._courier._trips
            assert wire.connections == 1


def open_budget(live: LiveLedger) -> None:
    request = budget_pb2.CreateBudgetRequest(idempotency_key="b", budget_id="team", currency="USD")
    live.stubs("t0", "admin").budgets.CreateBudget(request)


@pytest.mark.timeout(100)
def test_the_server_is_killed_under_guarded_calls(database_url: str, tmp_path: Path) -> None:
    """kill -9 twice, in mid-flight. Callers see a pause, and no error; nothing is lost, and nothing is posted twice."""

    async def under_load(live: LiveLedger) -> None:
        going, done = True, 0

        async def caller(number: int) -> None:
            nonlocal done
            turn = 0
            while going:
                turn += 1
                async with ledger.guard(f"op-{number}-{turn}", budgets=["team"], quote=TEN) as operation:
                    await operation.begin_dispatch()
                    answer = await operation.settle(charged=SEVEN)
                    assert answer.hold.state == hold_pb2.HOLD_STATE_SETTLED
                    done += 1

        address, token = live.servers[0].address, live.token("t0", "gateway")
        async with Ledger.connect(address, token, timeout=seconds(60)) as ledger:
            callers = [asyncio.create_task(caller(number)) for number in range(32)]
            for _ in range(2):
                before = done
                while done < before + 64:
                    await asyncio.sleep(0.01)
                await asyncio.to_thread(live.servers[0].kill)
                await asyncio.to_thread(live.servers[0].start)
            before = done
            while done < before + 64:
                await asyncio.sleep(0.01)
            going = False
            await asyncio.gather(*callers)
            balances = (await ledger.get_budget("team")).balances
            assert (balances.held, balances.unknown, balances.spent) == ("0", "0", str(7 * done))

    with live_ledger(database_url, tmp_path) as live:
        open_budget(live)
        asyncio.run(under_load(live))
        assert live.violations() == []


@pytest.mark.timeout(100)
def test_a_server_that_restarts_is_found_again(database_url: str, tmp_path: Path) -> None:
    async def calls(live: LiveLedger) -> None:
        async with Ledger.connect(live.servers[0].address, live.token("t0", "gateway")) as ledger:
            await ledger.reserve("op-1", budgets=["team"], quote=TEN)
            await asyncio.to_thread(live.servers[0].stop)
            with pytest.raises((NotDone, WriteOutcomeUnknown)):
                await ledger.reserve("op-2", budgets=["team"], quote=TEN, timeout=seconds(0.3))
            waiting = asyncio.create_task(ledger.reserve("op-2", budgets=["team"], quote=TEN, timeout=seconds(60)))
            await asyncio.to_thread(live.servers[0].start)
            assert state((await waiting).hold) == "RESERVED"

    with live_ledger(database_url, tmp_path) as live:
        open_budget(live)
        asyncio.run(calls(live))
