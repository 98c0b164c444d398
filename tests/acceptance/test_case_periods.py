"""Cases from the field: periods and limits. Over the real service and database, whose clock nobody sets.

A period that is to end within a test is one of an hour that ends at the second full second from now.
"""

from calendar import monthrange
from collections.abc import Callable
from datetime import UTC, datetime, time, timedelta
from decimal import Decimal
from time import sleep
from zoneinfo import ZoneInfo

import psycopg
import pytest

from ledger.v1 import budget_pb2, hold_pb2, journal_pb2
from tests.acceptance.harness import LiveLedger, refused
from tests.acceptance.tenant import Tenant, at_once, fault, fixed


def prepared(
    live: LiveLedger, prepare: Callable[[Tenant, budget_pb2.Period], None]
) -> tuple[Tenant, budget_pb2.Period]:
    """A tenant that was prepared within the period that is about to end. A slow machine gets more time for it."""
    for seconds in (2, 6, 20):
        acme, period = Tenant(live, live.next_tenant()), budget_pb2.Period(kind=budget_pb2.PERIOD_KIND_FIXED)
        period.anchor_time.FromDatetime(datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=seconds))
        period.length.seconds = 3600
        prepare(acme, period)
        if datetime.now(UTC) < period.anchor_time.ToDatetime(UTC):
            return acme, period
    raise AssertionError("the period was over before it was begun")


def wait_for_the_end(acme: Tenant, period: budget_pb2.Period) -> None:
    request = budget_pb2.GetBudgetRequest(budget_id="team")
    while acme.finance.budgets.GetBudget(request).budget.period_start_time != period.anchor_time:
        sleep(0.05)


def all_of_it() -> budget_pb2.Rollover:
    return budget_pb2.Rollover(kind=budget_pb2.ROLLOVER_KIND_ALL)


def books(acme: Tenant) -> dict[str, bool]:
    """The books of the tenant's budgets, and whether each is closed."""
    with psycopg.connect(acme.live.database_url) as connection:
        query = "SELECT book_id, closed FROM book WHERE tenant = %s AND budget_id IS NOT NULL"
        return dict(connection.execute(query, [acme.name]).fetchall())


def moved(acme: Tenant, book_id: str) -> dict[str, Decimal]:
    """What the postings of a book come to by account: debits positive, credits negative."""
    postings = acme.finance.journal.ListPostings(journal_pb2.ListPostingsRequest(book_id=book_id)).postings
    sums: dict[str, Decimal] = {}
    for posting in postings:
        name = journal_pb2.Account.Name(posting.account).removeprefix("ACCOUNT_")
        sums[name] = sums.get(name, Decimal(0)) + Decimal(posting.amount.amount)
    return {name: amount for name, amount in sums.items() if amount}


@pytest.mark.parametrize(("limit", "amount", "admitted"), [("1.00", "0.90", 1), ("0.000000001", "0.01", 0)])
def test_of_eight_first_holds_of_a_period_none_passes_the_limit(
    live: LiveLedger, limit: str, amount: str, admitted: int
) -> None:
    acme, period = prepared(live, lambda acme, period: acme.budget(limit=limit, period=period))
    wait_for_the_end(acme, period)
    told = at_once(*[lambda number=number: acme.reserve(f"op-{number}", amount) for number in range(8)])
    assert told.count("INSUFFICIENT_BUDGET") == 8 - admitted
    assert len(acme.in_state("RESERVED")) == admitted
    assert sorted(books(acme).values()) == [False, True]


def two_levels(acme: Tenant, period: budget_pb2.Period) -> None:
    """The organisation carries on what is left, the team begins anew."""
    acme.budget("org", "50", period=period, rollover=all_of_it())
    acme.budget("team", "10", "org", period=period)
    acme.reserve("late", "6", send=True)
    acme.reserve("idle", "1")


def test_a_hold_of_the_last_moment_is_charged_to_its_period(live: LiveLedger) -> None:
    acme, period = prepared(live, two_levels)
    org, team = acme.hold("late").book_ids
    before = moved(acme, team)
    wait_for_the_end(acme, period)
    # The opening of a period and its first hold are one step.
    with fault(acme, "hold"), refused("INTERNAL"):
        acme.reserve("next", "9", key="next")
    assert books(acme) == {org: False, team: False}
    assert not acme.reserve("next", "9", key="next").replayed
    assert [books(acme)[book] for book in (org, team)] == [True, True]
    # Nothing is zeroed.
    assert moved(acme, team) == before == {"AUTHORITY": 10, "AVAILABLE": -3, "HELD": -7}
    acme.charge("late", "4.5")
    acme.dispatch("idle")
    acme.unknown("idle")
    assert acme.stands("idle") == "OUTCOME_UNKNOWN"
    assert (moved(acme, org)["SPENT"], moved(acme, team)["SPENT"]) == (Decimal("-4.5"), Decimal("-4.5"))
    # The organisation carries on what is left, and what came free: 43 and 1.5. The team begins anew.
    assert acme.balances("org") == {"authority": "94.5", "available": "85.5", "held": "9"}
    assert acme.balances("team") == {"authority": "10", "available": "1", "held": "9"}
    assert moved(acme, team) == {"AUTHORITY": 10, "AVAILABLE": Decimal("-4.5"), "UNKNOWN": -1, "SPENT": Decimal("-4.5")}
    # What leaves a book takes from both of its sides.
    history = acme.finance.holds.ListHoldEvents(hold_pb2.ListHoldEventsRequest(operation_id="late")).events
    (carried,) = (event for event in history if event.what == "ROLLOVER")
    assert dict(carried.detail) == {"AUTHORITY": "-1.5", "AVAILABLE": "-1.5"}


@pytest.mark.parametrize("zone", ["Asia/Shanghai", "Europe/Berlin", "America/New_York"])
def test_a_day_and_a_month_begin_when_the_clocks_of_the_zone_say_so(acme: Tenant, zone: str) -> None:
    clocks = ZoneInfo(zone)
    anchor = datetime(2025, 1, 31, 9, 30, tzinfo=clocks)
    acme.budget("day", period=budget_pb2.Period(kind=budget_pb2.PERIOD_KIND_DAY, zone=zone))
    monthly = budget_pb2.Period(kind=budget_pb2.PERIOD_KIND_MONTH, zone=zone)
    monthly.anchor_time.FromDatetime(anchor)
    acme.budget("month", period=monthly)
    shown = {name: boundaries(acme, name, clocks) for name in ("day", "month")}
    start, end = shown["day"]
    assert (start.time(), end.time(), end.date() - start.date()) == (time(), time(), timedelta(days=1))
    start, end = shown["month"]
    for boundary in (start, end):
        last = monthrange(boundary.year, boundary.month)[1]
        assert (boundary.day, boundary.time()) == (min(31, last), time(9, 30))
    assert (end.year * 12 + end.month) - (start.year * 12 + start.month) == 1


def boundaries(acme: Tenant, budget_id: str, clocks: ZoneInfo) -> tuple[datetime, datetime]:
    """When the period that it is now began, and when it ends, as the clocks of a zone show it."""
    now = datetime.now(UTC)
    budget = acme.finance.budgets.GetBudget(budget_pb2.GetBudgetRequest(budget_id=budget_id)).budget
    start, end = (at.ToDatetime(UTC) for at in (budget.period_start_time, budget.period_end_time))
    assert start <= now < end
    return start.astimezone(clocks), end.astimezone(clocks)


def test_a_hold_in_euros_on_a_budget_in_dollars_is_refused(acme: Tenant) -> None:
    acme.budget()
    with refused("CURRENCY_MISMATCH") as told:
        acme.reserve("op-1", fixed("1", "EUR"))
    assert told.metadata["budget_currency"] == "USD"
    assert acme.balances() == {"authority": "100", "available": "100"}


def test_a_limit_below_what_is_used_is_a_deficit_that_is_repaid_first(acme: Tenant) -> None:
    acme.budget(limit="10")
    acme.reserve("op-1", "6", send=True)
    acme.reserve("op-2", "3")
    assert acme.limit("5").applied
    assert acme.balances() == {"authority": "5", "held": "9", "deficit": "4"}
    acme.release("op-2")
    assert acme.balances() == {"authority": "5", "held": "6", "deficit": "1"}
    with refused("INSUFFICIENT_BUDGET"):
        acme.reserve("op-3", "0.01")
    acme.charge("op-1", "1")
    assert acme.balances() == {"authority": "5", "available": "4", "spent": "1"}
    acme.limit("0")
    with refused("INSUFFICIENT_BUDGET"):
        acme.reserve("op-4", "0.01")
    acme.limit(None)
    acme.reserve("op-5", "1000000")
