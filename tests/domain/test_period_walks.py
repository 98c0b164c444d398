"""Random trees with random periods, limits, holds and clocks, against the model that opens every period."""

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

from hypothesis import given, settings
from hypothesis import strategies as st

from ledger.domain.budget_commands import UpdateBudget
from ledger.domain.commands import (
    Command,
    CreateBudget,
    GrantBudget,
    Lapse,
    Release,
    Reserve,
    Resolve,
    Usage,
)
from ledger.domain.journal import split
from ledger.domain.model import Caller, Role
from ledger.domain.opening import book_at
from ledger.domain.periods import NO_PERIODS, NO_ROLLOVER, PeriodKind, Rollover, RolloverKind, Schedule
from ledger.domain.quotes import QuoteKind, QuoteSpec
from tests.domain.naive_periods import NaiveBudget, Period, utc
from tests.domain.world import World

GATEWAY, FINANCE = Caller("t1", "gw", Role.GATEWAY), Caller("t1", "fin", Role.FINANCE)
SYSTEM = Caller("t1", "sys", Role.SYSTEM)
# Each budget stands alone or below one of those before it.
BUDGETS = ("org", "team", "key", "user")
TREES = st.tuples(*[st.sampled_from([None, *BUDGETS[:place], *BUDGETS[:place]]) for place in range(len(BUDGETS))])

HALVES = st.integers(0, 30).map(lambda n: Decimal(n) / 2)
LIMITS = st.one_of(st.none(), HALVES, HALVES)
ANCHORS = st.sampled_from(
    [utc("2025-01-31T09:30:00+01:00"), utc("2025-03-30T02:30:00+02:00"), utc("2024-02-29T00:00:00Z")]
)
_DAYS = st.builds(Schedule, st.just(PeriodKind.DAY), st.sampled_from(["Europe/Berlin", "Asia/Shanghai", "UTC"]))
SCHEDULES = st.one_of(
    _DAYS,
    _DAYS,
    st.just(NO_PERIODS),
    st.builds(
        Schedule,
        st.sampled_from([PeriodKind.DAY, PeriodKind.WEEK, PeriodKind.MONTH]),
        st.sampled_from(["Europe/Berlin", "Asia/Shanghai", "UTC"]),
        st.none() | ANCHORS,
    ),
    st.builds(
        Schedule,
        st.just(PeriodKind.FIXED),
        anchor=ANCHORS,
        length=st.sampled_from([30, 3600, 100_000]).map(lambda seconds: timedelta(seconds=seconds)),
    ),
)
ROLLOVERS = st.one_of(
    st.just(NO_ROLLOVER),
    st.just(Rollover(RolloverKind.ALL)),
    st.builds(Rollover, st.just(RolloverKind.CAP), HALVES),
)
SETTINGS = st.tuples(LIMITS, SCHEDULES, ROLLOVERS)
NAMES = st.sampled_from(BUDGETS)
NAMED = st.lists(NAMES, min_size=1, max_size=2, unique=True)
# Up to the next day, or beyond many short periods; a day at most if one of them is of 30 seconds.
SPANS = st.sampled_from([0, 0, 0, 30, 900, 86_400, 86_400, 86_400, 200_000, 3_000_000]).map(
    lambda seconds: timedelta(seconds=seconds)
)
STEPS = st.one_of(
    st.tuples(st.just("reserve"), NAMED, HALVES),
    st.tuples(st.just("reserve"), NAMED, HALVES),
    st.tuples(st.just("charge"), st.integers(0, 2), HALVES),
    st.tuples(st.just("charge"), st.integers(0, 2), HALVES),
    st.tuples(st.sampled_from(["release", "lapse"]), st.integers(0, 2), st.none()),
    st.tuples(st.just("grant"), NAMES, HALVES.filter(bool)),
    st.tuples(st.just("limit"), NAMES, LIMITS),
    st.tuples(st.just("credit"), NAMES, HALVES),
    st.tuples(st.just("rollover"), NAMES, ROLLOVERS),
    st.tuples(st.just("schedule"), NAMES, SCHEDULES),
)


@dataclass
class NaiveHold:
    amount: Decimal
    periods: dict[str, Period]
    expire_at: datetime
    state: str = "open"
    spent: Decimal = Decimal(0)


@dataclass
class Walk:
    """The ledger and the model, side by side."""

    world: World
    paths: dict[str, tuple[str, ...]] = field(default_factory=dict)
    budgets: dict[str, NaiveBudget] = field(default_factory=dict)
    holds: list[NaiveHold] = field(default_factory=list)
    steps: int = 0
    applied: bool = False

    def do(self, command: Command) -> str:
        (outcome,) = self.world.step(command)
        self.applied = outcome.applied
        return "ok" if outcome.refusal is None else outcome.refusal.reason.value

    def create(
        self, name: str, parent: str | None, limit: Decimal | None, schedule: Schedule, rollover: Rollover
    ) -> None:
        self.paths[name] = (*(self.paths[parent] if parent else ()), name)
        command = CreateBudget(FINANCE, name, name, parent, "USD", "", limit, schedule=schedule, rollover=rollover)
        assert self.do(command) == "ok"
        self.budgets[name] = NaiveBudget(limit, schedule, rollover, self.world.now)

    def step(self, kind: str, which: Any, value: Any) -> None:
        self.steps += 1
        getattr(self, kind)(which, value)

    def reserve(self, names: list[str], amount: Decimal) -> None:
        path = {level for name in names for level in self.paths[name]}
        levels = [self.budgets[level] for level in path]
        for level in levels:
            level.open_up_to(self.world.now)
        fits = all((room := level.room()) is None or amount <= room for level in levels)
        quote = QuoteSpec(
            QuoteKind.FIXED, Decimal(0), amount=amount, currency="USD", provider="acme", model="m", reason="r"
        )
        ttl = timedelta(minutes=15)
        said = self.do(Reserve(GATEWAY, str(self.steps), f"op{len(self.holds)}", tuple(names), quote, ttl))
        # A refused reserve keeps its key: the operation is still free.
        assert said == ("ok" if fits else "INSUFFICIENT_BUDGET")
        if fits:
            for level in levels:
                level.change(level.newest, -amount)
            periods = {level: self.budgets[level].newest for level in path}
            self.holds.append(NaiveHold(amount, periods, self.world.now + ttl))

    def end(self, hold: NaiveHold, spent: Decimal, state: str) -> None:
        hold.state, hold.spent = state, spent
        for name, period in hold.periods.items():
            self.budgets[name].change(period, hold.amount - spent)

    def some_open(self, which: int) -> tuple[int, NaiveHold] | None:
        """One of the open holds, the older the lower the number: those of periods that are over first."""
        found = [(number, hold) for number, hold in enumerate(self.holds) if hold.state == "open"]
        return found[which % len(found)] if found else None

    def charge(self, which: int, cost: Decimal) -> None:
        if (chosen := self.some_open(which)) is not None:
            usage = Usage("STATEMENT", "acme", "m", "", "test", "1", charged=cost, charged_currency="USD")
            resolve = Resolve(FINANCE, str(self.steps), f"op{chosen[0]}", usage, accept_overrun_reason="agreed")
            assert self.do(resolve) == "ok"
            self.end(chosen[1], cost, "settled")

    def release(self, which: int, _: None) -> None:
        if (chosen := self.some_open(which)) is not None:
            assert self.do(Release(GATEWAY, str(self.steps), f"op{chosen[0]}")) == "ok"
            self.end(chosen[1], Decimal(0), "released")

    def lapse(self, which: int, _: None) -> None:
        if (chosen := self.some_open(which)) is not None:
            assert self.do(Lapse(SYSTEM, str(self.steps), f"op{chosen[0]}")) == "ok"
            if chosen[1].expire_at <= self.world.now:
                self.end(chosen[1], Decimal(0), "released")

    def grant(self, name: str, amount: Decimal) -> None:
        budget = self.budgets[name]
        budget.open_up_to(self.world.now)
        reference = str(self.steps)
        assert self.do(GrantBudget(FINANCE, reference, name, amount, "USD", reference)) == "ok"
        budget.change(budget.newest, amount)

    def update(self, name: str, **settings: Any) -> NaiveBudget | None:
        budget = self.budgets[name]
        said = self.do(UpdateBudget(FINANCE, str(self.steps), name, tuple(settings), **settings))
        if said == "INVALID_FIELD":
            return None
        assert said == "ok"
        # What is so already changes nothing, and opens nothing.
        if self.applied:
            budget.open_up_to(self.world.now)
        return budget

    def limit(self, name: str, limit: Decimal | None) -> None:
        budget = self.update(name, limit=limit)
        assert (budget is None) == (limit is None and self.budgets[name].credit > 0)
        if budget is not None:
            budget.set_limit(limit)

    def credit(self, name: str, credit: Decimal) -> None:
        budget = self.update(name, credit_line=credit)
        assert (budget is None) == (credit > 0 and self.budgets[name].limit is None)
        if budget is not None:
            budget.credit = credit

    def rollover(self, name: str, rollover: Rollover) -> None:
        budget = self.update(name, rollover=rollover)
        assert budget is not None
        budget.rollover = rollover

    def schedule(self, name: str, schedule: Schedule) -> None:
        budget = self.update(name, schedule=schedule)
        assert budget is not None
        budget.set_schedule(schedule, self.world.now)

    def compare(self) -> None:
        for name, budget in self.budgets.items():
            books = sorted(
                (b for b in self.world.books.values() if b.budget_id == name),
                key=lambda b: b.period_start or utc("1970-01-01"),
            )
            periods = {p.start: p for p in budget.periods}
            for book in books:
                assert book.period_start is not None
                period = periods[book.period_start]
                mine = [h for h in self.holds if h.periods.get(name) is period]
                held = sum((h.amount for h in mine if h.state == "open"), Decimal(0))
                spent = sum((h.spent for h in mine), Decimal(0))
                assert (book.held, book.spent, book.carried) == (held, spent, period.carried), name
                assert book.period_end == period.end
                assert book.available - book.deficit == period.left, name
                if not book.closed:
                    assert (book.available, book.deficit) == split(period.left, budget.floor()), name
            assert [b.closed for b in books] == [True] * (len(books) - 1) + [False]
            seen = budget.seen_at(self.world.now)
            row = self.world.budgets[("t1", name)]
            clocks = ZoneInfo(row.schedule.zone or "UTC")
            shown = book_at(row, books[-1], self.world.now, clocks)
            assert (shown.period_start, shown.period_end, shown.carried) == (seen.start, seen.end, seen.carried), name
            assert shown.available - shown.deficit == seen.left, name


@settings(max_examples=300, deadline=None)
@given(TREES, st.tuples(*[SETTINGS for _ in BUDGETS]), st.lists(st.tuples(STEPS, SPANS), max_size=30))
def test_books_are_those_of_a_ledger_that_opens_every_period(
    tree: tuple[str | None, ...], settings: tuple[Any, ...], steps: list[tuple[tuple[str, Any, Any], timedelta]]
) -> None:
    world = World()
    world.now = datetime(2025, 3, 29, 22, 30, tzinfo=UTC)
    walk = Walk(world)
    for name, parent, its_own in zip(BUDGETS, tree, settings, strict=True):
        walk.create(name, parent, *its_own)
    for step, span in steps:
        walk.step(*step)
        walk.compare()
        shortest = min(b.schedule.length or timedelta(days=1) for b in walk.budgets.values())
        # The model opens each period: a few hundred at a time are enough.
        world.now += min(span, 300 * shortest)
