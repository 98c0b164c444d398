"""A client that is closed while somebody waits, and one that never gets through: what is told is what is known."""

import asyncio
from pathlib import Path

import pytest

from ledger.client import Ledger, NotDone, Refused, WriteOutcomeUnknown
from ledger.domain.model import Role
from tests.client.sdk import sdk, seconds
from tests.client.wire import wire_to
from tests.service.harness import serving


async def test_who_waits_for_a_single_call_is_told_what_is_known_of_it(database_url: str, tmp_path: Path) -> None:
    """Not that he was cancelled, which nobody did: a task group would take that for an end in order."""
    async with serving(database_url, tmp_path) as served, wire_to(served.address) as wire:
        ledger = sdk(served, Role.ADMIN, address=wire.address)
        await ledger.create_budget("team", currency="USD")
        following = ledger.watch()
        await anext(following)
        wire.hold()
        waiting = [
            asyncio.create_task(ledger.create_budget("lab", currency="USD")),
            asyncio.create_task(ledger.get_budget("team")),
            asyncio.create_task(anext(following)),
        ]
        await asyncio.sleep(0.05)
        await ledger.close()
        await ledger.close()
        ended = await asyncio.wait_for(asyncio.gather(*waiting, return_exceptions=True), 5)
        assert [type(error) for error in ended] == [WriteOutcomeUnknown, NotDone, NotDone]
        assert all("closed" in str(error) for error in ended)
        with pytest.raises(NotDone, match="closed"):
            await ledger.get_budget("team")


async def test_a_caller_who_is_cancelled_himself_is_cancelled(database_url: str, tmp_path: Path) -> None:
    async with (
        serving(database_url, tmp_path) as served,
        wire_to(served.address) as wire,
        sdk(served, Role.ADMIN, address=wire.address) as ledger,
    ):
        await ledger.create_budget("team", currency="USD")
        wire.hold()
        asking = asyncio.create_task(ledger.get_budget("team"))
        await asyncio.sleep(0.05)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        wire.let_go()


async def test_what_met_no_wire_was_not_done() -> None:
    async with Ledger.connect("127.0.0.1:1", "token", timeout=seconds(0.3)) as ledger:
        for asked in (ledger.create_budget("team", currency="USD"), ledger.release("op")):
            with pytest.raises(NotDone, match="is it running") as told:
                await asked
            assert "Nothing was done" in str(told.value)
        with pytest.raises(NotDone, match="No time was left"):
            await ledger.release("op", timeout=seconds(0))


async def test_who_waits_for_a_connection_is_told_of_the_close() -> None:
    ledger = Ledger.connect("127.0.0.1:1", "token", timeout=seconds(60))
    asked = [asyncio.create_task(call) for call in (ledger.create_budget("b", currency="USD"), ledger.release("op"))]
    await asyncio.sleep(0.05)
    await ledger.close()
    ended = await asyncio.wait_for(asyncio.gather(*asked, return_exceptions=True), 5)
    assert [type(error) for error in ended] == [NotDone, NotDone]
    assert all("closed" in str(error) for error in ended)


async def test_a_feed_that_falls_silent_is_given_up_when_patience_ends(database_url: str, tmp_path: Path) -> None:
    async with (
        serving(database_url, tmp_path) as served,
        wire_to(served.address) as wire,
        sdk(served, Role.AUDITOR, address=wire.address) as ledger,
    ):
        following = ledger.watch(heartbeat=seconds(1), patience=seconds(1.5))
        await anext(following)
        wire.hold()
        with pytest.raises(NotDone, match="told nothing"):
            await asyncio.wait_for(anext(following), 5)
        wire.let_go()


async def test_a_feed_that_is_not_for_this_role_is_refused(database_url: str, tmp_path: Path) -> None:
    async with serving(database_url, tmp_path) as served, sdk(served) as ledger:
        with pytest.raises(Refused, match="ROLE_NOT_ALLOWED"):
            await anext(ledger.watch())
