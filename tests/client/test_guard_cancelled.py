"""A caller who is cancelled at each place where a guarded block can wait, in three ways; and a client that is closed meanwhile.

Whatever happens: what may have been sent is never freed, what was never sent holds no money, and nothing stays open.
"""

import asyncio
import types
from collections.abc import Awaitable, Callable, Generator
from dataclasses import dataclass, field
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Any

import pytest

from ledger.client import Ledger
from tests.client.sdk import SEVEN, TEN, sdk, seconds, state, state_of
from tests.service.harness import Ledger as Served
from tests.service.harness import serving


class When(Enum):
    """When the cancellation comes, of a wait."""

    BEFORE = "before anything was sent"
    DURING = "while the answer is on its way"
    AFTER = "when the answer is there, and the caller has not seen it"


@dataclass
class Run:
    """One guarded call that is cancelled at its wait number `place`, counted from 1."""

    place: int
    when: When
    waits: int = 0
    sent: int = 0
    told: list[str] = field(default_factory=list)

    @types.coroutine
    def watch(self, work: Awaitable[Any]) -> Generator[Any, Any, Any]:
        """Does the work, and cancels the task that does it at the place."""
        steps = work.__await__()
        task = asyncio.current_task()
        assert task is not None
        error: BaseException | None = None
        while True:
            try:
                waited = next(steps) if error is None else steps.throw(error)
            except StopIteration as done:
                return done.value
            error = None
            self.waits += 1
            if self.waits == self.place:
                self._cancel(task, waited)
            try:
                yield waited
            except BaseException as thrown:
                error = thrown

    def _cancel(self, task: "asyncio.Task[Any]", waited: Any) -> None:
        if self.when is When.BEFORE or not isinstance(waited, asyncio.Future):
            task.cancel()
        elif self.when is When.DURING:
            asyncio.get_running_loop().call_later(0.002, task.cancel)
        else:
            # Called before the task's own callback, so that it wakes up with an answer and a cancellation.
            waited.add_done_callback(lambda _: task.cancel())


async def provider(run: Run) -> None:
    run.sent += 1
    await asyncio.sleep(0.004)


async def settling(ledger: Ledger, run: Run, operation_id: str) -> None:
    async with ledger.guard(operation_id, budgets=["team"], quote=TEN) as operation:
        await operation.begin_dispatch()
        await provider(run)
        await operation.settle(charged=SEVEN)
        run.told.append("settled")


async def at_once(ledger: Ledger, run: Run, operation_id: str) -> None:
    async with ledger.guard(operation_id, budgets=["team"], quote=TEN, dispatch=True) as operation:
        await provider(run)
        await operation.settle(charged=SEVEN)
        run.told.append("settled")


async def giving_up(ledger: Ledger, run: Run, operation_id: str) -> None:
    async with ledger.guard(operation_id, budgets=["team"], quote=TEN) as operation:
        await operation.begin_dispatch()
        await provider(run)
        await operation.outcome_unknown("time-out")


async def leaving(_ledger: Ledger, _run: Run, operation_id: str) -> None:
    async with _ledger.guard(operation_id, budgets=["team"], quote=TEN):
        await asyncio.sleep(0.004)


async def streaming(ledger: Ledger, run: Run, operation_id: str) -> None:
    async def events() -> Any:
        await provider(run)
        yield "text"
        await asyncio.sleep(0.004)
        yield "usage"

    async with ledger.guard(operation_id, budgets=["team"], quote=TEN, dispatch=True) as operation:
        usage = {"text": None, "usage": operation.evidence(charged=SEVEN)}
        async for event in operation.stream(events(), usage=usage.__getitem__):
            run.told.append(event)


Block = Callable[[Ledger, Run, str], Awaitable[None]]


async def one(ledger: Ledger, block: Block, place: int, when: When) -> Run:
    """Runs the block; how it ended, once the finalisers are done."""
    run = Run(place, when)
    name = f"{block.__name__}-{place}-{when.name.lower()}"

    async def caller() -> None:
        await run.watch(block(ledger, run, name))

    task = asyncio.create_task(caller())
    ended = (await asyncio.gather(task, return_exceptions=True))[0]
    assert ended is None or isinstance(ended, asyncio.CancelledError), ended
    await ledger.finalisers.done()
    run.told.append(await state_of(ledger, name))
    return run


ENDS: dict[Block, set[str]] = {
    settling: {"SETTLED"},
    at_once: {"SETTLED"},
    giving_up: {"OUTCOME_UNKNOWN"},
    leaving: {"RELEASED"},
    streaming: {"SETTLED"},
}


@pytest.mark.parametrize("block", list(ENDS), ids=lambda block: block.__name__)
async def test_a_caller_is_cancelled_at_every_wait(database_url: str, tmp_path: Path, block: Block) -> None:
    async with serving(database_url, tmp_path) as served, sdk(served) as ledger:
        await served.budget(limit=None)
        whole = await one(ledger, block, 0, When.BEFORE)
        assert whole.told[-1] in ENDS[block]
        assert whole.waits >= 2
        ends: set[tuple[str, int]] = set()
        for place in range(1, whole.waits + 1):
            for when in When:
                run = await one(ledger, block, place, when)
                assert run.sent <= 1
                ends.add((run.told[-1], run.sent))
        # Sent: unknown, or settled on what was known. Not sent: no hold, released, or settled on the proof that it was not.
        assert ends <= {
            ("OUTCOME_UNKNOWN", 1),
            ("SETTLED", 1),
            ("", 0),
            ("RELEASED", 0),
            ("SETTLED", 0),
        }
        assert len(ends) >= 2
        await the_books_agree(served, ledger, block)
        assert ledger.finalisers.failed == 0


async def the_books_agree(served: Served, ledger: Ledger, block: Block) -> None:
    """What was never sent cost nothing, and nothing is open."""
    by_state: dict[str, list[Any]] = {}
    async for hold in ledger.list_holds():
        by_state.setdefault(state(hold), []).append(hold)
    assert by_state.keys() <= {"SETTLED", "RELEASED", "OUTCOME_UNKNOWN"}
    charged = [hold for hold in by_state.get("SETTLED", []) if hold.resolution.amount.amount != "0"]
    balances = (await ledger.get_budget("team")).balances
    assert (balances.held, Decimal(balances.spent)) == ("0", Decimal(7 * len(charged)))
    assert Decimal(balances.unknown) == 10 * len(by_state.get("OUTCOME_UNKNOWN", []))


async def test_a_cancelled_settle_is_still_settled(database_url: str, tmp_path: Path) -> None:
    """The caller knew the outcome and had begun to say it: that is not lost with him."""
    async with serving(database_url, tmp_path) as served:
        await served.budget()
        async with sdk(served) as ledger:

            async def call() -> None:
                async with ledger.guard("op", budgets=["team"], quote=TEN, dispatch=True) as operation:
                    saying = asyncio.create_task(operation.settle(charged=SEVEN))
                    await asyncio.sleep(0)
                    saying.cancel()
                    await saying

            with pytest.raises(asyncio.CancelledError):
                await asyncio.create_task(call())
            # `close` waits for the finaliser.
        async with sdk(served) as after:
            assert await state_of(after, "op") == "SETTLED"


async def test_a_cancelled_caller_is_not_kept_waiting(database_url: str, tmp_path: Path) -> None:
    async with serving(database_url, tmp_path) as served, sdk(served) as ledger:
        await served.budget()
        begun = asyncio.Event()

        async def call() -> None:
            async with ledger.guard("op", budgets=["team"], quote=TEN, dispatch=True):
                begun.set()
                await asyncio.sleep(3600)

        task = asyncio.create_task(call())
        await begun.wait()
        task.cancel()
        await asyncio.wait([task])
        assert len(ledger.finalisers) == 1
        await ledger.finalisers.done()
        assert await state_of(ledger, "op") == "OUTCOME_UNKNOWN"


async def test_an_event_loop_that_closes_leaves_it_to_the_lease(database_url: str, tmp_path: Path) -> None:
    """A program that ends without closing its client cancels the finaliser: the lease makes the outcome unknown."""

    async def program(served: Served) -> None:
        async with sdk(served).guard("op", budgets=["team"], quote=TEN, dispatch=True, lease=seconds(1)):
            raise KeyboardInterrupt

    def interrupted(served: Served) -> None:
        with pytest.raises(KeyboardInterrupt):
            asyncio.run(program(served))

    async with serving(database_url, tmp_path, sweep_seconds=0.05) as served, sdk(served) as ledger:
        await served.budget()
        await asyncio.to_thread(interrupted, served)
        for _ in range(200):
            if await state_of(ledger, "op") == "OUTCOME_UNKNOWN":
                return
            await asyncio.sleep(0.02)
        raise AssertionError(await state_of(ledger, "op"))
