"""The load: a process of its own that calls a server. `python -m tests.benchmarks.load` reads its job from standard input.

It is kept lean, so that it is the server that is measured: messages are built for each call, and nothing else is done.
"""

import asyncio
import gc
import itertools
import json
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, TypeAlias, cast

import grpc
import grpc.aio
from grpc_health.v1 import health_pb2, health_pb2_grpc

from ledger.v1 import hold_pb2, hold_pb2_grpc
from tests.benchmarks import workload

Metadata: TypeAlias = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Job:
    """One load. kind: "noop", "unary" (the three calls of a lifecycle) or "batch".

    For noop and unary: `callers` call `targets` in turn, `warmup` and then `seconds` long; the operations of unary go
    round `budgets` budgets. For batch: one caller sends `count` batches of `size` lifecycles, after `warmup_count` others.
    """

    kind: str
    targets: tuple[str, ...]
    token: str
    prefix: str
    callers: int = 32
    warmup: float = 1.0
    seconds: float = 4.0
    budgets: int = 1
    size: int = 500
    count: int = 20
    warmup_count: int = 4


@dataclass(frozen=True, slots=True)
class Load:
    """What was done while the clock ran: RPCs (noop, unary) or lifecycles (batch), seconds, and the RPCs' own times in ms."""

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


async def lifecycles(
    tally: Tally, channel: grpc.aio.Channel, metadata: Metadata, numbers: "itertools.count[int]", job: Job
) -> None:
    """Reserve, BeginDispatch, Resolve: each is awaited, and answers when it is committed."""
    stub = hold_pb2_grpc.HoldServiceStub(channel)
    while tally.running:
        number = next(numbers)
        name = workload.operation_id(job.prefix, number)
        started = time.perf_counter()
        await stub.Reserve(workload.reserve(number, name, number % job.budgets), metadata=metadata)
        started = tally.note(started)
        begun = await stub.BeginDispatch(workload.begin_dispatch(name), metadata=metadata)
        started = tally.note(started)
        resolved = await stub.Resolve(workload.resolve(number, name), metadata=metadata)
        tally.note(started)
        if not begun.may_send or resolved.hold.state != hold_pb2.HOLD_STATE_SETTLED:
            raise RuntimeError(f"operation {name} did not go its way: {resolved}")


async def window(job: Job, channels: Sequence[grpc.aio.Channel], metadata: Metadata) -> Load:
    tally, numbers = Tally(), itertools.count()
    one: Callable[[grpc.aio.Channel], Awaitable[None]]
    if job.kind == "noop":
        one = lambda channel: noop(tally, channel, metadata)  # noqa: E731 - two loads, one loop
    else:
        one = lambda channel: lifecycles(tally, channel, metadata, numbers, job)  # noqa: E731
    callers = [asyncio.ensure_future(one(channels[i % len(channels)])) for i in range(job.callers)]
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


async def batches(job: Job, channel: grpc.aio.Channel, metadata: Metadata) -> Load:
    """The requests are built before the clock starts: building them is not the server's work, and the SQL has none."""
    total = job.warmup_count + job.count
    lives = [workload.batches(workload.operations(job.prefix, batch, job.size)) for batch in range(total)]
    answers: list[hold_pb2.BatchExecuteResponse] = []
    times: list[float] = []

    async def one(waiting: list[list[hold_pb2.BatchExecuteRequest]]) -> None:
        execute = hold_pb2_grpc.HoldServiceStub(channel).BatchExecute
        while waiting:
            for request in waiting.pop(0):
                started = time.perf_counter()
                answers.append(await execute(request, metadata=metadata))
                times.append(time.perf_counter() - started)

    async def all_of(waiting: list[list[hold_pb2.BatchExecuteRequest]]) -> None:
        await asyncio.gather(*(one(waiting) for _ in range(job.callers)))

    await all_of(lives[: job.warmup_count])
    times.clear()
    gc.collect()
    gc.disable()
    started = time.perf_counter()
    await all_of(lives[job.warmup_count :])
    seconds = time.perf_counter() - started
    for answer in answers:
        for result in answer.results:
            if result.WhichOneof("result") == "error":
                raise RuntimeError(f"a command of a batch was refused: {result.error}")
    return _load(job.count * job.size, seconds, times)


def _load(done: int, seconds: float, times: list[float]) -> Load:
    ordered = sorted(times) or [0.0]
    median, p99 = ordered[len(ordered) // 2], ordered[min(len(ordered) - 1, len(ordered) * 99 // 100)]
    return Load(done, seconds, median * 1000, p99 * 1000)


async def run(jobs: Sequence[Job]) -> list[Load]:
    """The loads, one after the other, over one connection to each target."""
    targets = dict.fromkeys(target for job in jobs for target in job.targets)
    channels = {target: grpc.aio.insecure_channel(target) for target in targets}
    try:
        loads = []
        for job in jobs:
            metadata = (("authorization", f"Bearer {job.token}"),)
            mine = [channels[target] for target in job.targets]
            loads.append(
                await (batches(job, mine[0], metadata) if job.kind == "batch" else window(job, mine, metadata))
            )
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
