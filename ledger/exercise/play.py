"""One case, played with real processes: a caller that is stopped at its boundary, and whoever comes after it."""

from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal

from ledger.client import Ledger
from ledger.exercise.boundaries import Style
from ledger.exercise.cases import Case
from ledger.exercise.gateway import file_records
from ledger.exercise.looking import holds_at_rest, incidents_of, journal_of
from ledger.exercise.plan import Plan
from ledger.exercise.process import Caller
from ledger.exercise.provider import Provider
from ledger.exercise.scene import BUDGET, Scene
from ledger.exercise.verdict import Seen


async def play(case: Case, operation_id: str, scene: Scene) -> Seen:
    """Plays the case, and gives what each layer saw of it. Raises CallerFailed if a caller does what it must not."""
    async with Provider(case.modes, scene.webhooks_url).serving() as provider:
        plan = Plan(
            address=scene.address,
            token=scene.gateway_token,
            provider_url=provider.url,
            closed_url=scene.closed_url,
            budget_id=BUDGET,
            operation_id=operation_id,
            style=case.style,
            boundary=case.boundary,
            modes=case.modes,
        )
        caller = await _call(plan, killed=case.killed, environment=scene.environment)
        await provider.all_sent()
        if case.style is not Style.GUARDED and case.modes.look_up:
            await _reconcile(scene.finance, provider)
        return await _look(scene.finance, operation_id, provider, caller)


async def _call(plan: Plan, *, killed: bool, environment: Mapping[str, str]) -> tuple[str, ...]:
    """Breaks the call at its boundary, and waits for what the caller, or the process after it, does about it."""
    assert plan.boundary is not None
    async with Caller.started(plan, environment) as first:
        await first.reaches(plan.boundary)
        if not killed:
            first.tell("fail here")
            return tuple(await first.ends())
        await first.kill()
    async with Caller.started(replace(plan, boundary=None, recovers=True), environment) as second:
        return tuple(await second.ends())


async def _reconcile(finance: Ledger, provider: Provider) -> None:
    """What a blind caller does not do: whoever reconciles reads the provider's records, and files each."""
    for key in provider.accepted:
        await file_records(finance, provider.url, key)


async def _look(finance: Ledger, operation_id: str, provider: Provider, caller: tuple[str, ...]) -> Seen:
    holds = await holds_at_rest(finance, operation_id)
    entries: list[str] = []
    incidents: list[str] = []
    spent = Decimal(0)
    for hold in holds:
        kinds, posted = await journal_of(finance, hold.operation_id, BUDGET)
        entries += kinds
        spent += posted
        incidents += await incidents_of(finance, hold.operation_id)
    return Seen(
        # The caller said so, on its pipe, or it would have failed.
        reached=True,
        caller=caller,
        accepted=provider.accepted.total(),
        looked_up=provider.looked_up,
        webhooks=provider.delivered,
        holds=holds,
        entries=tuple(entries),
        spent=spent,
        incidents=tuple(incidents),
    )


def not_played(why: str) -> Seen:
    """What is seen of a case whose caller failed before its boundary, or after it."""
    return Seen(False, (why,), 0, 0, 0, (), (), Decimal(0), ())
