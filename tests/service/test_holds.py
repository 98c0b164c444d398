"""The life of a hold over gRPC."""

import asyncio
from pathlib import Path

from ledger.v1 import error_pb2, hold_pb2, journal_pb2
from tests.service.harness import (
    NONCE,
    metered,
    put_card,
    refusal,
    reserve_request,
    resolve_request,
    sending_request,
    serving,
)


async def test_reserve_dispatch_unknown_resolve(database_url: str, tmp_path: Path) -> None:
    async with serving(database_url, tmp_path) as ledger:
        await ledger.budget()
        holds = ledger.gateway.holds
        reserved = await holds.Reserve(
            reserve_request(
                "op-1", "2.50", labels={"project": "apollo"}, request_group="group-1", exclusive_key="order-7"
            )
        )
        hold = reserved.hold
        assert (hold.state, hold.amount.amount, hold.amount.currency) == (hold_pb2.HOLD_STATE_RESERVED, "2.5", "USD")
        assert (list(hold.budget_ids), list(hold.book_ids), hold.actor) == (["team"], ["team#0"], "gateway-1")
        assert (dict(hold.labels), hold.request_group, hold.exclusive_key) == (
            {"project": "apollo"},
            "group-1",
            "order-7",
        )
        assert hold.expire_time.seconds - hold.create_time.seconds == 900
        assert not hold.HasField("attempt")
        assert not hold.HasField("resolution")
        assert not hold.HasField("quote")
        assert not reserved.may_send

        begin = hold_pb2.BeginDispatchRequest(
            idempotency_key="b-1", operation_id="op-1", dispatch=hold_pb2.Dispatch(nonce=NONCE, executor="worker-1")
        )
        begun = await holds.BeginDispatch(begin)
        assert begun.may_send
        assert begun.hold.attempt.number == 1
        begin.dispatch.nonce = "another-process-x"
        other = await holds.BeginDispatch(begin)
        assert (other.replayed, other.may_send) == (True, False)

        marked = await holds.MarkOutcomeUnknown(
            hold_pb2.MarkOutcomeUnknownRequest(idempotency_key="u-1", operation_id="op-1", observation="read timeout")
        )
        assert (marked.applied, marked.hold.recovery_action) == (True, error_pb2.RECOVERY_ACTION_NO_REPLAY)
        released = holds.Release(hold_pb2.ReleaseRequest(idempotency_key="x-1", operation_id="op-1"))
        code, reason, metadata = await refusal(released)
        assert (code, reason) == ("FAILED_PRECONDITION", "HOLD_STATE")
        assert metadata["recovery_action"] == "no_replay"

        settled = await holds.Resolve(resolve_request("op-1", "2"))
        assert settled.hold.resolution.amount.amount == "2"
        assert settled.hold.resolution.kind == hold_pb2.RESOLUTION_KIND_USAGE
        assert len(settled.hold.resolution.digest) == 64
        assert not settled.hold.resolution.HasField("cost_over_hold")
        got = (await holds.GetHold(hold_pb2.GetHoldRequest(operation_id="op-1"))).hold
        assert (got.quote.kind, got.quote.amount.amount, got.quote.reason) == (
            hold_pb2.QUOTE_KIND_FIXED,
            "2.5",
            "agreed",
        )
        assert got.settlement.value == got.state
        for only_here in ("quote", "execution", "settlement"):
            got.ClearField(only_here)
        assert got == settled.hold


async def test_eight_callers_for_a_cap_of_one(database_url: str, tmp_path: Path) -> None:
    async with serving(database_url, tmp_path) as ledger:
        await ledger.budget(limit="1.00")

        async def one(i: int) -> str:
            try:
                await ledger.gateway.holds.Reserve(reserve_request(f"op-{i}", "0.90"))
            except Exception:
                return (await refusal(ledger.gateway.holds.Reserve(reserve_request(f"op-{i}", "0.90"))))[1]
            return "accepted"

        told = await asyncio.gather(*(one(i) for i in range(8)))
        assert sorted(told) == ["INSUFFICIENT_BUDGET"] * 7 + ["accepted"]


async def test_two_resolves_at_once_post_once(database_url: str, tmp_path: Path) -> None:
    async with serving(database_url, tmp_path, lanes=2) as ledger:
        await ledger.budget()
        await ledger.gateway.holds.Reserve(sending_request("op-1", "1"))
        answers = await asyncio.gather(
            ledger.gateway.holds.Resolve(resolve_request("op-1", "0.4", idempotency_key="one")),
            ledger.finance.holds.Resolve(resolve_request("op-1", "0.4", idempotency_key="other")),
        )
        assert sorted(answer.replayed for answer in answers) == [False, True]
        entries = await ledger.auditor.journal.ListEntries(journal_pb2.ListEntriesRequest(operation_id="op-1"))
        assert [journal_pb2.EntryKind.Name(entry.kind) for entry in entries.entries] == [
            "ENTRY_KIND_RESERVE",
            "ENTRY_KIND_SETTLE",
        ]


async def test_a_batch_answers_each_command_and_keeps_the_order_on_a_hold(database_url: str, tmp_path: Path) -> None:
    async with serving(database_url, tmp_path) as ledger:
        await ledger.budget(limit="10")
        malformed = reserve_request("c")
        malformed.quote.fixed.amount.amount = "NaN"
        request = hold_pb2.BatchExecuteRequest(
            commands=[
                hold_pb2.Command(reserve=sending_request("a", "4")),
                hold_pb2.Command(resolve=resolve_request("a", "3")),
                hold_pb2.Command(reserve=reserve_request("b", "8")),
                hold_pb2.Command(reserve=malformed),
                hold_pb2.Command(),
                hold_pb2.Command(reserve=reserve_request("d", "6")),
                hold_pb2.Command(release=hold_pb2.ReleaseRequest(idempotency_key="x-d", operation_id="d")),
            ]
        )
        results = (await ledger.gateway.holds.BatchExecute(request)).results
        # b and d are decided before a is settled: each step of a hold is committed before the next is looked at.
        assert [result.WhichOneof("result") for result in results] == [
            "reserve", "resolve", "error", "error", "error", "reserve", "release",
        ]  # fmt: skip
        assert results[0].reserve.may_send
        assert results[1].resolve.hold.resolution.amount.amount == "3"
        assert results[2].error.reason == error_pb2.ERROR_REASON_INSUFFICIENT_BUDGET
        assert results[2].error.code == 9
        assert results[2].error.metadata["budget_id"] == "team"
        assert results[3].error.metadata["field"] == "commands[3].reserve.quote.fixed.amount.amount"
        assert results[4].error.metadata["field"] == "commands[4].command"


async def test_in_a_batch_each_command_needs_its_own_role(database_url: str, tmp_path: Path) -> None:
    async with serving(database_url, tmp_path) as ledger:
        await ledger.budget()
        await ledger.gateway.holds.Reserve(sending_request("a", "4"))
        request = hold_pb2.BatchExecuteRequest(
            commands=[
                hold_pb2.Command(reserve=reserve_request("b")),
                hold_pb2.Command(resolve=resolve_request("a", "4")),
            ]
        )
        results = (await ledger.finance.holds.BatchExecute(request)).results
        assert results[0].error.reason == error_pb2.ERROR_REASON_ROLE_NOT_ALLOWED
        assert results[0].error.code == 7
        assert results[1].resolve.hold.state == hold_pb2.HOLD_STATE_SETTLED


async def test_a_provider_usage_object_is_read_into_buckets(database_url: str, tmp_path: Path) -> None:
    async with serving(database_url, tmp_path) as ledger:
        await ledger.budget()
        await put_card(ledger)
        await ledger.gateway.holds.Reserve(sending_request("op-1", quote=metered()))
        usage = hold_pb2.UsageEvidence(
            source=hold_pb2.EVIDENCE_SOURCE_PROVIDER_RESPONSE,
            provider="openai",
            provider_usage=hold_pb2.ProviderUsage(
                api_flavor="openai.chat",
                json='{"model": "gpt-5", "usage": {"prompt_tokens": 100000, "completion_tokens": 0, "total_tokens": 100000,'
                ' "prompt_tokens_details": {"cached_tokens": 80000}}}',
            ),
        )
        request = hold_pb2.ResolveRequest(idempotency_key="s-1", operation_id="op-1", usage=usage)
        settled = await ledger.gateway.holds.Resolve(request)
        # 20 000 at 1.25 and 80 000 at 0.125, both for a million.
        assert settled.hold.resolution.amount.amount == "0.035"


async def test_a_negative_bucket_is_kept_as_rejected_evidence(database_url: str, tmp_path: Path) -> None:
    async with serving(database_url, tmp_path) as ledger:
        await ledger.budget()
        await put_card(ledger)
        await ledger.gateway.holds.Reserve(sending_request("op-1", quote=metered()))
        usage = hold_pb2.UsageEvidence(
            source=hold_pb2.EVIDENCE_SOURCE_PROVIDER_RESPONSE,
            provider="openai",
            buckets=hold_pb2.BucketUsage(quantities={"input_tokens": -1, "output_tokens": 5}),
        )
        request = hold_pb2.ResolveRequest(idempotency_key="s-1", operation_id="op-1", usage=usage)
        code, reason, metadata = await refusal(ledger.gateway.holds.Resolve(request))
        assert (code, reason) == ("FAILED_PRECONDITION", "EVIDENCE_REJECTED")
        assert "input_tokens is negative" in metadata["reasons"]
