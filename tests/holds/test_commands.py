"""hold show and hold list, against a running ledger."""

import asyncio
import json
import re
from pathlib import Path

import pytest

from ledger.cli import main
from ledger.client.calling import TOKEN_VARIABLE
from ledger.domain.model import Role
from ledger.holds.words import span
from ledger.v1 import hold_pb2
from tests.service.harness import NONCE, Ledger, reserve_request, resolve_request, sending_request, serving

REFUSED = hold_pb2.NEVER_SENT_CAUSE_CONNECTION_REFUSED


async def tell(ledger: Ledger) -> None:
    """Of chat-1 the first attempt is not sent, the second is cut; of chat-2 nothing is known either; chat-3 is settled."""
    await ledger.budget()
    holds = ledger.gateway.holds
    await holds.Reserve(sending_request("chat-1", "6", request_group="g"))
    await holds.RecordFailedBeforeDispatch(
        hold_pb2.RecordFailedBeforeDispatchRequest(
            idempotency_key="f", operation_id="chat-1", nonce=NONCE, cause=REFUSED, adapter="sdk", adapter_revision="7"
        )
    )
    dispatch = hold_pb2.Dispatch(nonce="another-process-x", executor="worker-2")
    await holds.BeginDispatch(
        hold_pb2.BeginDispatchRequest(idempotency_key="b", operation_id="chat-1", dispatch=dispatch)
    )
    await holds.RecordDelivery(
        hold_pb2.RecordDeliveryRequest(idempotency_key="d", operation_id="chat-1", delivery=hold_pb2.DELIVERY_PARTIAL)
    )
    await holds.MarkOutcomeUnknown(
        hold_pb2.MarkOutcomeUnknownRequest(idempotency_key="u", operation_id="chat-1", observation="stream cut")
    )
    await holds.Reserve(sending_request("chat-2", "1"))
    await holds.Cancel(hold_pb2.CancelRequest(idempotency_key="c", operation_id="chat-2", reason="the user left"))
    await holds.Reserve(reserve_request("chat-3", "3"))
    await holds.Resolve(resolve_request("chat-3", "2"))
    await holds.Reserve(sending_request("chat-4", "4"))


async def shown(ledger: Ledger, capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    status = await asyncio.to_thread(main, ["hold", arguments[0], "--server", ledger.address, *arguments[1:]])
    assert status == 0
    # Times and digests are other ones each time.
    text = re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}Z", "TIME", capsys.readouterr().out)
    return re.sub(r"digest [0-9a-f]{12}…", "digest D", text)


async def test_a_person_sees_what_is_known_and_what_happened(
    database_url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving(database_url, tmp_path) as ledger:
        await tell(ledger)
        monkeypatch.setenv(TOKEN_VARIABLE, ledger.token("acme", Role.AUDITOR))
        text = await shown(ledger, capsys, "show", "chat-1")
    squeezed = [re.sub(r" {2,}", "  ", line) for line in text.splitlines()]
    assert squeezed == [
        "chat-1: 6 USD of team, OUTCOME_UNKNOWN",
        "attempt 2 of generation 2 by gateway-1, executor worker-2",
        "its lease ends at TIME",
        "do not send again: evidence of the provider resolves it",
        "",
        "delivery  PARTIAL  since TIME by gateway-1, RecordDelivery",
        "execution  UNKNOWN  since TIME by gateway-1, MarkOutcomeUnknown",
        "settlement  OUTCOME_UNKNOWN  since TIME by gateway-1, MarkOutcomeUnknown",
        "",
        "TIME  gateway-1  command  Reserve  key r-chat-1, outcome OK",
        "TIME  gateway-1  attempt  BEGUN  attempt 1, executor worker-1, generation 1",
        "TIME  gateway-1  entry  RESERVE  AVAILABLE -6, HELD 6",
        "TIME  gateway-1  command  RecordFailedBeforeDispatch  key f, outcome OK",
        "TIME  gateway-1  execution  NOT_SENT  attempt 1, adapter sdk, adapter_revision 7, cause CONNECTION_REFUSED,"
        " source RecordFailedBeforeDispatch",
        "TIME  gateway-1  command  BeginDispatch  key b, outcome OK",
        "TIME  gateway-1  attempt  BEGUN  attempt 2, executor worker-2, generation 2",
        "TIME  gateway-1  command  RecordDelivery  key d, outcome OK",
        "TIME  gateway-1  delivery  PARTIAL  attempt 2, source RecordDelivery",
        "TIME  gateway-1  command  MarkOutcomeUnknown  key u, outcome OK",
        "TIME  gateway-1  execution  UNKNOWN  attempt 2, because stream cut, source MarkOutcomeUnknown",
        "TIME  gateway-1  entry  OUTCOME_UNKNOWN  HELD -6, UNKNOWN 6",
    ]


async def test_a_settled_hold_and_one_that_failed_before_it_was_sent(
    database_url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving(database_url, tmp_path) as ledger:
        await tell(ledger)
        monkeypatch.setenv(TOKEN_VARIABLE, ledger.token("acme", Role.FINANCE))
        settled = await shown(ledger, capsys, "show", "chat-3")
        assert "resolved at 2 USD by USAGE, revision 1\n" in settled
        assert "attempt 1 of generation 1, inferred from evidence\n" in settled
        assert "delivery    -         nothing is known of it\n" in settled
        assert re.search(r"resolution +USAGE +2 USD, digest D, revision 1\n", settled)
        assert re.search(r"entry +SETTLE +AVAILABLE 1, HELD -3, SPENT 2\n", settled)
        failed = hold_pb2.RecordFailedBeforeDispatchRequest(
            idempotency_key="f4", operation_id="chat-4", nonce=NONCE, cause=REFUSED
        )
        await ledger.gateway.holds.RecordFailedBeforeDispatch(failed)
        waiting = await shown(ledger, capsys, "show", "chat-4")
        assert "it failed before anything was sent (CONNECTION_REFUSED); another may be begun" in waiting
        assert "execution   NOT_SENT" in waiting
        document = json.loads(await shown(ledger, capsys, "show", "chat-4", "--json"))
        assert document["hold"]["attempt"]["failed_before_dispatch"] == "NEVER_SENT_CAUSE_CONNECTION_REFUSED"
        assert [event["kind"].removeprefix("HOLD_EVENT_KIND_") for event in document["events"]] == [
            "COMMAND", "ATTEMPT", "ENTRY", "COMMAND", "EXECUTION",
        ]  # fmt: skip


async def test_the_unknown_ones_are_listed_with_age_amount_and_what_to_do(
    database_url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving(database_url, tmp_path) as ledger:
        await tell(ledger)
        monkeypatch.setenv(TOKEN_VARIABLE, ledger.token("acme", Role.GATEWAY))
        text = await shown(ledger, capsys, "list", "--state", "unknown")
        lines = [re.sub(r" {2,}", "  ", line) for line in text.splitlines()]
        advice = "do not send again: evidence of the provider resolves it"
        assert lines[0] == "operation  state  since dispatch  amount  attempt"
        assert [re.sub(r"\d+ s", "AGE", line) for line in lines[1:]] == [
            f"chat-1  OUTCOME_UNKNOWN  AGE  6 USD  2  {advice}",
            f"chat-2  OUTCOME_UNKNOWN  AGE  1 USD  1  {advice}",
        ]
        await ledger.gateway.holds.Reserve(reserve_request("chat-5", "1"))
        reserved = await shown(ledger, capsys, "list", "--state", "reserved")
        assert re.search(r"chat-5 +RESERVED +\(\d+ s\) +1 USD", reserved), "never dispatched: since it was set aside"
        assert await shown(ledger, capsys, "list", "--state", "released") == "There are none.\n"
        found = json.loads(await shown(ledger, capsys, "list", "--group", "g", "--json"))
        assert [(hold["operation_id"], hold["age_seconds"] < 60) for hold in found] == [("chat-1", True)]


async def test_what_cannot_be_shown_says_why(
    database_url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving(database_url, tmp_path) as ledger:
        await tell(ledger)
        monkeypatch.setenv(TOKEN_VARIABLE, ledger.token("acme", Role.GATEWAY))
        for operation, says in (("chat-1", "may not call ListHoldEvents"), ("none", "There is no hold 'none'")):
            arguments = ["hold", "show", "--server", ledger.address, operation]
            assert await asyncio.to_thread(main, arguments) == 2
            assert says in capsys.readouterr().err


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0 s"), (59, "59 s"), (60, "1 min"), (125, "2 min 5 s"), (7_260, "2 h 1 min"), (273_600, "3 d 4 h")],
)
def test_spans(seconds: int, text: str) -> None:
    assert span(seconds) == text
