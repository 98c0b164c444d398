"""The lease of a guarded call: it is extended while the block runs, and not for longer."""

import asyncio
from pathlib import Path

from tests.client.sdk import SEVEN, TEN, sdk, seconds, state, state_of
from tests.client.wire import wire_to
from tests.service.harness import serving


async def test_a_call_may_take_longer_than_its_lease(database_url: str, tmp_path: Path) -> None:
    async with serving(database_url, tmp_path, sweep_seconds=0.05) as served, sdk(served) as ledger:
        await served.budget()
        async with ledger.guard("op", budgets=["team"], quote=TEN, lease=seconds(1)) as operation:
            await operation.begin_dispatch()
            begun = operation.hold.attempt.lease_expire_time.ToSeconds()
            await asyncio.sleep(2.3)
            hold = await ledger.get_hold("op")
            assert (state(hold), operation.may_continue) == ("DISPATCHING", True)
            assert hold.attempt.lease_expire_time.ToSeconds() > begun
            await operation.settle(charged=SEVEN)
        assert await state_of(ledger, "op") == "SETTLED"


async def test_nothing_beats_when_the_block_is_left(database_url: str, tmp_path: Path) -> None:
    async with serving(database_url, tmp_path) as served, wire_to(served.address) as wire:
        await served.budget()
        async with sdk(served, address=wire.address) as ledger:
            for name, leave in (("settled", False), ("left", True)):
                async with ledger.guard(
                    name, budgets=["team"], quote=TEN, dispatch=True, lease=seconds(1)
                ) as operation:
                    if not leave:
                        await operation.settle(charged=SEVEN)
            await asyncio.sleep(0.1)
            before = wire.bytes_up
            await asyncio.sleep(1)
            assert wire.bytes_up == before


async def test_an_attempt_that_was_ended_elsewhere_is_told(database_url: str, tmp_path: Path) -> None:
    async with serving(database_url, tmp_path) as served, sdk(served) as ledger:
        await served.budget()
        async with ledger.guard("op", budgets=["team"], quote=TEN, dispatch=True, lease=seconds(1)) as operation:
            await ledger.mark_outcome_unknown("op", "cancelled elsewhere")
            for _ in range(100):
                if not operation.may_continue:
                    break
                await asyncio.sleep(0.02)
            assert not operation.may_continue
            # The answer came all the same: that is evidence.
            await operation.settle(charged=SEVEN)
        assert await state_of(ledger, "op") == "SETTLED"


async def test_a_heartbeat_that_is_lost_delays_no_settlement(database_url: str, tmp_path: Path) -> None:
    async with serving(database_url, tmp_path) as served, wire_to(served.address) as wire:
        await served.budget()
        async with sdk(served, address=wire.address) as ledger:
            async with ledger.guard("op", budgets=["team"], quote=TEN, dispatch=True, lease=seconds(1)) as operation:
                wire.deaf = True
                wire.cut()
                await asyncio.sleep(0.5)
                wire.deaf = False
                await operation.settle(charged=SEVEN)
            assert await state_of(ledger, "op") == "SETTLED"
