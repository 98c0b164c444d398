"""How a guarded block is left, and what the ledger says of the operation afterwards."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

from ledger.client import Guard, Ledger, NotPermitted, Refused, metered_quote
from ledger.v1 import error_pb2, hold_pb2
from tests.client.sdk import SEVEN, TEN, reason, refusal, sdk, seconds, state, state_of
from tests.service.harness import put_card, serving

RESPONSE = {
    "id": "chatcmpl-1",
    "model": "gpt-5",
    "choices": [{"message": {"content": "a secret"}}],
    # 1 000 x 1.25 + 200 x 10 = 3 250, per million
    "usage": {"prompt_tokens": 1_000, "completion_tokens": 200, "total_tokens": 1_200},
}
METERED = metered_quote("gpt-5", api_flavor="openai.chat", ceilings={"input_tokens": 2_000, "output_tokens": 500})


class Broken(Exception):
    """What a provider's library raises."""


def guard(ledger: Ledger, operation_id: str = "op", **options: Any) -> Guard:
    given: dict[str, Any] = {"budgets": ["team"], "quote": TEN}
    return ledger.guard(operation_id, **given | options)


async def test_a_call_is_settled_on_the_usage_in_its_response_and_nothing_else_of_it_is_told(
    database_url: str, tmp_path: Path
) -> None:
    async with serving(database_url, tmp_path) as served, sdk(served) as ledger:
        await served.budget()
        await put_card(served)
        async with guard(ledger, quote=METERED, provider="openai") as operation:
            assert (state(operation.hold), operation.may_send) == ("RESERVED", False)
            await operation.begin_dispatch()
            assert (state(operation.hold), operation.may_send) == ("DISPATCHING", True)
            answer = await operation.settle(RESPONSE, receipt="req-1")
            assert not operation.may_send
    assert (state(answer.hold), answer.hold.resolution.amount.amount) == ("SETTLED", "0.00325")
    assert answer.hold.attempt.provider_receipt == "req-1"
    with psycopg.connect(database_url) as connection:
        (body,) = connection.execute("SELECT body::text FROM evidence").fetchone() or ("",)
    assert "prompt_tokens" in body
    assert "secret" not in body


async def test_every_way_to_say_what_became_of_a_call(database_url: str, tmp_path: Path) -> None:
    async with serving(database_url, tmp_path) as served, sdk(served) as ledger:
        await served.budget()
        await put_card(served)
        ends: dict[str, Any] = {
            "charged": (lambda op: op.settle(charged=SEVEN), "SETTLED", "7"),
            "rejected": (lambda op: op.rejected(429, "req-1"), "SETTLED", "0"),
            "never-sent": (lambda op: op.never_sent(hold_pb2.NEVER_SENT_CAUSE_DNS_FAILURE), "SETTLED", "0"),
            "cached": (lambda op: op.cache_hit(), "SETTLED", "0"),
            "unknown": (lambda op: op.outcome_unknown("time-out"), "OUTCOME_UNKNOWN", ""),
        }
        for name, (say, told, amount) in ends.items():
            async with guard(ledger, name, dispatch=True) as operation:
                assert operation.may_send
                answer = await say(operation)
            assert (state(answer.hold), answer.hold.resolution.amount.amount) == (told, amount), name
            assert operation.hold == answer.hold
        async with guard(ledger, "buckets", quote=METERED, provider="openai", dispatch=True) as operation:
            # 400 x 10, per million
            bought = await operation.settle(buckets={"input_tokens": 0, "output_tokens": 400})
        assert bought.hold.resolution.amount.amount == "0.004"
        async with guard(ledger, "given-back") as operation:
            released = await operation.release()
        assert state(released.hold) == "RELEASED"
        assert len(ledger.finalisers) == ledger.finalisers.failed == 0


@pytest.mark.parametrize(
    ("begin", "broken", "left"),
    [
        (False, False, "RELEASED"),
        (False, True, "RELEASED"),
        (True, False, "OUTCOME_UNKNOWN"),
        (True, True, "OUTCOME_UNKNOWN"),
    ],
)
async def test_a_block_that_is_left_without_a_resolution(
    database_url: str, tmp_path: Path, begin: bool, broken: bool, left: str
) -> None:
    async with serving(database_url, tmp_path) as served, sdk(served) as ledger:
        await served.budget()
        try:
            async with guard(ledger) as operation:
                if begin:
                    await operation.begin_dispatch()
                if broken:
                    raise Broken
        except Broken:
            assert broken
        # No wait: when the block is left it is done.
        assert await state_of(ledger, "op") == left


async def test_evidence_that_is_refused_leaves_the_outcome_unknown(database_url: str, tmp_path: Path) -> None:
    async with serving(database_url, tmp_path) as served, sdk(served) as ledger:
        await served.budget()
        with pytest.raises(Refused) as refused:
            async with guard(ledger, dispatch=True) as operation:
                await operation.settle(charged=(11, "USD"))
        assert reason(refused.value) == "EVIDENCE_REJECTED"
        assert await state_of(ledger, "op") == "OUTCOME_UNKNOWN"


async def test_a_response_without_usage_is_not_free(database_url: str, tmp_path: Path) -> None:
    async with serving(database_url, tmp_path) as served, sdk(served) as ledger:
        await served.budget()
        await put_card(served)
        with pytest.raises(ValueError, match="no usage object"):
            async with guard(ledger, quote=METERED, provider="openai", dispatch=True) as operation:
                await operation.settle({"model": "gpt-5", "choices": []})
        assert await state_of(ledger, "op") == "OUTCOME_UNKNOWN"


async def test_a_refused_reserve_calls_no_provider(database_url: str, tmp_path: Path) -> None:
    async with serving(database_url, tmp_path) as served, sdk(served) as ledger:
        await served.budget(limit="9")
        entered = False
        for dispatch in (False, True):
            with pytest.raises(Refused) as refused:
                async with guard(ledger, f"op-{dispatch}", dispatch=dispatch):
                    entered = True
            assert reason(refused.value) == "INSUFFICIENT_BUDGET"
            assert refused.value.metadata["available"] == "9"
        assert not entered
        assert await state_of(ledger, "op-True") == ""


async def test_the_permission_is_one_process_s(database_url: str, tmp_path: Path) -> None:
    """Of two guards of one operation one may send; the other neither sends nor ends what is not its own."""
    async with serving(database_url, tmp_path) as served, sdk(served) as ledger, sdk(served) as other:
        await served.budget()
        async with guard(ledger) as mine:

            async def too_late() -> None:
                async with guard(other) as theirs:
                    await mine.begin_dispatch()
                    await theirs.begin_dispatch()

            with pytest.raises(NotPermitted) as denied:
                await too_late()
            assert state(denied.value.hold) == "DISPATCHING"
            assert await state_of(ledger, "op") == "DISPATCHING"
            # One that comes later is not let in.
            with pytest.raises(NotPermitted):
                await guard(other).__aenter__()
            await mine.settle(charged=SEVEN)
        with pytest.raises(NotPermitted) as late:
            await guard(other).__aenter__()
        assert (state(late.value.hold), reason(late.value)) == ("SETTLED", "HOLD_STATE")
        assert ledger.finalisers.failed == other.finalisers.failed == 0


async def test_a_guard_that_leaves_before_its_dispatch_does_not_end_another_s(
    database_url: str, tmp_path: Path
) -> None:
    async with serving(database_url, tmp_path) as served, sdk(served) as ledger, sdk(served) as other:
        await served.budget()
        async with guard(ledger) as mine:
            async with guard(other):
                await mine.begin_dispatch()
            assert await state_of(ledger, "op") == "DISPATCHING"
            await mine.settle(charged=SEVEN)
        with psycopg.connect(database_url) as connection:
            assert connection.execute("SELECT count(*) FROM evidence WHERE kind = 'NO_COST'").fetchone() == (0,)


async def test_an_unknown_call_is_told_not_to_be_made_again(database_url: str, tmp_path: Path) -> None:
    async with serving(database_url, tmp_path) as served, sdk(served) as ledger:
        await served.budget()
        async with guard(ledger, dispatch=True) as operation:
            await operation.outcome_unknown("time-out")
        with pytest.raises(NotPermitted) as denied:
            await guard(ledger, dispatch=True).__aenter__()
        assert denied.value.recovery_action == error_pb2.RECOVERY_ACTION_NO_REPLAY
        refused = await refusal(ledger.release("op"))
        assert refused == "HOLD_STATE"


async def test_misuse_is_told_before_anything_is_asked(database_url: str, tmp_path: Path) -> None:
    async with serving(database_url, tmp_path) as served, sdk(served) as ledger:
        await served.budget()
        async with guard(ledger, dispatch=True) as operation:
            with pytest.raises(RuntimeError, match="PERMITTED"):
                await operation.begin_dispatch()
            with pytest.raises(RuntimeError, match="once"):
                await operation.__aenter__()
            with pytest.raises(ValueError, match="api_flavor"):
                await operation.settle(RESPONSE)
            with pytest.raises(TypeError, match="float"):
                await operation.settle(charged=(0.1, "USD"))  # type: ignore[arg-type] # what is refused
            with pytest.raises(ValueError, match="one of"):
                await operation.settle()
            await operation.settle(charged=SEVEN)


async def test_the_lease_is_the_caller_s(database_url: str, tmp_path: Path) -> None:
    async with serving(database_url, tmp_path) as served, sdk(served) as ledger:
        await served.budget()
        async with guard(ledger, lease=seconds(90), executor="worker-3", ttl=seconds(60)) as operation:
            hold = await operation.begin_dispatch()
            attempt = hold.attempt
            assert attempt.lease_expire_time.ToSeconds() - attempt.dispatch_time.ToSeconds() == 90
            assert hold.expire_time.ToSeconds() - hold.create_time.ToSeconds() == 60
            assert attempt.executor == "worker-3"
            await operation.settle(charged=SEVEN)


async def chunks(*events: Any, then: Exception | None = None) -> AsyncIterator[Any]:
    for event in events:
        await asyncio.sleep(0)
        yield event
    if then is not None:
        raise then


def usage_of(event: Any) -> dict[str, Any] | None:
    return event if isinstance(event, dict) and "usage" in event else None


FINAL = {key: RESPONSE[key] for key in ("model", "usage")}


@asynccontextmanager
async def streaming(database_url: str, folder: Path) -> AsyncIterator[Ledger]:
    async with serving(database_url, folder) as served, sdk(served) as ledger:
        await served.budget()
        await put_card(served)
        yield ledger


async def relayed(ledger: Ledger, events: AsyncIterator[Any], seen: list[tuple[Any, str]], **options: Any) -> None:
    """Notes each event that is passed on, and what the hold's state was at that moment."""
    async with guard(ledger, quote=METERED, provider="openai", dispatch=True) as operation:
        async for event in operation.stream(events, usage=usage_of, **options):
            state_then = await state_of(ledger, "op")
            seen.append((event, state_then))


async def test_the_end_of_a_stream_waits_for_the_resolution(database_url: str, tmp_path: Path) -> None:
    seen: list[tuple[Any, str]] = []
    async with streaming(database_url, tmp_path) as ledger:
        await relayed(ledger, chunks("Good ", "day.", FINAL, "[DONE]"), seen)
        assert (await ledger.get_hold("op")).resolution.amount.amount == "0.00325"
    assert seen == [("Good ", "DISPATCHING"), ("day.", "DISPATCHING"), (FINAL, "SETTLED"), ("[DONE]", "SETTLED")]


@pytest.mark.parametrize(
    ("events", "left"),
    [
        (["Good "], "OUTCOME_UNKNOWN"),
        # Its final usage was seen: that is evidence, whatever came after it.
        (["Good ", FINAL], "SETTLED"),
    ],
)
async def test_a_stream_that_is_cut(database_url: str, tmp_path: Path, events: list[Any], left: str) -> None:
    seen: list[tuple[Any, str]] = []
    async with streaming(database_url, tmp_path) as ledger:
        with pytest.raises(Broken):
            await relayed(ledger, chunks(*events, then=Broken()), seen)
        assert seen == [("Good ", "DISPATCHING")]
        assert await state_of(ledger, "op") == left


async def test_a_stream_that_ends_without_usage_is_unknown_before_its_end_is_passed_on(
    database_url: str, tmp_path: Path
) -> None:
    seen: list[tuple[Any, str]] = []
    async with streaming(database_url, tmp_path) as ledger:
        await relayed(ledger, chunks("day.", "[DONE]"), seen, terminal="[DONE]".__eq__)
    assert seen == [("day.", "DISPATCHING"), ("[DONE]", "OUTCOME_UNKNOWN")]


async def test_the_end_is_not_passed_on_if_the_evidence_is_refused(database_url: str, tmp_path: Path) -> None:
    dear = FINAL | {"usage": {"prompt_tokens": 0, "completion_tokens": 90_000, "total_tokens": 90_000}}
    seen: list[tuple[Any, str]] = []
    async with streaming(database_url, tmp_path) as ledger:
        with pytest.raises(Refused) as refused:
            await relayed(ledger, chunks("Good ", dear, "[DONE]"), seen)
        assert reason(refused.value) == "EVIDENCE_REJECTED"
        assert await state_of(ledger, "op") == "OUTCOME_UNKNOWN"
    assert seen == [("Good ", "DISPATCHING")]


async def test_a_reader_who_goes_away_from_a_stream_leaves_it_unknown(database_url: str, tmp_path: Path) -> None:
    async with streaming(database_url, tmp_path) as ledger:
        async with guard(ledger, quote=METERED, provider="openai", dispatch=True) as operation:
            async for _ in operation.stream(chunks("Good ", FINAL), usage=usage_of):
                break
        assert await state_of(ledger, "op") == "OUTCOME_UNKNOWN"
