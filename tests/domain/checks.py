"""The lines of a table that look at the books."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

from ledger.domain.cards import GROUP_OF_BUCKET
from ledger.domain.filing import filing
from ledger.domain.money import ZERO, plain
from ledger.domain.opening import book_at
from tests.domain.world import World

PATIENCE = timedelta(hours=24)

# Short names of the buckets; those of groups are among them.
SHORT = {
    "in": "input_tokens",
    "cached": "cache_read_tokens",
    "write": "cache_write_tokens",
    "write1h": "cache_write_1h_tokens",
    "out": "output_tokens",
    "requests": "requests",
    "searches": "web_searches",
    "reasoning": "output_reasoning_tokens",
    "audio": "input_audio_tokens",
}
SHORT |= {bucket: bucket for bucket in GROUP_OF_BUCKET if bucket not in SHORT.values()}


def _say(value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, tuple):
        return ",".join(value) or "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, datetime):
        return f"{value.astimezone(UTC):%Y-%m-%dT%H:%MZ}"
    return plain(value) if isinstance(value, Decimal) else str(value)


def _same(line: str, row: Any, expected: Mapping[str, str]) -> None:
    found = {name: _say(getattr(row, name)) for name in expected}
    assert found == expected, f"{line}\n  found {found}"


def balance(world: World, line: str, words: list[str], options: dict[str, str]) -> None:
    """`balance org available=4 held=6` of the period that is open; `balance org@1` of the first of its periods."""
    budget_id, _, number = words[0].partition("@")
    books = sorted(book_id for tenant, book_id in world.books if tenant == "t1" and book_id.startswith(f"{budget_id}#"))
    _same(line, world.books[("t1", books[int(number or 0) - 1])], options)


def periods(world: World, line: str, words: list[str], options: dict[str, str]) -> None:
    """`periods org 2025-03-01T00:00Z 2025-03-02T00:00Z`: where those that were opened begin"""
    starts = [b.period_start for b in world.books.values() if b.budget_id == words[0]]
    assert sorted(map(_say, starts)) == words[1:], f"{line}\n  found {starts}"


def shown(world: World, line: str, words: list[str], options: dict[str, str]) -> None:
    """`shown org available=4`: as it would stand if the period that it is now were opened"""
    budget = world.budgets[("t1", words[0])]
    newest = world.books[("t1", world.newest()[("t1", words[0])])]
    zone = ZoneInfo(budget.schedule.zone) if budget.schedule.zone else UTC
    _same(line, book_at(budget, newest, world.now, zone), options)


def at(world: World, line: str, words: list[str], options: dict[str, str]) -> None:
    """`at 2025-03-30T00:30+01:00`: the time moves on to it"""
    moment = datetime.fromisoformat(words[0]).astimezone(UTC)
    assert moment >= world.now, line
    world.now = moment


def hold(world: World, line: str, words: list[str], options: dict[str, str]) -> None:
    """`hold op1 SETTLED settled=5 attempt=1`, or `hold op1 none`"""
    row = world.holds.get(("t1", words[0]))
    assert (row.state.value if row is not None else "none") == words[1], line
    _same(line, row, options)


def quote(world: World, line: str, words: list[str], options: dict[str, str]) -> None:
    """`quote op1 amount=0.5 in=2000@3` where each group is quantity@rate"""
    row = world.holds[("t1", words[0])].quote
    lines = {one.group: f"{one.quantity}@{plain(one.rate)}" for one in row.lines}
    groups = {SHORT[name]: options.pop(name) for name in tuple(options) if name in SHORT}
    assert lines == (groups or lines), f"{line}\n  found {lines}"
    _same(line, row, options)


def resolution(world: World, line: str, words: list[str], options: dict[str, str]) -> None:
    """`resolution op1 USAGE amount=5 cost_over_hold=1`; with `revision=2` that revision, else the only one"""
    wanted = options.get("revision")
    chain = [r for r in world.resolutions if (r.tenant, r.operation_id) == ("t1", words[0])]
    (row,) = (r for r in chain if wanted in (None, str(r.revision)))
    assert row.kind == words[1], line
    _same(line, row, options)


def evidence(world: World, line: str, words: list[str], options: dict[str, str]) -> None:
    """`evidence op1 REJECTED AUTHORITATIVE`: every observation that was kept, in order"""
    kept = [e.classification for e in world.evidence if e.operation_id == words[0]]
    assert kept == ([] if words[1:] == ["none"] else words[1:]), f"{line}\n  found {kept}"


def observations(world: World, line: str, words: list[str], options: dict[str, str]) -> None:
    """`observations op1 NOT_SENT UNKNOWN`: all that was said of an operation, in order, and facts of the last"""
    found = [o for o in world.observations if o.operation_id == words[0]]
    assert [o.value for o in found] == ([] if words[1:] == ["none"] else words[1:]), f"{line}\n  found {found}"
    if found:
        detail = {**found[-1]._asdict(), **found[-1].detail}
        assert options == {name: _say(detail.get(name)) for name in options}, f"{line}\n  found {detail}"


def incidents(world: World, line: str, words: list[str], options: dict[str, str]) -> None:
    """`incidents op1 DOUBLE_ACCEPTANCE provider_receipt=r2`: those of an operation, and facts of the last"""
    found = [i for i in world.incidents if i.operation_id == words[0]]
    assert [i.kind for i in found] == ([] if words[1:] == ["none"] else words[1:]), f"{line}\n  found {found}"
    detail = found[-1].detail if found else {}
    assert options == {name: detail.get(name) for name in options}, f"{line}\n  found {detail}"


def expense(world: World, line: str, words: list[str], options: dict[str, str]) -> None:
    """`expense acme refunds 5`"""
    books = [b for b in world.books.values() if (b.provider, b.model) == tuple(words[:2])]
    assert plain(sum((b.expense for b in books), ZERO)) == words[2], line


def entries(world: World, line: str, words: list[str], options: dict[str, str]) -> None:
    """`entries op1 RESERVE SETTLE`"""
    found = [e.kind.value for e in world.entries.values() if e.operation_id == words[0]]
    assert found == ([] if words[1:] == ["none"] else words[1:]), f"{line}\n  found {found}"


def told(world: World, line: str, words: list[str], options: dict[str, str]) -> None:
    """`told HOLD,op1,RESERVED,SETTLED BUDGET,org`: the events of the last batch, and fields of the last of them"""
    found = [",".join(str(event[name]) for name in NAMED[event["type"]] if name in event) for _, event in world.told]
    assert found == ([] if words == ["none"] else words), f"{line}\n  found {found}"
    last = world.told[-1][1] if world.told else {}
    assert options == {name: str(last.get(name)) for name in options}, f"{line}\n  found {last}"


# The fields by which the tables name an event.
NAMED = {
    "HOLD": ("type", "operation_id", "from", "to"),
    "BUDGET": ("type", "budget_id"),
    "GRANT": ("type", "budget_id", "reference"),
    "PRICE_CARD": ("type", "card_id", "version"),
    "INCIDENT": ("type", "operation_id", "kind"),
    "ENTRY": ("type", "kind"),
    "THRESHOLD": ("type", "budget_id", "percent"),
    "POLICY": ("type", "provider", "version"),
    "OBSERVATION": ("type", "operation_id", "axis", "value"),
}


def waits(world: World, line: str, words: list[str], options: dict[str, str]) -> None:
    """`waits op1 2`: how much evidence waits for the hold of an operation"""
    assert sum(p.operation_id == words[0] for p in world.parked.values()) == int(words[1]), line


def worker(world: World, line: str, words: list[str], options: dict[str, str]) -> None:
    """`worker ok RESOLUTION_CONFLICT`: the worker files whatever waits, oldest first; what became of each, in order"""
    found = []
    for parked in sorted(world.parked.values(), key=lambda p: p.evidence_id):
        (outcome,) = world.step(filing(parked, PATIENCE))
        if outcome.refusal is not None:
            found.append(outcome.refusal.reason.value)
        else:
            found.append(
                "orphan" if outcome.parked else "ok" if outcome.applied else "again" if outcome.replayed else "waits"
            )
    assert found == words, f"{line}\n  found {found}"


def tree(world: World, line: str, words: list[str], options: dict[str, str]) -> None:
    """`tree key=org/team/user/key`: the path of each budget"""
    found = {name: "/".join(world.budgets[("t1", name)].path) for name in options}
    assert found == options, f"{line}\n  found {found}"


CHECKS: Mapping[str, Callable[[World, str, list[str], dict[str, str]], None]] = {
    "balance": balance,
    "hold": hold,
    "quote": quote,
    "resolution": resolution,
    "evidence": evidence,
    "observations": observations,
    "incidents": incidents,
    "expense": expense,
    "entries": entries,
    "told": told,
    "waits": waits,
    "worker": worker,
    "tree": tree,
    "periods": periods,
    "shown": shown,
    "at": at,
}
