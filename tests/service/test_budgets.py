"""Caps, closing and moving through the service."""

from pathlib import Path
from typing import Any

import pytest
from google.protobuf.field_mask_pb2 import FieldMask

from ledger.v1 import budget_pb2, hold_pb2
from tests.service.harness import (
    NONCE,
    Ledger,
    invalid,
    refusal,
    reserve_request,
    resolve_request,
    sending_request,
    serving,
)


def update(key: str = "u-1", mask: tuple[str, ...] = ("max_hold", "max_open_holds"), **fields: Any) -> Any:
    return budget_pb2.UpdateBudgetRequest(
        idempotency_key=key, budget_id="team", update_mask=FieldMask(paths=mask), **fields
    )


def close(key: str = "c-1", budget_id: str = "team") -> budget_pb2.CloseBudgetRequest:
    return budget_pb2.CloseBudgetRequest(idempotency_key=key, budget_id=budget_id)


def move(budget_id: str, parent_id: str = "", key: str = "") -> budget_pb2.MoveBudgetRequest:
    return budget_pb2.MoveBudgetRequest(
        idempotency_key=key or f"m-{budget_id}-{parent_id}", budget_id=budget_id, parent_id=parent_id
    )


async def standing(ledger: Ledger, budget_id: str = "team") -> budget_pb2.Budget:
    return (await ledger.auditor.budgets.GetBudget(budget_pb2.GetBudgetRequest(budget_id=budget_id))).budget


async def test_caps_are_given_changed_and_taken_away(database_url: str, tmp_path: Path) -> None:
    async with serving(database_url, tmp_path) as ledger:
        budgets, holds = ledger.admin.budgets, ledger.gateway.holds
        await budgets.CreateBudget(
            budget_pb2.CreateBudgetRequest(
                idempotency_key="b", budget_id="team", currency="USD", limit="100", max_hold="2.50", max_open_holds=1
            )
        )
        found = await standing(ledger)
        assert (found.max_hold, found.max_open_holds, found.version, found.balances.open_holds) == ("2.5", 1, 1, 0)
        assert not found.HasField("close_time")
        code, reason, facts = await refusal(holds.Reserve(reserve_request("op-1", "3")))
        assert (code, reason) == ("FAILED_PRECONDITION", "HOLD_TOO_LARGE")
        assert facts == {"budget_id": "team", "amount": "3", "currency": "USD", "max_hold": "2.5"}
        await holds.Reserve(reserve_request("op-2", "2.5"))
        code, reason, facts = await refusal(holds.Reserve(reserve_request("op-3")))
        assert (code, reason) == ("FAILED_PRECONDITION", "TOO_MANY_HOLDS")
        assert facts == {"budget_id": "team", "open_holds": "1", "max_open_holds": "1"}

        changed = await budgets.UpdateBudget(update(mask=("max_open_holds",), max_open_holds=2))
        assert (changed.applied, changed.replayed, changed.budget.max_open_holds) == (True, False, 2)
        assert (changed.budget.max_hold, changed.budget.version, changed.budget.balances.held) == ("2.5", 2, "2.5")
        again = await budgets.UpdateBudget(update(mask=("max_open_holds",), max_open_holds=2))
        assert (again.applied, again.replayed) == (False, True)
        await holds.Reserve(reserve_request("op-4"))
        gone = (await budgets.UpdateBudget(update("u-2"))).budget
        assert not gone.HasField("max_hold")
        assert not gone.HasField("max_open_holds")
        await holds.Reserve(reserve_request("op-5", "50"))


@pytest.mark.parametrize(
    ("request_", "field"),
    [
        (update(mask=()), "update_mask"),
        (update(mask=("limit_amount",)), "update_mask"),
        (update(mask=("max_hold", "path")), "update_mask"),
        (update(mask=("max_hold",), max_open_holds=1), "max_open_holds"),
        (update(max_hold="-1"), "max_hold"),
        (update(max_hold="1e3"), "max_hold"),
        (update(max_open_holds=-1), "max_open_holds"),
        (update("", max_open_holds=1), "idempotency_key"),
    ],
)
async def test_what_is_malformed_is_named(database_url: str, tmp_path: Path, request_: Any, field: str) -> None:
    async with serving(database_url, tmp_path) as ledger:
        await ledger.budget()
        assert await invalid(ledger.admin.budgets.UpdateBudget(request_)) == field


async def test_a_closed_budget_ends_what_is_open_and_begins_nothing(database_url: str, tmp_path: Path) -> None:
    async with serving(database_url, tmp_path) as ledger:
        await ledger.budget("org")
        await ledger.budget("team", parent="org")
        holds, budgets = ledger.gateway.holds, ledger.admin.budgets
        await holds.Reserve(sending_request("op-1"))
        await holds.Reserve(reserve_request("op-2"))
        closed = await budgets.CloseBudget(close(budget_id="org"))
        assert (closed.applied, closed.replayed, closed.budget.HasField("close_time")) == (True, False, True)
        for key in ("c-1", "c-2"):
            again = await budgets.CloseBudget(close(key, "org"))
            assert (again.applied, again.replayed, again.budget.close_time) == (False, True, closed.budget.close_time)
        closed_org = ("FAILED_PRECONDITION", "BUDGET_CLOSED", {"budget_id": "org"})
        assert await refusal(holds.Reserve(reserve_request("op-3"))) == closed_org
        begin = hold_pb2.BeginDispatchRequest(
            idempotency_key="d", operation_id="op-2", dispatch=hold_pb2.Dispatch(nonce=NONCE)
        )
        assert await refusal(holds.BeginDispatch(begin)) == closed_org
        await holds.Resolve(resolve_request("op-1", "0.5"))
        await holds.Release(hold_pb2.ReleaseRequest(idempotency_key="r", operation_id="op-2"))
        balances = (await standing(ledger, "org")).balances
        assert (balances.spent, balances.held, balances.open_holds) == ("0.5", "0", 0)
        assert (await refusal(budgets.CloseBudget(close("c-3", "nobody"))))[1] == "NOT_FOUND"


async def test_a_budget_moves_with_all_that_is_below_it(database_url: str, tmp_path: Path) -> None:
    async with serving(database_url, tmp_path) as ledger:
        budgets, holds = ledger.admin.budgets, ledger.gateway.holds
        for budget_id, parent in (("org", ""), ("lab", ""), ("team", "org"), ("key", "team")):
            await ledger.budget(budget_id, parent=parent)
        before = await holds.Reserve(reserve_request("op-1", budget_ids=["key"]))
        moved = await budgets.MoveBudget(move("team", "lab"))
        assert (moved.applied, moved.budget.parent_id, moved.budget.version) == (True, "lab", 2)
        again = await budgets.MoveBudget(move("team", "lab"))
        assert (again.applied, again.replayed) == (False, True)
        after = await holds.Reserve(reserve_request("op-2", budget_ids=["key"]))
        assert list(before.hold.book_ids) == ["key#0", "org#0", "team#0"]
        assert list(after.hold.book_ids) == ["key#0", "lab#0", "team#0"]
        below = await ledger.auditor.budgets.ListBudgets(budget_pb2.ListBudgetsRequest(parent_id="lab"))
        assert [budget.budget_id for budget in below.budgets] == ["team"]
        assert (await budgets.MoveBudget(move("key"))).budget.parent_id == ""
        assert await invalid(budgets.MoveBudget(move("lab", "team"))) == "parent_id"
        assert await invalid(budgets.MoveBudget(move("lab", "no name", "m-1"))) == "parent_id"


async def test_the_open_holds_behind_a_number(database_url: str, tmp_path: Path) -> None:
    async with serving(database_url, tmp_path) as ledger:
        await ledger.budget("org")
        await ledger.budget("team", parent="org")
        for number, amount in enumerate(("2", "0.5", "11", "2")):
            await ledger.gateway.holds.Reserve(reserve_request(f"op-{number}", amount))
        await ledger.gateway.holds.Reserve(reserve_request("other", "50", budget_ids=["org"]))
        balances = (await standing(ledger)).balances
        assert (balances.open_holds, balances.held, balances.book_id) == (4, "15.5", "team#0")
        found: list[tuple[str, str]] = []
        list_open, token = ledger.auditor.holds.ListOpenHolds, ""
        while not found or token:
            page = await list_open(
                hold_pb2.ListOpenHoldsRequest(book_id=balances.book_id, page_size=3, page_token=token)
            )
            found += [(hold.operation_id, hold.amount.amount) for hold in page.holds]
            token = page.next_page_token
        assert found == [("op-2", "11"), ("op-0", "2"), ("op-3", "2"), ("op-1", "0.5")]
        assert await invalid(list_open(hold_pb2.ListOpenHoldsRequest())) == "book_id"
        first = await list_open(hold_pb2.ListOpenHoldsRequest(book_id="team#0", page_size=1))
        elsewhere = hold_pb2.ListOpenHoldsRequest(book_id="org#0", page_token=first.next_page_token)
        assert await invalid(list_open(elsewhere)) == "page_token"


async def test_want_of_money_is_told_with_the_limit(database_url: str, tmp_path: Path) -> None:
    async with serving(database_url, tmp_path) as ledger:
        await ledger.budget(limit="10")
        await ledger.gateway.holds.Reserve(reserve_request("op-1", "4"))
        _, reason, facts = await refusal(ledger.gateway.holds.Reserve(reserve_request("op-2", "7")))
        assert reason == "INSUFFICIENT_BUDGET"
        assert facts == {
            "budget_id": "team", "amount": "7", "currency": "USD", "limit": "10", "available": "6", "held": "4", "unknown": "0",
            "spent": "0", "deficit": "0",
        }  # fmt: skip
