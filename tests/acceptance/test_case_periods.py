"""Cases from the field: periods and limits. Over the real service and database, whose clock nobody sets.

A period that is to end within a test is one of an hour that ends at the second full second from now.
"""

import time
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from ledger.v1 import budget_pb2, hold_pb2, journal_pb2
from tests.acceptance.tenant import Tenant, at_once, fixed, refused


def ending_soon() -> budget_pb2.Period:
    period = budget_pb2.Period(kind=budget_pb2.PERIOD_KIND_FIXED)
    period.anchor_time.FromDatetime(datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=2))
    period.length.seconds = 3600
    return period


def wait_for_the_end(acme: Tenant, period: budget_pb2.Period) -> None:
    request = budget_pb2.GetBudgetRequest(budget_id="team")
    while acme.finance.budgets.GetBudget(request).budget.period_start_time != period.anchor_time:
        time.sleep(0.05)


def all_of_it() -> budget_pb2.Rollover:
    return budget_pb2.Rollover(kind=budget_pb2.ROLLOVER_KIND_ALL)


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
    acme: Tenant, limit: str, amount: str, admitted: int
) -> None:
    period = ending_soon()
    acme.budget(limit=limit, period=period)
    wait_for_the_end(acme, period)
    told = at_once(*[lambda number=number: acme.reserve(f"op-{number}", amount) for number in range(8)])
    assert told.count("INSUFFICIENT_BUDGET") == 8 - admitted
    assert len(acme.in_state("RESERVED")) == admitted


def test_a_hold_of_the_last_moment_is_charged_to_its_period(acme: Tenant) -> None:
    period = ending_soon()
    acme.budget("org", "50", period=period, rollover=all_of_it())
    acme.budget("team", "10", "org", period=period)
    acme.reserve("late", "6", send=True)
    acme.reserve("idle", "1")
    path = list(acme.hold("late").book_ids)
    wait_for_the_end(acme, period)
    acme.reserve("next", "9")
    acme.charge("late", "4.5")
    acme.dispatch("idle")
    acme.unknown("idle")
    assert acme.stands("idle") == "OUTCOME_UNKNOWN"
    org, team = path
    assert (moved(acme, org)["SPENT"], moved(acme, team)["SPENT"]) == (Decimal("-4.5"), Decimal("-4.5"))
    # The organisation carries on what is left, and what came free: 43 and 1.5. The team begins anew.
    assert acme.balances("org") == {"authority": "94.5", "available": "85.5", "held": "9"}
    assert acme.balances("team") == {"authority": "10", "available": "1", "held": "9"}
    assert moved(acme, team) == {"AUTHORITY": 10, "AVAILABLE": Decimal("-4.5"), "UNKNOWN": -1, "SPENT": Decimal("-4.5")}
    # What leaves a book takes from both of its sides.
    history = acme.finance.holds.ListHoldEvents(hold_pb2.ListHoldEventsRequest(operation_id="late")).events
    (carried,) = (event for event in history if event.what == "ROLLOVER")
    assert dict(carried.detail) == {"AUTHORITY": "-1.5", "AVAILABLE": "-1.5"}


def test_a_hold_in_euros_on_a_budget_in_dollars_is_refused(acme: Tenant) -> None:
    acme.budget(period=ending_soon())
    with refused("CURRENCY_MISMATCH") as told:
        acme.reserve("op-1", fixed("1", "EUR"))
    assert told.metadata["budget_currency"] == "USD"


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
