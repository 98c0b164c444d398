"""A call that was asked for in one tier and served in another, and one that passed a ceiling, over gRPC."""

import json
from pathlib import Path
from typing import Any

from ledger.v1 import hold_pb2, price_pb2
from tests.service.harness import Ledger, refusal, sending_request, serving


async def put_card(ledger: Ledger) -> None:
    """gpt-5: 1.25 in and 10 out, in tier priority twice as much."""
    rates = [
        price_pb2.Rate(bucket=bucket, price=price, service_tier=tier)
        for bucket, price, tier in (
            ("input_tokens", "1.25", "standard"),
            ("output_tokens", "10", "standard"),
            ("input_tokens", "2.5", "priority"),
            ("output_tokens", "20", "priority"),
        )
    ]
    card = price_pb2.PriceCard(
        card_id="gpt-5", provider="openai", model="gpt-5", aliases=["gpt-5-2025*"], currency="USD", rates=rates
    )
    await ledger.finance.prices.PutPriceCard(price_pb2.PutPriceCardRequest(idempotency_key="card", card=card))


def served(prompt: int, completion: int, key: str, **said: str) -> hold_pb2.ResolveRequest:
    """A chat completion as the provider sends it; `said` is what else is in it."""
    body: dict[str, Any] = {"usage": {"prompt_tokens": prompt, "completion_tokens": completion}}
    usage = hold_pb2.UsageEvidence(
        source=hold_pb2.EVIDENCE_SOURCE_PROVIDER_RESPONSE,
        provider="openai",
        provider_usage=hold_pb2.ProviderUsage(api_flavor="openai.chat", json=json.dumps(body | said)),
    )
    return hold_pb2.ResolveRequest(idempotency_key=key, operation_id="op-1", usage=usage)


async def test_served_by_another_tier_or_model(database_url: str, tmp_path: Path) -> None:
    async with serving(database_url, tmp_path) as ledger:
        await ledger.budget()
        await put_card(ledger)
        asked = hold_pb2.MeteredQuote(
            card_id="gpt-5", service_tier="priority", ceilings={"input_tokens": 1000, "output_tokens": 100}
        )
        await ledger.gateway.holds.Reserve(sending_request("op-1", quote=hold_pb2.QuoteSpec(metered=asked)))
        holds = ledger.gateway.holds
        for said, reason in (
            ({"model": "gpt-5-mini"}, "served model gpt-5-mini is not gpt-5 or one of its aliases"),
            ({"model": "gpt-5", "service_tier": "flex"}, "served tier flex is not in the quote"),
        ):
            _, refused, facts = await refusal(holds.Resolve(served(1000, 100, "a", **said)))
            assert (refused, facts["reasons"], facts["state"]) == ("EVIDENCE_REJECTED", reason, "DISPATCHING")
        # Asked for priority, served default: 1,100 * 1.25 + 50 * 10, by the million. The prompt is above its ceiling.
        done = await holds.Resolve(served(1100, 50, "b", model="gpt-5-2025-08-07", service_tier="default"))
        assert done.hold.resolution.amount.amount == "0.001875"
        listed = await ledger.auditor.holds.ListResolutions(hold_pb2.ListResolutionsRequest(operation_id="op-1"))
        (resolution,) = listed.resolutions
        assert list(resolution.passed_ceilings) == ["input_tokens"]
        assert not resolution.HasField("cost_over_hold")
