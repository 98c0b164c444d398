"""The client for programs without an event loop: the asynchronous one, wrapped."""

import asyncio
import inspect
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import CancelledError, ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from ledger.client import (
    Guard,
    GuardSync,
    Ledger,
    LedgerSync,
    NotPermitted,
    Refused,
    dispatch,
    metered_quote,
    usage_evidence,
)
from ledger.client.bridge import Bridge
from ledger.domain.model import Role
from tests.client.sdk import SEVEN, TEN, reason, seconds, state
from tests.service.harness import NONCE, put_card, serving
from tests.service.harness import Ledger as Served


@asynccontextmanager
async def away_from_the_loop(
    database_url: str, folder: Path, limit: str | None = None
) -> AsyncIterator[tuple[LedgerSync, Served]]:
    """A server in this loop, and a client for a thread of its own: the tests' bodies run beside the server."""
    async with serving(database_url, folder) as served:
        await served.budget(limit=limit)
        await put_card(served)
        ledger = LedgerSync.connect(served.address, served.token("acme", Role.GATEWAY))
        try:
            yield ledger, served
        finally:
            await asyncio.to_thread(ledger.close)


def test_every_method_is_there_and_has_its_parameters() -> None:
    """Nothing is written twice, and nothing is forgotten."""
    for inner, wrapped in ((Ledger, LedgerSync), (Guard, GuardSync)):
        own = {
            name
            for name, value in inspect.getmembers(inner)
            if not name.startswith("_") and (inspect.iscoroutinefunction(value) or inspect.isasyncgenfunction(value))
        }
        assert own <= set(vars(wrapped)), own - set(vars(wrapped))
        for name in own - {"close", "stream"} | ({"watch"} if inner is Ledger else set()):
            assert inspect.signature(getattr(wrapped, name)) == inspect.signature(getattr(inner, name))


async def test_a_lifecycle_call_by_call(database_url: str, tmp_path: Path) -> None:
    def body() -> None:
        reserved = ledger.reserve("op", budgets=["team"], quote=TEN)
        assert state(reserved.hold) == "RESERVED"
        assert ledger.begin_dispatch("op", dispatch(NONCE)).may_send
        settled = ledger.resolve("op", usage_evidence("openai", charged=SEVEN))
        assert state(settled.hold) == "SETTLED"
        assert ledger.get_hold("op").quote.amount.amount == "10"
        assert [hold.operation_id for hold in ledger.list_holds()] == ["op"]
        with pytest.raises(Refused) as refused:
            ledger.release("op")
        assert reason(refused.value) == "HOLD_STATE"

    async with away_from_the_loop(database_url, tmp_path) as (ledger, _):
        await asyncio.to_thread(body)


async def test_the_guard_and_its_exits(database_url: str, tmp_path: Path) -> None:
    def body() -> None:
        with ledger.guard("settled", budgets=["team"], quote=TEN) as operation:
            operation.begin_dispatch()
            assert operation.may_send
            operation.settle(charged=SEVEN)
        assert state(operation.hold) == "SETTLED"
        with ledger.guard("left", budgets=["team"], quote=TEN):
            pass
        with pytest.raises(ZeroDivisionError), ledger.guard("broken", budgets=["team"], quote=TEN, dispatch=True):
            raise ZeroDivisionError
        with pytest.raises(KeyboardInterrupt), ledger.guard("stopped", budgets=["team"], quote=TEN, dispatch=True):
            raise KeyboardInterrupt
        with pytest.raises(NotPermitted):
            ledger.guard("settled", budgets=["team"], quote=TEN).__enter__()
        told = {name: state(ledger.get_hold(name)) for name in ("left", "broken")}
        assert told == {"left": "RELEASED", "broken": "OUTCOME_UNKNOWN"}

    async with away_from_the_loop(database_url, tmp_path) as (ledger, served):
        await asyncio.to_thread(body)
        # An interrupted caller does not wait for his finaliser: closing does.
        await asyncio.to_thread(ledger.close)
        async with Ledger.connect(served.address, served.token("acme", Role.GATEWAY)) as after:
            assert state(await after.get_hold("stopped")) == "OUTCOME_UNKNOWN"


async def test_a_stream_that_is_read_in_the_caller_s_thread(database_url: str, tmp_path: Path) -> None:
    final = {"model": "gpt-5", "usage": {"prompt_tokens": 1_000, "completion_tokens": 200, "total_tokens": 1_200}}

    def events() -> Iterator[Any]:
        reading.append(threading.current_thread())
        yield from ("Good ", "day.", final, "[DONE]")

    def body() -> None:
        quote = metered_quote("gpt-5", api_flavor="openai.chat", ceilings={"input_tokens": 2_000, "output_tokens": 500})
        with ledger.guard("op", budgets=["team"], quote=quote, provider="openai", dispatch=True) as operation:
            stream = operation.stream(events(), usage=lambda event: event if isinstance(event, dict) else None)
            seen.extend((event, state(ledger.get_hold("op"))) for event in stream)
        reading.append(threading.current_thread())

    seen: list[tuple[Any, str]] = []
    reading: list[threading.Thread] = []
    async with away_from_the_loop(database_url, tmp_path) as (ledger, _):
        await asyncio.to_thread(body)
    assert [told for _, told in seen] == ["DISPATCHING", "DISPATCHING", "SETTLED", "SETTLED"]
    assert seen[-1][0] == "[DONE]"
    assert reading[0] is reading[1]


async def test_calls_of_many_threads_go_together(database_url: str, tmp_path: Path) -> None:
    sizes: list[int] = []

    def body() -> None:
        inner: Any = ledger._inner
        execute = inner.stubs.holds.BatchExecute

        def looking_on(request: Any, **options: Any) -> Any:
            sizes.append(len(request.commands))
            return execute(request, **options)

        inner.stubs.holds.BatchExecute = looking_on
        start = threading.Barrier(24)

        def one(number: int) -> str:
            start.wait()
            with ledger.guard(f"op-{number}", budgets=["team"], quote=TEN) as operation:
                operation.begin_dispatch()
                operation.settle(charged=SEVEN)
            return state(operation.hold)

        with ThreadPoolExecutor(24) as pool:
            assert set(pool.map(one, range(24))) == {"SETTLED"}

    async with away_from_the_loop(database_url, tmp_path) as (ledger, _):
        await asyncio.to_thread(body)
    assert sum(sizes) == 72
    assert len(sizes) < 72


async def test_misuse_ends_in_an_error_and_not_in_silence(database_url: str, tmp_path: Path) -> None:
    async with away_from_the_loop(database_url, tmp_path) as (ledger, _):

        async def within() -> None:
            ledger.get_hold("op")

        with pytest.raises(RuntimeError, match="own event loop"):
            await asyncio.to_thread(ledger._bridge.run, within())
        await asyncio.to_thread(ledger.close)
        await asyncio.to_thread(ledger.close)
        with pytest.raises(RuntimeError, match="closed"):
            ledger.get_hold("op")


async def test_a_feed_is_followed_and_left(database_url: str, tmp_path: Path) -> None:
    def body() -> None:
        ledger.reserve("op", budgets=["team"], quote=TEN)
        with LedgerSync.connect(served.address, served.token("acme", Role.AUDITOR)) as auditor:
            following = auditor.watch()
            while not any(event.HasField("hold") for event in next(following).events):
                pass
            following.close()
            assert not auditor._inner.stubs.channel._active_calls  # type: ignore[attr-defined] # nothing else tells

    async with away_from_the_loop(database_url, tmp_path) as (ledger, served):
        await asyncio.to_thread(body)


async def test_an_interrupted_entry_leaves_nothing_behind(database_url: str, tmp_path: Path) -> None:
    """The answer is there, and the caller is interrupted before he has it: no block is there to be left."""

    def body() -> None:
        run = ledger._bridge.run

        def interrupted(work: Any) -> Any:
            ledger._bridge.run = run  # type: ignore[method-assign] # once
            run(work)
            raise KeyboardInterrupt

        ledger._bridge.run = interrupted  # type: ignore[method-assign] # a signal at this moment
        with pytest.raises(KeyboardInterrupt):
            ledger.guard("op", budgets=["team"], quote=TEN).__enter__()
        ledger.close()

    async with away_from_the_loop(database_url, tmp_path) as (ledger, served):
        await asyncio.to_thread(body)
        async with Ledger.connect(served.address, served.token("acme", Role.GATEWAY)) as after:
            assert state(await after.get_hold("op")) == "RELEASED"


def test_nobody_waits_for_ever_for_a_bridge_that_is_closed() -> None:
    bridge = Bridge()
    told: list[type[BaseException]] = []

    def wait() -> None:
        try:
            bridge.run(asyncio.sleep(60))
        except BaseException as error:
            told.append(type(error))

    waiting = threading.Thread(target=wait, daemon=True)
    waiting.start()
    time.sleep(0.1)
    bridge.close()
    waiting.join(5)
    assert told == [CancelledError]
    with pytest.raises(RuntimeError, match="closed"):
        bridge.run(asyncio.sleep(0))


FORKING = """
import asyncio, os
from ledger.client.bridge import Bridge
bridge = Bridge()
child = os.fork()
if not child:
    try:
        bridge.run(asyncio.sleep(0))
    except RuntimeError as error:
        bridge.close()
        os._exit(7 if "fork" in str(error) else 1)
    os._exit(2)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
bridge.run(asyncio.sleep(0))
bridge.close()
"""


def test_after_a_fork_it_says_so_and_the_parent_s_goes_on() -> None:
    environment = os.environ | {"GRPC_ENABLE_FORK_SUPPORT": "0"}
    forked = subprocess.run([sys.executable, "-c", FORKING], env=environment, timeout=20, check=False)
    assert forked.returncode == 0


def test_an_interrupted_wait_cancels_the_work() -> None:
    bridge = Bridge()
    ended = threading.Event()

    async def work() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            ended.set()

    def interrupt() -> None:
        time.sleep(0.2)
        signal.pthread_kill(main, signal.SIGINT)

    main = threading.main_thread().ident or 0
    threading.Thread(target=interrupt).start()
    with pytest.raises(KeyboardInterrupt):
        bridge.run(work())
    assert ended.wait(5)
    bridge.close()


def test_no_thread_is_left_of_a_client_that_could_not_be_made() -> None:
    before = threading.active_count()
    with pytest.raises(TypeError):
        LedgerSync.connect("127.0.0.1:1", "token", timeout_in_parsecs=seconds(1))  # type: ignore[call-arg] # it is not one
    assert threading.active_count() == before
