"""A library that reads provider documents is upgraded between a resolve and its replay."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest
from genai_prices.data import providers

from ledger.usage import normalize
from ledger.usage.extraction import Reader
from ledger.usage.shapes import FLAVORS, Flavor
from ledger.v1 import hold_pb2
from tests.service.harness import metered, put_card, refusal, sending_request, serving

DOCUMENT = (
    '{"model": "gpt-5", "usage": {"prompt_tokens": 1000, "completion_tokens": 50,'
    ' "prompt_tokens_details": {"cached_tokens": 400}}}'
)


def resolve(key: str, document: str = DOCUMENT) -> hold_pb2.ResolveRequest:
    usage = hold_pb2.UsageEvidence(
        source=hold_pb2.EVIDENCE_SOURCE_PROVIDER_RESPONSE,
        provider="openai",
        adapter="sdk",
        adapter_revision=key,
        provider_usage=hold_pb2.ProviderUsage(api_flavor="openai.chat", json=document),
    )
    return hold_pb2.ResolveRequest(idempotency_key=key, operation_id="op-1", usage=usage)


def upgrade(monkeypatch: pytest.MonkeyPatch) -> None:
    """The extractor of another release, in which what was read from the cache is not told apart."""
    (openai,) = (p for p in providers if p.id == "openai")
    (chat,) = (e for e in openai.extractors or () if e.api_flavor == "chat")
    less = replace(chat, mappings=[m for m in chat.mappings if m.dest != "cache_read_tokens"])
    flavors = cast(dict[str, Flavor], FLAVORS)
    monkeypatch.setitem(flavors, "openai.chat", flavors["openai.chat"]._replace(reader=Reader(less)))


def break_down(monkeypatch: pytest.MonkeyPatch) -> None:
    """A release without the flavour."""
    monkeypatch.delitem(cast(dict[str, Flavor], FLAVORS), "openai.chat")


@pytest.mark.parametrize("change", [upgrade, break_down])
async def test_the_same_document_is_the_same_resolution(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: object
) -> None:
    async with serving(database_url, tmp_path) as ledger:
        await ledger.budget()
        await put_card(ledger)
        quote = metered(input_tokens=2_000, output_tokens=100)
        await ledger.gateway.holds.Reserve(sending_request("op-1", quote=quote))
        settled = await ledger.gateway.holds.Resolve(resolve("k1"))
        # 600 * 1.25 + 400 * 0.125 + 50 * 10, by the million
        assert settled.hold.resolution.amount.amount == "0.0013"
        before: Mapping[str, int] = dict(normalize("openai.chat", DOCUMENT).buckets)
        assert callable(change)
        change(monkeypatch)
        assert dict(normalize("openai.chat", DOCUMENT).buckets) != before
        for key in ("k1", "k2"):
            again = await ledger.gateway.holds.Resolve(resolve(key))
            assert (again.replayed, again.incident_id) == (True, "")
            assert again.hold.resolution == settled.hold.resolution
        # Another document is another fact, and under the first key another request.
        other = DOCUMENT.replace("50", "51")
        assert (await refusal(ledger.gateway.holds.Resolve(resolve("k1", other))))[1] == "IDEMPOTENCY_MISMATCH"


async def test_another_document_that_is_read_otherwise_is_a_conflict(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving(database_url, tmp_path) as ledger:
        await ledger.budget()
        await put_card(ledger)
        quote = metered(input_tokens=2_000, output_tokens=100)
        await ledger.gateway.holds.Reserve(sending_request("op-1", quote=quote))
        await ledger.gateway.holds.Resolve(resolve("k1"))
        other = DOCUMENT.replace("50", "51")
        code, reason, facts = await refusal(ledger.gateway.holds.Resolve(resolve("k2", other)))
        assert (code, reason) == ("FAILED_PRECONDITION", "RESOLUTION_CONFLICT")
        assert (facts["amount"], facts["amount_in_force"]) == ("0.00131", "0.0013")
