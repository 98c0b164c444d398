"""Cases from the field: what a usage costs. Cards, holds and usage documents over the real service and database.

Amounts are worked out by hand: quantity x rate, per million unless said otherwise, in USD.
"""

import asyncio
from typing import Any

import pytest

from ledger.client import connect
from ledger.usage import merge_stream
from ledger.v1 import hold_pb2
from tests.acceptance.harness import refused
from tests.acceptance.tenant import RESPONSE, Tenant, metered

CLAUDE = (
    "input_tokens 3", "cache_read_tokens 0.3", "cache_write_tokens 3.75", "cache_write_1h_tokens 6", "output_tokens 15",
    "web_searches 10 per 1000",
)  # fmt: skip
GPT_4O = ("input_tokens 2.5", "cache_read_tokens 1.25", "output_tokens 10")
GPT_5 = ("input_tokens 1.25", "cache_read_tokens 0.125", "output_tokens 10")
PRO = ("input_tokens 30", "output_tokens 180")
LONG = (
    "input_tokens 1", "cache_read_tokens 0.1", "cache_write_tokens 1.25", "output_tokens 5",
    "input_tokens 2 above 2000", "cache_read_tokens 0.2 above 2000", "cache_write_tokens 2.5 above 2000",
    "output_tokens 10 above 2000",
)  # fmt: skip
CEILINGS: dict[str, Any] = {"input_tokens": 200_000, "output_tokens": 2_000}

# flavour, card, usage object, amount
PRICES: dict[str, tuple[str, tuple[str, ...], dict[str, Any], str]] = {
    # 3 x 3 + 12 304 x 3.75 + 550 x 15 = 9 + 46 140 + 8 250
    "a cache creation": (
        "anthropic.messages",
        CLAUDE,
        {"input_tokens": 3, "cache_creation_input_tokens": 12_304, "output_tokens": 550},
        "0.054399",
    ),
    # (2 006 - 1 920) x 2.5 + 1 920 x 1.25 + 300 x 10 = 215 + 2 400 + 3 000
    "a cached prefix": (
        "openai.chat",
        GPT_4O,
        {"prompt_tokens": 2_006, "completion_tokens": 300, "prompt_tokens_details": {"cached_tokens": 1_920}},
        "0.005615",
    ),
    # 20 000 x 1.25 + 80 000 x 0.125 = 25 000 + 10 000
    "most of it cached": (
        "openai.chat",
        GPT_5,
        {"prompt_tokens": 100_000, "completion_tokens": 0, "prompt_tokens_details": {"cached_tokens": 80_000}},
        "0.035",
    ),
    # 14 746 x 30 + 1 944 x 180 = 442 380 + 349 920: the reasoning is inside the output
    "reasoning": (
        "openai.chat",
        PRO,
        {
            "prompt_tokens": 14_746,
            "completion_tokens": 1_944,
            "completion_tokens_details": {"reasoning_tokens": 1_360},
        },
        "0.7923",
    ),
    # The whole prompt of 2 600 is above 2 000: 200 x 2 + 2 000 x 0.2 + 400 x 2.5 + 10 x 10 = 400 + 400 + 1 000 + 100
    "a threshold passed by the whole prompt": (
        "openai.chat",
        LONG,
        {
            "prompt_tokens": 2_600,
            "completion_tokens": 10,
            "prompt_tokens_details": {"cached_tokens": 2_000, "cache_write_tokens": 400},
        },
        "0.0019",
    ),
    # 2 000 is not above 2 000: 2 000 x 1 + 10 x 5
    "a threshold reached": ("openai.chat", LONG, {"prompt_tokens": 2_000, "completion_tokens": 10}, "0.00205"),
    # 10 x 3 + 2 x 15; and 3 x 0.01
    "a tool that was used": (
        "anthropic.messages",
        CLAUDE,
        {"input_tokens": 10, "output_tokens": 2, "server_tool_use": {"web_search_requests": 3}},
        "0.03006",
    ),
    "a tool that was declared and not used": (
        "anthropic.messages",
        CLAUDE,
        {"input_tokens": 10, "output_tokens": 2, "server_tool_use": {"web_search_requests": 0}},
        "0.00006",
    ),
}


@pytest.mark.parametrize("case", PRICES)
def test_the_price_of_a_usage(acme: Tenant, case: str) -> None:
    flavor, rates, usage, amount = PRICES[case]
    acme.budget()
    acme.card("m", flavor.partition(".")[0], *rates)
    acme.reserve("op-1", metered("m", **CEILINGS, web_searches=5 if rates == CLAUDE else 0), send=True)
    acme.report("op-1", flavor, {"model": "m", "usage": usage})
    assert acme.stands("op-1") == f"SETTLED {amount}"
    assert acme.balances()["spent"] == amount


def test_more_cached_tokens_than_prompt_tokens_is_no_evidence(acme: Tenant) -> None:
    acme.budget()
    acme.card("m", "openai", *GPT_5)
    acme.reserve("op-1", metered("m", **CEILINGS), send=True)
    usage = {"prompt_tokens": 80_000, "completion_tokens": 0, "prompt_tokens_details": {"cached_tokens": 100_000}}
    with refused("EVIDENCE_REJECTED"):
        acme.report("op-1", "openai.chat", {"model": "m", "usage": usage})
    with refused("EVIDENCE_REJECTED"):
        acme.count("op-1", "openai", input_tokens=-20_000, cache_read_tokens=100_000, output_tokens=0)
    assert acme.stands("op-1") == "DISPATCHING"


def test_thoughts_beside_the_output_are_output(acme: Tenant) -> None:
    """9 x 0.30 + (1 + 21) x 2.50 = 2.7 + 55"""
    acme.budget()
    acme.card("m", "google", "input_tokens 0.30", "output_tokens 2.50")
    acme.reserve("op-1", metered("m", **CEILINGS), send=True)
    usage = {"promptTokenCount": 9, "candidatesTokenCount": 1, "thoughtsTokenCount": 21, "totalTokenCount": 31}
    document = {"modelVersion": "m", "usageMetadata": usage}
    acme.report("op-1", "gemini.generate_content", document, provider="google")
    assert acme.stands("op-1") == "SETTLED 0.0000577"


def test_the_later_values_of_a_stream_replace_the_earlier_ones(acme: Tenant) -> None:
    """25 x 3 + 15 x 15 = 300; adding the 1 of the start would give 315."""
    acme.budget()
    acme.card("m", "anthropic", *CLAUDE)
    acme.reserve("op-1", metered("m", **CEILINGS), send=True)
    document = merge_stream(
        "anthropic.messages",
        [
            {"type": "message_start", "message": {"model": "m", "usage": {"input_tokens": 25, "output_tokens": 1}}},
            {"type": "message_delta", "usage": {"output_tokens": 15}},
            {"type": "message_stop"},
        ],
    )
    assert document is not None
    acme.report("op-1", "anthropic.messages", document)
    assert acme.stands("op-1") == "SETTLED 0.0003"


def test_a_call_is_quoted_by_the_tier_that_was_asked_for_and_priced_by_the_one_that_served(acme: Tenant) -> None:
    acme.budget()
    acme.card(
        "m", "openai", "input_tokens 1", "output_tokens 2", "input_tokens 2 in priority", "output_tokens 4 in priority"
    )
    # Asked for priority: 1 000 x 2 + 100 x 4. Served in the default tier: 100 x 1 + 10 x 2; in priority: 100 x 2 + 10 x 4.
    for served, amount in (("default", "0.00012"), ("priority", "0.00024")):
        quote = metered("m", service_tier="priority", input_tokens=1_000, output_tokens=100)
        assert acme.reserve(served, quote, send=True).hold.amount.amount == "0.0024"
        usage = {"prompt_tokens": 100, "completion_tokens": 10}
        acme.report(served, "openai.chat", {"model": "m", "service_tier": served, "usage": usage})
        assert acme.stands(served) == f"SETTLED {amount}"


async def test_ten_thousand_requests_of_5e_8_come_to_exactly_00005(acme: Tenant) -> None:
    acme.budget(limit="0.0005")
    acme.card("m", "openai", "requests 5e-8 per 1")

    def life(operation: str) -> list[hold_pb2.Command]:
        request = acme.reservation(operation, metered("m", requests=1), send=True)
        usage = hold_pb2.UsageEvidence(source=RESPONSE, provider="openai")
        usage.buckets.quantities["requests"] = 1
        resolve = hold_pb2.ResolveRequest(idempotency_key=f"s-{operation}", operation_id=operation, usage=usage)
        return [hold_pb2.Command(reserve=request), hold_pb2.Command(resolve=resolve)]

    address, token = acme.live.servers[0].address, acme.live.token(acme.name, "gateway")
    async with connect(address, token) as ledger:

        async def thousand(number: int) -> int:
            done = 0
            for part in range(2):
                commands = [command for i in range(500) for command in life(f"op-{number}-{part}-{i}")]
                answer = await ledger.holds.BatchExecute(hold_pb2.BatchExecuteRequest(commands=commands))
                done += sum(result.WhichOneof("result") == "resolve" for result in answer.results)
            return done

        assert await asyncio.gather(*(thousand(number) for number in range(10))) == [1_000] * 10
    assert acme.balances() == {"authority": "0.0005", "spent": "0.0005"}
    # Not one more.
    with refused("INSUFFICIENT_BUDGET"):
        acme.reserve("one-more", metered("m", requests=1))


def test_two_spellings_of_a_price_are_one_card(acme: Tenant) -> None:
    first, second = (acme.card("m", "openai", f"requests {price} per 1").card for price in ("1e-7", "0.0000001"))
    assert (first.version, first.digest) == (second.version, second.digest)
    assert first.rates[0].price == "0.0000001"


@pytest.mark.parametrize("price", ["1,5", "NaN", "", " ", "-1", "Infinity", "1.5 USD", "0x1"])
def test_a_price_that_is_no_exact_number_is_refused_with_its_path(acme: Tenant, price: str) -> None:
    with refused("INVALID_FIELD") as told:
        acme.put_rates("m", "openai", ["input_tokens", "3"], ["output_tokens", price])
    assert told.metadata["field"] == "card.rates[1].price"
