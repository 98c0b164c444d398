"""spend-ledger watch, against a running ledger; that its lines survive a kill is the acceptance tests' to show."""

import asyncio
import re
from pathlib import Path

import pytest

from ledger.cli import main
from ledger.client import Ledger as Sdk
from ledger.client.calling import TOKEN_VARIABLE
from ledger.domain.model import Role
from ledger.holds.watching import _as_text
from ledger.v1 import feed_pb2, hold_pb2
from tests.service.harness import put_card, resolve_request, sending_request, serving

TOLD = """
budget       team  version 1, limit 100 USD
entry        OPEN  team#0
price_card   gpt-5  version 1
hold         chat-1  - → DISPATCHING  6 USD
hold         chat-1  DISPATCHING → OUTCOME_UNKNOWN  6 USD
observation  chat-1  execution UNKNOWN
observation  chat-1  delivery PARTIAL
hold         chat-1  OUTCOME_UNKNOWN → SETTLED  6 USD, settled at 5.5
"""


async def test_events_in_words(database_url: str, tmp_path: Path) -> None:
    async with serving(database_url, tmp_path) as ledger:
        await ledger.budget()
        await put_card(ledger)
        holds = ledger.gateway.holds
        await holds.Reserve(sending_request("chat-1", "6"))
        await holds.MarkOutcomeUnknown(
            hold_pb2.MarkOutcomeUnknownRequest(idempotency_key="u", operation_id="chat-1", observation="stream cut")
        )
        await holds.RecordDelivery(
            hold_pb2.RecordDeliveryRequest(
                idempotency_key="d", operation_id="chat-1", delivery=hold_pb2.DELIVERY_PARTIAL
            )
        )
        await holds.Resolve(resolve_request("chat-1", "5.50"))
        lines: list[str] = []
        async with Sdk.connect(ledger.address, ledger.token("acme", Role.AUDITOR)) as sdk, asyncio.timeout(10):
            async for response in sdk.watch():
                lines += _as_text(response)
                if len(lines) >= 8:
                    break
    assert [re.sub(r"^\S+ \S+Z  ", "", line) for line in lines] == TOLD.strip().splitlines()
    assert list(_as_text(feed_pb2.WatchResponse())) == []


async def test_a_ledger_that_refuses_ends_it(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async with serving(database_url, tmp_path) as ledger:
        monkeypatch.setenv(TOKEN_VARIABLE, ledger.token("acme", Role.AUDITOR))
        command = ["watch", "--server", ledger.address, "--resume", "nothing"]
        assert await asyncio.to_thread(main, command) == 2
    assert "resume_token must be a resume_token that a Watch of this tenant gave" in capsys.readouterr().err
