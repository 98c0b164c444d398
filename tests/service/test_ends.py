"""Readers at the end of one feed are served by one poll, and none of them waits for another."""

import asyncio
import time

from ledger.domain.refusals import Reason, Refusal
from ledger.service.ends import Ends
from ledger.service.errors import Refused
from ledger.store.feed import Place

OLD, END, NEW = (Place(1, position, 0, 1) for position in (7, 8, 9))


class Ledger:
    """Where the feed of each tenant ends, and who asked for it."""

    def __init__(self) -> None:
        self.ends: dict[str, Place] = {}
        self.asked: list[str] = []
        self.is_down = False

    async def newest(self, tenant: str) -> Place | None:
        self.asked.append(tenant)
        if self.is_down:
            raise Refused(Refusal(Reason.STORE_UNAVAILABLE, "It is down."))
        return self.ends.get(tenant)


async def test_many_readers_ask_as_often_as_one() -> None:
    ledger = Ledger()
    ledger.ends = {"acme": END, "beta": END}
    ends = Ends(ledger.newest)
    begun = time.monotonic()
    waiting = [asyncio.create_task(ends.beyond("acme", END, 10)) for _ in range(20)]
    waiting += [asyncio.create_task(ends.beyond("beta", END, 10)) for _ in range(20)]
    # One reader asks after 50, 150 and 350 ms.
    await asyncio.sleep(0.25)
    assert sorted(ledger.asked) == ["acme"] * 2 + ["beta"] * 2
    ledger.ends["acme"] = NEW
    await asyncio.gather(*waiting[:20])
    assert time.monotonic() - begun < 5
    assert not any(reader.done() for reader in waiting[20:])
    for reader in waiting[20:]:
        reader.cancel()
    await asyncio.wait(waiting[20:])
    asked = len(ledger.asked)
    await asyncio.sleep(0.5)
    # Nobody waits any more, so nobody asks.
    assert len(ledger.asked) == asked


async def test_who_comes_late_is_not_held_up_by_who_has_seen_more() -> None:
    ledger = Ledger()
    ledger.ends = {"acme": END}
    ends = Ends(ledger.newest)
    ahead = asyncio.create_task(ends.beyond("acme", END, 10))
    await asyncio.sleep(0)
    async with asyncio.timeout(1):
        await ends.beyond("acme", OLD, 10)
        await ends.beyond("acme", None, 10)
    assert not ahead.done()
    ends.close()
    await ahead


async def test_nobody_waits_longer_than_he_said_nor_after_the_close_nor_for_a_database_that_is_down() -> None:
    ledger = Ledger()
    ends = Ends(ledger.newest)
    async with asyncio.timeout(1):
        await ends.beyond("acme", None, 0.02)
        ledger.is_down = True
        await ends.beyond("acme", None, 10)
        waits = asyncio.create_task(ends.beyond("acme", None, 10))
        await asyncio.sleep(0)
        ends.close()
        await waits
        await ends.beyond("acme", None, 10)
