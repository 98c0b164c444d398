"""Periods, limits and rollover through the service."""

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.field_mask_pb2 import FieldMask

from ledger.domain.model import Role
from ledger.v1 import budget_pb2 as pb
from ledger.v1 import journal_pb2
from tests.service.harness import Ledger, invalid, refusal, reserve_request, resolve_request, sending_request, serving

FIRST = datetime(2025, 1, 31, 9, 30, tzinfo=UTC)


def period(kind: str, zone: str = "", anchor: datetime | None = None, **length: float) -> pb.Period:
    made = pb.Period(kind=pb.PeriodKind.Value(f"PERIOD_KIND_{kind}"), zone=zone)
    if anchor is not None:
        made.anchor_time.FromDatetime(anchor)
    if length:
        made.length.FromTimedelta(timedelta(**length))
    return made


def rollover(kind: str, cap: str = "") -> pb.Rollover:
    return pb.Rollover(kind=pb.RolloverKind.Value(f"ROLLOVER_KIND_{kind}"), cap=cap)


def create(**fields: Any) -> pb.CreateBudgetRequest:
    return pb.CreateBudgetRequest(
        **({"idempotency_key": "c", "budget_id": "team", "currency": "USD", "limit": "10"} | fields)
    )


def update(*mask: str, key: str = "u", **fields: Any) -> pb.UpdateBudgetRequest:
    return pb.UpdateBudgetRequest(idempotency_key=key, budget_id="team", update_mask=FieldMask(paths=mask), **fields)


async def team(ledger: Ledger) -> pb.Budget:
    return (await ledger.auditor.budgets.GetBudget(pb.GetBudgetRequest(budget_id="team"))).budget


def balances(budget: pb.Budget) -> dict[str, str]:
    shown = {"authority", "available", "held", "spent", "deficit", "carried"}
    return {name: getattr(budget.balances, name) for name in shown if getattr(budget.balances, name) != "0"}


async def test_settings_are_given_shown_and_changed(database_url: str, tmp_path: Path) -> None:
    async with serving(database_url, tmp_path) as ledger:
        monthly, capped = period("MONTH", "Europe/Berlin", FIRST), rollover("CAP", "2.50")
        made = await ledger.admin.budgets.CreateBudget(create(credit_line="3", period=monthly, rollover=capped))
        budget = made.budget
        assert (budget.period, budget.rollover.cap, budget.credit_line) == (monthly, "2.5", "3")
        start, end = (at.ToDatetime(UTC) for at in (budget.period_start_time, budget.period_end_time))
        # 10:30 in Berlin: the clocks of its summer are an hour ahead.
        assert start.hour in (8, 9)
        assert start <= datetime.now(UTC) < end
        assert budget.balances.book_id == f"team#{start:%Y%m%dT%H%M%SZ}"
        assert balances(await team(ledger)) == balances(budget) == {"authority": "10", "available": "10"}

        await ledger.gateway.holds.Reserve(sending_request("op-1", "12"))
        # Finance may change limits as it may grant.
        changed = await ledger.finance.budgets.UpdateBudget(
            update("limit", "credit_line", "display_name", limit="4", display_name="Team")
        )
        assert (changed.applied, changed.budget.limit, changed.budget.display_name) == (True, "4", "Team")
        assert balances(changed.budget) == {"authority": "4", "held": "12", "deficit": "8"}
        assert (changed.budget.credit_line, changed.budget.version) == ("0", 2)
        again = await ledger.finance.budgets.UpdateBudget(
            update("display_name", "credit_line", "limit", limit="4", display_name="Team")
        )
        assert (again.replayed, again.budget.version) == (True, 2)
        unlimited = (await ledger.admin.budgets.UpdateBudget(update("limit", "period", "rollover", key="u2"))).budget
        assert not unlimited.HasField("limit")
        assert balances(unlimited) == {"available": "-12", "held": "12"}
        assert (unlimited.period, unlimited.rollover) == (period("NONE"), rollover("NONE"))
        # The running period keeps its end.
        assert unlimited.period_end_time == budget.period_end_time
        entries = (await ledger.auditor.journal.ListEntries(journal_pb2.ListEntriesRequest())).entries
        kinds = [journal_pb2.EntryKind.Name(entry.kind) for entry in entries]
        assert kinds == ["ENTRY_KIND_OPEN", "ENTRY_KIND_RESERVE", "ENTRY_KIND_LIMIT", "ENTRY_KIND_LIMIT"]


async def test_a_gateway_changes_no_limit(database_url: str, tmp_path: Path) -> None:
    async with serving(database_url, tmp_path) as ledger:
        await ledger.budget()
        asked = ledger.gateway.budgets.UpdateBudget(update("limit", limit="4"))
        assert (await refusal(asked))[1] == "ROLE_NOT_ALLOWED"


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"period": period("DAY", "Europe/Atlantis")}, "period.zone"),
        ({"period": period("DAY", "../../etc/passwd")}, "period.zone"),
        ({"period": period("DAY", "Europe")}, "period.zone"),
        ({"period": period("DAY", "A" * 70)}, "period.zone"),
        ({"period": period("DAY", "Europe/Berlin\0")}, "period.zone"),
        ({"period": period("NONE", "UTC")}, "period.zone"),
        ({"period": period("FIXED", "UTC", FIRST, seconds=5)}, "period.zone"),
        ({"period": period("NONE", anchor=FIRST)}, "period.anchor_time"),
        ({"period": period("FIXED", seconds=5)}, "period.anchor_time"),
        ({"period": period("DAY", anchor=datetime(2200, 1, 1, tzinfo=UTC))}, "period.anchor_time"),
        ({"period": period("DAY", anchor=FIRST + timedelta(milliseconds=1))}, "period.anchor_time"),
        ({"period": period("DAY", seconds=5)}, "period.length"),
        ({"period": period("FIXED", anchor=FIRST)}, "period.length"),
        ({"period": period("FIXED", anchor=FIRST, seconds=0.5)}, "period.length"),
        ({"period": period("FIXED", anchor=FIRST, seconds=1.5)}, "period.length"),
        ({"period": period("FIXED", anchor=FIRST, days=3661)}, "period.length"),
        ({"period": pb.Period()}, "period.kind"),
        ({"rollover": pb.Rollover()}, "rollover.kind"),
        ({"rollover": rollover("CAP")}, "rollover.cap"),
        ({"rollover": rollover("CAP", "-1")}, "rollover.cap"),
        ({"rollover": rollover("ALL", "1")}, "rollover.cap"),
        ({"limit": "-7"}, "limit"),
        ({"limit": "NaN"}, "limit"),
        ({"limit": "Infinity"}, "limit"),
        ({"credit_line": "-1"}, "credit_line"),
    ],
)
async def test_what_is_malformed_is_named(
    database_url: str, tmp_path: Path, fields: dict[str, Any], field: str
) -> None:
    async with serving(database_url, tmp_path) as ledger:
        assert await invalid(ledger.admin.budgets.CreateBudget(create(**fields))) == field
        await ledger.budget()
        asked = ledger.admin.budgets.UpdateBudget(update(*fields, key="v", **fields))
        assert await invalid(asked) == field


async def test_a_credit_line_needs_a_limit(database_url: str, tmp_path: Path) -> None:
    async with serving(database_url, tmp_path) as ledger:
        unlimited = pb.CreateBudgetRequest(idempotency_key="c", budget_id="team", currency="USD", credit_line="1")
        assert await invalid(ledger.admin.budgets.CreateBudget(unlimited)) == "credit_line"


async def test_balances_are_those_of_the_period_that_it_is_now(database_url: str, tmp_path: Path) -> None:
    """Whether it was opened or not; a hold that outlives its period is settled in it."""
    anchor = datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=3)
    async with serving(database_url, tmp_path) as ledger:
        fixed = period("FIXED", anchor=anchor, hours=1)
        before = (await ledger.admin.budgets.CreateBudget(create(period=fixed, rollover=rollover("ALL")))).budget
        await ledger.gateway.holds.Reserve(sending_request("op-1", "6"))
        while (seen := await team(ledger)).period_start_time == before.period_start_time:
            assert balances(seen) == {"authority": "10", "available": "4", "held": "6"}
            await asyncio.sleep(0.05)
        assert seen.period_start_time.ToDatetime(UTC) == anchor
        assert balances(seen) == {"authority": "14", "available": "14", "carried": "4"}
        page = await ledger.auditor.budgets.ListBudgets(pb.ListBudgetsRequest())
        assert [balances(budget) for budget in page.budgets] == [balances(seen)]
        asked = journal_pb2.GetBalanceRequest(account=journal_pb2.ACCOUNT_AVAILABLE, budget_id="team")
        assert (await ledger.auditor.journal.GetBalance(asked)).balance.amount == "14"
        # Nothing was written to show it.
        assert len((await ledger.auditor.journal.ListEntries(journal_pb2.ListEntriesRequest())).entries) == 2
        grant = pb.GrantBudgetRequest(idempotency_key="g", budget_id="team", reference="invoice")
        grant.amount.amount, grant.amount.currency = "1", "USD"
        granted = (await ledger.finance.budgets.GrantBudget(grant)).budget
        assert balances(granted) == {"authority": "15", "available": "15", "carried": "4"}
        assert seen.balances.book_id == ""
        assert granted.balances.book_id == f"team#{anchor:%Y%m%dT%H%M%SZ}"
        await ledger.gateway.holds.Reserve(reserve_request("op-2", "15"))
        settled = await ledger.gateway.holds.Resolve(resolve_request("op-1", "2"))
        assert list(settled.hold.book_ids) == [before.balances.book_id]
        assert balances(await team(ledger)) == {"authority": "19", "available": "4", "held": "15", "carried": "8"}
        asked_book = journal_pb2.ListPostingsRequest(book_id=before.balances.book_id)
        postings = (await ledger.auditor.journal.ListPostings(asked_book)).postings
        spent = [posting.amount.amount for posting in postings if posting.account == journal_pb2.ACCOUNT_SPENT]
        assert spent == ["-2"]
        await the_periods_are_listed(ledger, before.period_start_time.ToDatetime(UTC), anchor)


async def the_periods_are_listed(ledger: Ledger, start: datetime, anchor: datetime) -> None:
    """Of the first period 4 of 10 were carried on, then 2 were spent of 6; the other 4 came free, and went where the rest is."""
    list_periods = ledger.auditor.budgets.ListPeriods
    newest, first = (await list_periods(pb.ListPeriodsRequest(budget_id="team"))).periods
    assert (newest.start_time.ToDatetime(UTC), newest.closed) == (anchor, False)
    assert newest.end_time.ToDatetime(UTC) == anchor + timedelta(hours=1)
    assert (newest.balances.authority, newest.balances.held, newest.balances.available) == ("19", "15", "4")
    assert (first.start_time.ToDatetime(UTC), first.end_time.ToDatetime(UTC)) == (start, anchor)
    assert (first.balances.authority, first.balances.spent, first.closed) == ("2", "2", True)
    page = await list_periods(pb.ListPeriodsRequest(budget_id="team", page_size=1))
    assert [period.balances.book_id for period in page.periods] == [newest.balances.book_id]
    again = pb.ListPeriodsRequest(budget_id="team", page_size=1, page_token=page.next_page_token)
    rest = await list_periods(again)
    assert [period.balances.book_id for period in rest.periods] == [first.balances.book_id]
    assert not rest.next_page_token
    # A name that begins like it is another budget.
    await ledger.admin.budgets.CreateBudget(
        pb.CreateBudgetRequest(idempotency_key="c2", budget_id="team-2", currency="USD", limit="1")
    )
    assert len((await list_periods(pb.ListPeriodsRequest(budget_id="team"))).periods) == 2
    told = await refusal(list_periods(pb.ListPeriodsRequest(budget_id="tea")))
    assert told[:2] == ("NOT_FOUND", "NOT_FOUND")
    assert await invalid(list_periods(pb.ListPeriodsRequest())) == "budget_id"
    elsewhere = ledger.rival(Role.AUDITOR).budgets.ListPeriods(pb.ListPeriodsRequest(budget_id="team"))
    assert (await refusal(elsewhere))[0] == "NOT_FOUND"
