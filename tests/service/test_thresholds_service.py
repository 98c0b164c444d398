"""Thresholds as callers set them, see them, and are told of them."""

from pathlib import Path
from typing import Any

import pytest
from google.protobuf.field_mask_pb2 import FieldMask

from ledger.v1 import budget_pb2 as pb
from ledger.v1 import feed_pb2
from tests.service.harness import Ledger, invalid, reserve_request, serving
from tests.service.test_feed_service import read

USED, SPENT = pb.THRESHOLD_BASIS_USED, pb.THRESHOLD_BASIS_SPENT


def create(budget_id: str, **fields: Any) -> pb.CreateBudgetRequest:
    given = {"idempotency_key": f"b-{budget_id}", "budget_id": budget_id, "currency": "USD", "limit": "10"}
    return pb.CreateBudgetRequest(**given | fields)


async def budget(ledger: Ledger, budget_id: str) -> pb.Budget:
    return (await ledger.auditor.budgets.GetBudget(pb.GetBudgetRequest(budget_id=budget_id))).budget


async def test_they_are_set_seen_and_told(database_url: str, tmp_path: Path) -> None:
    async with serving(database_url, tmp_path) as ledger:
        made = (await ledger.admin.budgets.CreateBudget(create("team"))).budget
        assert (list(made.thresholds.percents), made.thresholds.basis) == ([50, 80, 100], USED)
        await ledger.gateway.holds.Reserve(reserve_request("op-1", "8"))
        events, _ = await read(ledger.finance, 2, types=[feed_pb2.EVENT_TYPE_THRESHOLD])
        told = [event.threshold for event in events]
        assert [(t.budget_id, t.book_id, t.percent, t.basis) for t in told] == [
            ("team", "team#0", 50, USED),
            ("team", "team#0", 80, USED),
        ]
        assert {(t.amount.amount, t.amount.currency, t.authority) for t in told} == {("8", "USD", "10")}
        assert list((await budget(ledger, "team")).crossed_thresholds) == [50, 80]
        update = pb.UpdateBudgetRequest(
            idempotency_key="u",
            budget_id="team",
            update_mask=FieldMask(paths=["thresholds"]),
            thresholds=pb.Thresholds(percents=[90, 70], basis=USED),
        )
        await ledger.admin.budgets.UpdateBudget(update)
        now = await budget(ledger, "team")
        assert (list(now.thresholds.percents), list(now.crossed_thresholds)) == ([70, 90], [50, 80, 70])
        # Named in the mask, and absent: taken away.
        none = pb.UpdateBudgetRequest(
            idempotency_key="n", budget_id="team", update_mask=FieldMask(paths=["thresholds"])
        )
        await ledger.admin.budgets.UpdateBudget(none)
        now = await budget(ledger, "team")
        assert (list(now.thresholds.percents), now.thresholds.basis) == ([], 0)


async def test_a_budget_may_have_none(database_url: str, tmp_path: Path) -> None:
    async with serving(database_url, tmp_path) as ledger:
        made = (await ledger.admin.budgets.CreateBudget(create("team", thresholds=pb.Thresholds()))).budget
        assert not made.thresholds.percents
        await ledger.gateway.holds.Reserve(reserve_request("op-1", "10"))
        assert not (await budget(ledger, "team")).crossed_thresholds


@pytest.mark.parametrize(
    ("percents", "basis", "field"),
    [
        ([0], USED, "thresholds.percents[0]"),
        ([50, 1001], USED, "thresholds.percents[1]"),
        ([50, 50], USED, "thresholds.percents"),
        (range(1, 12), USED, "thresholds.percents"),
        ([50], 0, "thresholds.basis"),
        ([50], 9, "thresholds.basis"),
        ([], SPENT, "thresholds.basis"),
    ],
)
async def test_what_is_malformed_is_refused(
    database_url: str, tmp_path: Path, percents: list[int], basis: Any, field: str
) -> None:
    async with serving(database_url, tmp_path) as ledger:
        asked = create("team", thresholds=pb.Thresholds(percents=percents, basis=basis))
        assert await invalid(ledger.admin.budgets.CreateBudget(asked)) == field
