"""The commands that no guard asks for, as typed calls: attempts, receipts, deliveries, cancels and corrections."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from ledger.client import Refused, dispatch, usage_evidence
from ledger.domain.model import Role
from ledger.v1 import budget_pb2, hold_pb2, write_pb2
from tests.client.sdk import SEVEN, TEN, reason, refusal, sdk, state
from tests.service.harness import NONCE, serving

REFUSED = hold_pb2.NEVER_SENT_CAUSE_CONNECTION_REFUSED


async def test_an_attempt_that_was_not_sent_and_the_next(database_url: str, tmp_path: Path) -> None:
    async with serving(database_url, tmp_path) as served, sdk(served) as ledger:
        await served.budget()
        sent = dispatch(NONCE)
        await ledger.reserve("op", budgets=["team"], quote=TEN, dispatch=sent)
        failed = await ledger.record_failed_before_dispatch("op", NONCE, REFUSED, attempt=1)
        assert (failed.applied, failed.hold.attempt.failed_before_dispatch) == (True, REFUSED)
        again = await ledger.record_failed_before_dispatch("op", NONCE, REFUSED, attempt=1)
        assert again.replayed
        begun = await ledger.begin_dispatch("op", dispatch("another-nonce-of-16"), attempt=2)
        assert (begun.may_send, begun.hold.attempt.number) == (True, 2)
        second = await ledger.record_failed_before_dispatch("op", "another-nonce-of-16", REFUSED, attempt=2)
        assert (second.replayed, second.applied) == (False, True)


async def test_receipts_and_deliveries_are_recorded_once(database_url: str, tmp_path: Path) -> None:
    async with serving(database_url, tmp_path) as served, sdk(served) as ledger:
        await served.budget()
        await ledger.reserve("op", budgets=["team"], quote=TEN, dispatch=dispatch(NONCE))
        bound = await ledger.record_receipt("op", "openai", "req-1")
        assert (bound.applied, bound.hold.attempt.provider_receipt) == (True, "req-1")
        assert (await ledger.record_receipt("op", "openai", "req-1")).replayed
        # Another receipt is another report: it has to reach the ledger, which opens a case.
        assert (await ledger.record_receipt("op", "openai", "req-2")).incident_id
        await ledger.record_delivery("op", hold_pb2.DELIVERY_PARTIAL)
        assert (await ledger.record_delivery("op", hold_pb2.DELIVERY_PARTIAL)).replayed
        assert not (await ledger.record_delivery("op", hold_pb2.DELIVERY_COMPLETE)).replayed
        assert (await ledger.get_hold("op")).delivery.value == hold_pb2.DELIVERY_COMPLETE


async def test_a_cancel_says_what_stopped_and_what_remains(database_url: str, tmp_path: Path) -> None:
    async with serving(database_url, tmp_path) as served, sdk(served) as ledger:
        await served.budget()
        await ledger.reserve("waiting", budgets=["team"], quote=TEN)
        await ledger.reserve("sent", budgets=["team"], quote=TEN, dispatch=dispatch(NONCE))
        freed = await ledger.cancel("waiting", "the user left")
        assert (freed.stopped, state(freed.hold)) == (hold_pb2.STOPPED_RESERVATION, "RELEASED")
        stopped = await ledger.cancel("sent", "the user left")
        assert stopped.stopped == hold_pb2.STOPPED_PERMISSION_TO_SEND
        assert (state(stopped.hold), stopped.unsettled.amount) == ("OUTCOME_UNKNOWN", "10")
        assert (await ledger.cancel("sent", "the user left")).replayed


async def test_what_a_caller_believes_is_held_against_the_rows(database_url: str, tmp_path: Path) -> None:
    """After a write whose answer never came: by the key that was sent, until "not there" is final."""
    async with serving(database_url, tmp_path) as served, sdk(served) as ledger:
        await served.budget()
        await ledger.reserve("op", budgets=["team"], quote=TEN)
        done = write_pb2.WriteClaim(claims_outcome=True, operation_id="op", state=hold_pb2.HOLD_STATE_RESERVED)
        found = await ledger.verify_write(done, sent=("Reserve", "op/reserve"))
        assert (found.verdict, found.invocation.command) == (write_pb2.WRITE_VERDICT_MATCH, "Reserve")
        wrong = write_pb2.WriteClaim(state=hold_pb2.HOLD_STATE_SETTLED)
        found = await ledger.verify_write(wrong, operation_id="op")
        assert [difference.field for difference in found.differences] == ["state"]
        an_hour_ago = datetime.now(UTC) - timedelta(hours=1)
        for deadline, final in ((None, False), (an_hour_ago, True)):
            found = await ledger.verify_write(done, sent=("Reserve", "other/reserve"), call_deadline=deadline)
            assert (found.verdict, found.final) == (write_pb2.WRITE_VERDICT_NOT_FOUND, final)


async def test_a_budget_is_made_with_all_that_it_may_have(database_url: str, tmp_path: Path) -> None:
    async with serving(database_url, tmp_path) as served, sdk(served, Role.ADMIN) as admin:
        told = budget_pb2.Thresholds(percents=[90], basis=budget_pb2.THRESHOLD_BASIS_SPENT)
        made = await admin.create_budget(
            "team", currency="USD", limit=100, credit_line=5, max_hold=20, max_open_holds=3, thresholds=told
        )
        budget = made.budget
        assert (budget.limit, budget.credit_line, budget.max_hold, budget.max_open_holds) == ("100", "5", "20", 3)
        assert budget.thresholds == told


async def test_finance_corrects_what_it_has_seen(database_url: str, tmp_path: Path) -> None:
    async with (
        serving(database_url, tmp_path) as served,
        sdk(served) as ledger,
        sdk(served, Role.FINANCE) as finance,
    ):
        await served.budget()
        await ledger.reserve("op", budgets=["team"], quote=TEN, dispatch=dispatch(NONCE))
        settled = await ledger.resolve("op", usage_evidence("openai", charged=SEVEN))
        seen = settled.hold.resolution.digest
        invoice = usage_evidence("openai", charged=(6, "USD"), source=hold_pb2.EVIDENCE_SOURCE_STATEMENT)
        given: dict[str, Any] = {"digest_in_force": seen, "reason": "invoice 4711"}
        corrected = await finance.correct("op", invoice, **given)
        resolution = corrected.hold.resolution
        assert (resolution.revision, resolution.amount.amount) == (2, "6")
        assert (await finance.correct("op", invoice, **given)).replayed
        with pytest.raises(Refused) as refused:
            await finance.correct("op", usage_evidence("openai", charged=(5, "USD")), **given)
        assert reason(refused.value) == "DIGEST_NOT_IN_FORCE"
        no_role = ledger.correct("op", invoice, digest_in_force=resolution.digest, reason="mine")
        assert await refusal(no_role) == "ROLE_NOT_ALLOWED"
