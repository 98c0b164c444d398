"""The ledger for programs without an event loop: one thread runs one, and every method is a call into it.

Nothing is written twice: a method here is the asynchronous one, wrapped, with its parameters and its answer. Calls of several
threads meet in the one loop, and go to the ledger together.
"""

import asyncio
import functools
import os
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator, Iterable, Iterator
from concurrent.futures import Future
from pathlib import Path
from types import TracebackType
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar, Unpack

import grpc

from ledger.client.guard import Event, Guard, Usage
from ledger.client.ledger import Ledger, Options
from ledger.client.relay import Relay, never

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")
Inner = TypeVar("Inner")
Inner_co = TypeVar("Inner_co", covariant=True)


class Bridge:
    """A thread with an event loop."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._process = os.getpid()
        # A handler of signals may call the client in the middle of a call of the client.
        self._lock = threading.RLock()
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="ledger-client", daemon=True)
        self._thread.start()

    @property
    def usable(self) -> bool:
        """False once it is closed, and in a process that was forked off: the thread stayed behind."""
        return not self._closed and os.getpid() == self._process

    def run(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Waits for the work, which goes on in the thread. If the wait is interrupted (Ctrl-C) the work is cancelled."""
        try:
            future = self._started(work)
        except RuntimeError:
            work.close()
            raise
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def _started(self, work: Coroutine[Any, Any, Result]) -> "Future[Result]":
        if os.getpid() != self._process:
            raise RuntimeError("this client was made before a fork: make one in each process")
        if threading.current_thread() is self._thread:
            raise RuntimeError("this client is called from within its own event loop, which would wait for itself")
        with self._lock:
            # Nothing comes after the end: it would be waited for for ever.
            if self._closed:
                raise RuntimeError("this client is closed: make another")
            return asyncio.run_coroutine_threadsafe(work, self._loop)

    def close(self) -> None:
        """Ends the thread. Whoever still waits is told that his work was cancelled."""
        if threading.current_thread() is self._thread:
            raise RuntimeError("this client is closed from within its own event loop, which would wait for itself")
        if os.getpid() != self._process:
            return
        with self._lock:
            if self._closed:
                return
            self._closed = True
        asyncio.run_coroutine_threadsafe(_cancel_all(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()


async def _cancel_all() -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)


class _Wrapped(Generic[Inner_co]):
    """An asynchronous object, and the bridge to it."""

    def __init__(self, bridge: Bridge, inner: Inner_co) -> None:
        self._bridge = bridge
        self._inner = inner


def _waiting(
    method: Callable[Concatenate[Inner, Parameters], Coroutine[Any, Any, Result]],
) -> Callable[Concatenate[_Wrapped[Inner], Parameters], Result]:
    """The method, waited for."""

    @functools.wraps(method)
    def call(self: _Wrapped[Inner], /, *args: Parameters.args, **named: Parameters.kwargs) -> Result:
        return self._bridge.run(method(self._inner, *args, **named))

    return call


def _iterating(
    method: Callable[Concatenate[Inner, Parameters], AsyncGenerator[Result, None]],
) -> Callable[Concatenate[_Wrapped[Inner], Parameters], Generator[Result, None, None]]:
    """The method, whose items are waited for one by one."""

    @functools.wraps(method)
    def call(
        self: _Wrapped[Inner], /, *args: Parameters.args, **named: Parameters.kwargs
    ) -> Generator[Result, None, None]:
        items = method(self._inner, *args, **named)

        async def following() -> tuple[Result] | None:
            async for item in items:
                return (item,)
            return None

        try:
            while (found := self._bridge.run(following())) is not None:
                yield found[0]
        finally:
            # Left half-way, it must not keep its call open.
            if self._bridge.usable:
                self._bridge.run(items.aclose())

    return call


def _guarding(
    method: Callable[Concatenate[Ledger, Parameters], Guard],
) -> "Callable[Concatenate[LedgerSync, Parameters], GuardSync]":
    @functools.wraps(method)
    def call(self: "LedgerSync", /, *args: Parameters.args, **named: Parameters.kwargs) -> "GuardSync":
        return GuardSync(self._bridge, method(self._inner, *args, **named))

    return call


class GuardSync(_Wrapped[Guard]):
    """`with ledger.guard(…) as operation`: see `ledger.client.guard`."""

    begin_dispatch = _waiting(Guard.begin_dispatch)
    settle = _waiting(Guard.settle)
    rejected = _waiting(Guard.rejected)
    never_sent = _waiting(Guard.never_sent)
    cache_hit = _waiting(Guard.cache_hit)
    outcome_unknown = _waiting(Guard.outcome_unknown)
    release = _waiting(Guard.release)
    failed_before_dispatch = _waiting(Guard.failed_before_dispatch)
    record_receipt = _waiting(Guard.record_receipt)
    hold = property(lambda self: self._inner.hold)
    may_send = property(lambda self: self._inner.may_send)
    may_continue = property(lambda self: self._inner.may_continue)
    operation_id = property(lambda self: self._inner.operation_id)
    end_of_stream = _waiting(Guard.end_of_stream)

    def stream(
        self,
        events: Iterable[Event],
        *,
        usage: Callable[[Event], Usage | None],
        terminal: Callable[[Event], bool] = never,
    ) -> Iterator[Event]:
        """`Guard.stream` over events that are read in the caller's own thread."""
        relay: Relay[Event, Usage] = Relay(usage, terminal)
        for event in events:
            if relay.passes(event):
                yield event
            elif relay.found is not None:
                self._inner.found(relay.found)
        self.end_of_stream()
        yield from relay.held

    def __enter__(self) -> Self:
        try:
            self._bridge.run(self._inner.__aenter__())
        except BaseException as error:
            if not isinstance(error, Exception):
                # Interrupted, perhaps when the answer was there: no block will be left.
                self._bridge.run(self._inner.__aexit__(type(error), error, None))
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._bridge.run(self._inner.__aexit__(kind, error, traceback))


class LedgerSync(_Wrapped[Ledger]):
    """`with LedgerSync.connect(address, token) as ledger`. For any number of threads of one process, not for a fork of it."""

    guard = _guarding(Ledger.guard)
    watch = _iterating(Ledger.watch)
    reserve = _waiting(Ledger.reserve)
    begin_dispatch = _waiting(Ledger.begin_dispatch)
    record_failed_before_dispatch = _waiting(Ledger.record_failed_before_dispatch)
    record_receipt = _waiting(Ledger.record_receipt)
    record_delivery = _waiting(Ledger.record_delivery)
    resolve = _waiting(Ledger.resolve)
    correct = _waiting(Ledger.correct)
    mark_outcome_unknown = _waiting(Ledger.mark_outcome_unknown)
    cancel = _waiting(Ledger.cancel)
    release = _waiting(Ledger.release)
    get_hold = _waiting(Ledger.get_hold)
    list_holds = _iterating(Ledger.list_holds)
    create_budget = _waiting(Ledger.create_budget)
    grant_budget = _waiting(Ledger.grant_budget)
    get_budget = _waiting(Ledger.get_budget)
    verify_write = _waiting(Ledger.verify_write)
    ask = _waiting(Ledger.ask)
    execute = _waiting(Ledger.execute)
    stubs = property(lambda self: self._inner.stubs)

    @classmethod
    def connect(
        cls,
        address: str,
        token: str,
        *,
        root_certificate: Path | None = None,
        credentials: grpc.ChannelCredentials | None = None,
        **options: Unpack[Options],
    ) -> "LedgerSync":
        """As `Ledger.connect`."""

        async def made() -> Ledger:
            return Ledger.connect(address, token, root_certificate=root_certificate, credentials=credentials, **options)

        bridge = Bridge()
        try:
            return cls(bridge, bridge.run(made()))
        except BaseException:
            bridge.close()
            raise

    def close(self) -> None:
        """As `Ledger.close`; then the thread ends. A second time it does nothing."""
        if self._bridge.usable:
            try:
                self._bridge.run(self._inner.close())
            finally:
                self._bridge.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()
