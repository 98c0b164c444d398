"""The load: a process of its own that calls a server. `python -m tests.benchmarks.load` reads its job from standard input.

It is kept lean, so that it is the server that is measured: messages are built for each call, and nothing else is done.
"""

import asyncio
import gc
import itertools
import json
import sys
import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass
from typing import Any, TypeAlias, cast

import grpc
import grpc.aio
from grpc_health.v1 import health_pb2, health_pb2_grpc

from ledger.client import Batching, Ledger
from ledger.v1 import budget_pb2, budget_pb2_grpc, hold_pb2, hold_pb2_grpc
from tests.benchmarks import workload

Metadata: TypeAlias = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Job:
    """One load. kind: "noop", "unary" (the three calls of a lifecycle), "guarded" (a lifecycle by the SDK's guard, its commands
    coalesced), "alone" (the same, each command in an RPC of its own), "read" (GetBudget), "batch", or the settling alone of such
    batches: "resolve" (on usage in buckets) or "resolve as sent" (on the usage object of the provider).

    `callers` are spread over the `targets`, and the operations, or the batches, over `budgets` budgets from the number `first`
    on. For all but batch and resolve the callers call for `warmup` and then for `seconds`. For those they send `count` batches
    of `size` lifecycles in all, after `warmup_count` others.
    """

    kind: str
    targets: tuple[str, ...]
    token: str
    prefix: str
    callers: int = 32
    warmup: float = 1.0
    seconds: float = 4.0
    budgets: int = 1
    first: int = 0
    size: int = 500
    count: int = 20
    warmup_count: int = 4


@dataclass(frozen=True, slots=True)
class Load:
    """What was done while the clock ran: RPCs (noop, unary) or lifecycles, the seconds, and the times of each (or a batch)."""

    done: int
    seconds: float
    median_ms: float
    p99_ms: float

    @property
    def rate(self) -> float:
        return self.done / self.seconds


class Tally:
    """Counts the calls that end while the clock runs."""

    def __init__(self) -> None:
        self.running = True
        self.counting = False
        self.times: list[float] = []

    def note(self, started: float) -> float:
        now = time.perf_counter()
        if self.counting:
            self.times.append(now - started)
        return now


async def noop(tally: Tally, channel: grpc.aio.Channel, metadata: Metadata) -> None:
    """An empty call, which reaches no rule and no database."""
    # The stubs know no methods of it.
    check = cast(Any, health_pb2_grpc.HealthStub(channel)).Check
    while tally.running:
        started = time.perf_counter()
        await check(health_pb2.HealthCheckRequest(), metadata=metadata)
        tally.note(started)


async def reads(tally: Tally, channel: grpc.aio.Channel, metadata: Metadata, job: Job) -> None:
    """A budget with its balances."""
    stub = budget_pb2_grpc.BudgetServiceStub(channel)
    for number in itertools.count():
        if not tally.running:
            return
        asked = budget_pb2.GetBudgetRequest(budget_id=workload.budget_id(job.first + number % job.budgets))
        started = time.perf_counter()
        await stub.GetBudget(asked, metadata=metadata)
        tally.note(started)


async def lifecycles(
    tally: Tally, channel: grpc.aio.Channel, metadata: Metadata, numbers: "itertools.count[int]", job: Job
) -> None:
    """Reserve, BeginDispatch, Resolve: each is awaited, and answers when it is committed."""
    stub = hold_pb2_grpc.HoldServiceStub(channel)
    while tally.running:
        number = next(numbers)
        name = workload.operation_id(job.prefix, number)
        started = time.perf_counter()
        await stub.Reserve(workload.reserve(number, name, job.first + number % job.budgets), metadata=metadata)
        started = tally.note(started)
        begun = await stub.BeginDispatch(workload.begin_dispatch(name), metadata=metadata)
        started = tally.note(started)
        resolved = await stub.Resolve(workload.resolve(number, name), metadata=metadata)
        tally.note(started)
        if not begun.may_send or resolved.hold.state != hold_pb2.HOLD_STATE_SETTLED:
            raise RuntimeError(f"operation {name} did not go its way: {resolved}")


async def guarded(tally: Tally, ledger: Ledger, numbers: "itertools.count[int]", job: Job) -> None:
    """The same three steps under a guard; the provider answers at once."""
    while tally.running:
        number = next(numbers)
        name = workload.operation_id(job.prefix, number)
        started = time.perf_counter()
        async with ledger.guard(
            name,
            budgets=[workload.budget_id(job.first + number % job.budgets)],
            quote=workload.quote(number),
            labels=workload.LABELS,
            provider=workload.PROVIDER,
            executor=workload.EXECUTOR,
            adapter=workload.ADAPTER,
            adapter_revision=workload.ADAPTER_REVISION,
        ) as operation:
            await operation.begin_dispatch()
            resolved = await operation.settle(
                buckets=workload.usage(number), model=workload.MODEL, receipt=f"resp-{name}"
            )
        tally.note(started)
        if resolved.hold.state != hold_pb2.HOLD_STATE_SETTLED:
            raise RuntimeError(f"operation {name} did not go its way: {resolved}")


async def sdk(job: Job) -> Load:
    """Clients of the SDK, one for each target, each with the settings that it has by itself; "alone" takes its coalescing away."""
    batching = Batching(most_commands=1, on_the_wire=job.callers) if job.kind == "alone" else Batching()
    numbers = itertools.count()
    async with AsyncExitStack() as stack:
        ledgers = [
            await stack.enter_async_context(Ledger.connect(at, job.token, batching=batching)) for at in job.targets
        ]
        return await window(job, lambda tally, i: guarded(tally, ledgers[i % len(ledgers)], numbers, job))


async def stubs(job: Job, channels: Sequence[grpc.aio.Channel], metadata: Metadata) -> Load:
    numbers = itertools.count()
    if job.kind == "noop":
        return await window(job, lambda tally, i: noop(tally, channels[i % len(channels)], metadata))
    if job.kind == "read":
        return await window(job, lambda tally, i: reads(tally, channels[i % len(channels)], metadata, job))
    return await window(job, lambda tally, i: lifecycles(tally, channels[i % len(channels)], metadata, numbers, job))


async def window(job: Job, caller: Callable[[Tally, int], Awaitable[None]]) -> Load:
    """What the callers do while the clock runs."""
    tally = Tally()
    callers = [asyncio.ensure_future(caller(tally, i)) for i in range(job.callers)]
    clock = asyncio.ensure_future(_run_clock(tally, job))
    # A caller that fails ends the load at once; otherwise each finishes the lifecycle that it is in.
    await asyncio.gather(clock, *callers)
    return _load(len(tally.times), clock.result(), tally.times)


async def _run_clock(tally: Tally, job: Job) -> float:
    await asyncio.sleep(job.warmup)
    gc.collect()
    gc.disable()
    started = time.perf_counter()
    tally.counting = True
    await asyncio.sleep(job.seconds)
    tally.counting = tally.running = False
    ended = time.perf_counter()
    gc.enable()
    return ended - started


async def batches(job: Job, channels: Sequence[grpc.aio.Channel], metadata: Metadata) -> Load:
    """The requests are built before the clock starts: building them is not the server's work, and the SQL has none."""
    waiting = [
        workload.batches(workload.operations(job.prefix, batch, job.size), job.first + batch % job.budgets)
        for batch in range(job.warmup_count + job.count)
    ]
    timed = deque(waiting[job.warmup_count :])
    answers: list[hold_pb2.BatchExecuteResponse] = []
    times: list[float] = []

    async def one(lives: deque[list[hold_pb2.BatchExecuteRequest]], channel: grpc.aio.Channel) -> None:
        execute = hold_pb2_grpc.HoldServiceStub(channel).BatchExecute
        while lives:
            for request in lives.popleft():
                started = time.perf_counter()
                answers.append(await execute(request, metadata=metadata))
                times.append(time.perf_counter() - started)

    async def together(lives: deque[list[hold_pb2.BatchExecuteRequest]]) -> None:
        await asyncio.gather(*(one(lives, channels[i % len(channels)]) for i in range(job.callers)))

    await together(deque(waiting[: job.warmup_count]))
    times.clear()
    gc.collect()
    gc.disable()
    started = time.perf_counter()
    await together(timed)
    seconds = time.perf_counter() - started
    gc.enable()
    for answer in answers:
        _none_refused(answer)
    return _load(job.count * job.size, seconds, times)


async def resolves(job: Job, channels: Sequence[grpc.aio.Channel], metadata: Metadata) -> Load:
    """Only the settling is timed: requests are built, and the holds are there, before the clock starts."""
    execute = hold_pb2_grpc.HoldServiceStub(channels[0]).BatchExecute
    lots = [workload.operations(job.prefix, batch, job.size) for batch in range(job.warmup_count + job.count)]
    for lot in lots:
        _none_refused(await execute(workload.dispatched(lot), metadata=metadata))
    waiting = [workload.resolved(lot, as_sent=job.kind == "resolve as sent") for lot in lots]
    for request in waiting[: job.warmup_count]:
        await execute(request, metadata=metadata)
    answers, times = [], []
    gc.collect()
    gc.disable()
    for request in waiting[job.warmup_count :]:
        started = time.perf_counter()
        answers.append(await execute(request, metadata=metadata))
        times.append(time.perf_counter() - started)
    gc.enable()
    for answer in answers:
        _none_refused(answer)
    return _load(job.count * job.size, sum(times), times)


def _none_refused(answer: hold_pb2.BatchExecuteResponse) -> None:
    for result in answer.results:
        if result.WhichOneof("result") == "error":
            raise RuntimeError(f"a command of a batch was refused: {result.error}")


def _load(done: int, seconds: float, times: list[float]) -> Load:
    ordered = sorted(times) or [0.0]
    median, p99 = ordered[len(ordered) // 2], ordered[min(len(ordered) - 1, len(ordered) * 99 // 100)]
    return Load(done, seconds, median * 1000, p99 * 1000)


LOADS = {"batch": batches, "resolve": resolves, "resolve as sent": resolves}


async def run(jobs: Sequence[Job]) -> list[Load]:
    """The loads, one after the other, over one connection to each target."""
    targets = dict.fromkeys(target for job in jobs for target in job.targets)
    channels = {target: grpc.aio.insecure_channel(target) for target in targets}
    try:
        loads = []
        for job in jobs:
            metadata = (("authorization", f"Bearer {job.token}"),)
            mine = [channels[target] for target in job.targets]
            if job.kind in ("guarded", "alone"):
                loads.append(await sdk(job))
            else:
                loads.append(await LOADS.get(job.kind, stubs)(job, mine, metadata))
        return loads
    finally:
        for channel in channels.values():
            await channel.close()


def main() -> None:
    given: list[dict[str, Any]] = json.load(sys.stdin)
    jobs = [Job(**{**job, "targets": tuple(job["targets"])}) for job in given]
    json.dump([asdict(load) for load in asyncio.run(run(jobs))], sys.stdout)


if __name__ == "__main__":
    main()
