"""kill -9 of callers, the server and PostgreSQL at random moments of a stream of guarded calls, and what is true afterwards."""

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final

from ledger.client import Ledger
from ledger.demo.stage import Stage
from ledger.exercise.boundaries import Modes, Style
from ledger.exercise.cases import COST
from ledger.exercise.gateway import file_records
from ledger.exercise.looking import holds_at_rest
from ledger.exercise.plan import Plan
from ledger.exercise.process import Caller
from ledger.exercise.provider import Provider
from ledger.exercise.scene import BUDGET, Scene
from ledger.exercise.verdict import SeenHold

KILLED: Final = ("caller", "server", "PostgreSQL")
PREFIX: Final = "stream"
CALLERS: Final = 2
WORKERS: Final = 4
# One answer in so many is lost, so that there is something to find out besides what the kills leave.
LOSES: Final = 11
# Between two kills so many settlements are acknowledged at least: each kill meets a stream that flows.
FLOW: Final = 20
FLOW_SECONDS: Final = 60.0


@dataclass(frozen=True, slots=True)
class Killed:
    """What the kills came to. `unknown`: holds that nothing was found out about."""

    seed: int = 0
    kills: Mapping[str, int] = field(default_factory=dict)
    operations: int = 0
    acknowledged: int = 0
    left: int = 0
    accepted: int = 0
    found_by_look_up: int = 0
    settled: int = 0
    released: int = 0
    unknown: int = 0
    faults: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(slots=True)
class Told:
    """What the callers said."""

    settled: list[str] = field(default_factory=list)
    left: int = 0


class Seat:
    """Where one caller works at a time: when it is killed, the next one takes its place, with names of its own."""

    def __init__(self, plan: Plan, environment: Mapping[str, str], told: Told) -> None:
        self._plan = plan
        self._environment = environment
        self._told = told
        self._generation = 0
        self._caller: Caller | None = None
        self._stopping = False

    async def work(self) -> None:
        while not self._stopping:
            self._generation += 1
            plan = replace(self._plan, operation_id=f"{self._plan.operation_id}.{self._generation}")
            async with Caller.started(plan, self._environment) as self._caller:
                if self._stopping:
                    self._caller.tell("stop")
                await self._listen(self._caller)

    async def _listen(self, caller: Caller) -> None:
        while (said := await caller.said()) is not None:
            if "settled" in said:
                self._told.settled.append(said["settled"])
            else:
                self._told.left += 1

    async def kill(self) -> None:
        assert self._caller is not None
        await self._caller.kill()

    def stop(self) -> None:
        self._stopping = True
        if self._caller is not None:
            self._caller.tell("stop")


async def kill_at_random(set_up: Stage, scene: Scene, times: int, seed: int | None) -> Killed:
    """Kills each of KILLED so many times under load, recovers what was left, and looks at every operation."""
    seed = random.SystemRandom().randrange(2**32) if seed is None else seed
    dice = random.Random(seed)  # noqa: S311 - which process dies when is no secret
    order = [name for name in KILLED for _ in range(times)]
    dice.shuffle(order)
    told = Told()
    async with Provider(Modes(loses=LOSES), scene.webhooks_url).serving() as provider:
        async with _working(stream_of(scene, provider), scene, told) as seats:
            for name in order:
                await _flow(told)
                await asyncio.sleep(dice.uniform(0, 0.3))
                await _kill(name, dice.choice(seats), set_up)
            await _flow(told)
        found = await _recover(scene.finance, provider)
        holds = [h for h in await holds_at_rest(scene.finance) if h.operation_id.startswith(PREFIX)]
        accepted = provider.accepted
    states = Counter(hold.state for hold in holds)
    return Killed(
        seed=seed,
        kills=dict(Counter(order)),
        operations=len(holds),
        acknowledged=len(told.settled),
        left=told.left,
        accepted=accepted.total(),
        found_by_look_up=found,
        settled=states["SETTLED"],
        released=states["RELEASED"],
        unknown=states["OUTCOME_UNKNOWN"],
        faults=tuple(faults_after_kills(holds, accepted, told.settled)),
    )


def faults_after_kills(
    holds: Sequence[SeenHold], accepted: Mapping[str, int], acknowledged: Sequence[str]
) -> Iterator[str]:
    """What must be true of every operation of a guarded stream, whatever was killed. Pure."""
    of = {hold.operation_id: hold for hold in holds}
    for key, number in accepted.items():
        if number > 1:
            yield f"{key} was accepted {number} times"
        if key not in of or of[key].settled != COST:
            yield f"{key} was accepted, and is {of.get(key, 'not in the books')}"
    for hold in holds:
        if hold.state == "RELEASED" and hold.dispatched:
            yield f"{hold.operation_id} was released after its dispatch"
        if hold.state in ("RESERVED", "DISPATCHING"):
            yield f"{hold.operation_id} is {hold.state} still"
        if hold.settled == COST and hold.operation_id not in accepted:
            yield f"{hold.operation_id} settled at {COST}, and was never accepted"
    for name in acknowledged:
        if name not in of or of[name].settled != COST:
            yield f"the settlement of {name} was acknowledged, and it is {of.get(name, 'not in the books')}"


def stream_of(scene: Scene, provider: Provider) -> Plan:
    """What a caller of the stream is told."""
    return Plan(
        address=scene.address,
        token=scene.gateway_token,
        provider_url=provider.url,
        closed_url=scene.closed_url,
        budget_id=BUDGET,
        operation_id=PREFIX,
        style=Style.GUARDED,
        workers=WORKERS,
    )


@asynccontextmanager
async def _working(plan: Plan, scene: Scene, told: Told) -> AsyncIterator[list[Seat]]:
    """Callers at work. They are asked to end when the block does, and what they began is ended first."""
    seats = [
        Seat(replace(plan, operation_id=f"{PREFIX}-{number}"), scene.environment, told) for number in range(CALLERS)
    ]
    async with asyncio.TaskGroup() as group:
        for seat in seats:
            group.create_task(seat.work())
        yield seats
        for seat in seats:
            seat.stop()


async def _flow(told: Told) -> None:
    before = len(told.settled)
    async with asyncio.timeout(FLOW_SECONDS):
        while len(told.settled) < before + FLOW:
            await asyncio.sleep(0.02)


async def _kill(name: str, seat: Seat, set_up: Stage) -> None:
    if name == "caller":
        await seat.kill()
    elif name == "server":
        await asyncio.to_thread(set_up.server.kill)
        await asyncio.to_thread(set_up.server.start)
    else:
        await asyncio.to_thread(set_up.kill_postgres)


async def _recover(finance: Ledger, provider: Provider) -> int:
    """Looks up every operation whose outcome is unknown, and files what the provider has. Gives how many it had."""
    unknown = [hold for hold in await holds_at_rest(finance) if hold.state == "OUTCOME_UNKNOWN"]
    found = [
        await file_records(finance, provider.url, hold.operation_id)
        for hold in unknown
        if hold.operation_id.startswith(PREFIX)
    ]
    return sum(map(bool, found))
