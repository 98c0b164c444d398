"""Usage bodies and what they cost, worked out by hand: quantity x rate, per million unless said otherwise, in USD."""

import json
from decimal import Decimal
from typing import Any

import pytest

from ledger.domain.cards import STANDARD_TIER, PriceCard, Rate
from ledger.domain.money import ZERO
from ledger.domain.pricing import price
from ledger.usage import merge_stream, normalize


def card(*rates: str) -> PriceCard:
    """A card of lines such as `input_tokens 3`, `web_searches 10 per 1000`, `input_tokens 6 above 2000 in priority`."""
    return PriceCard("t", "c", 1, "p", "m", (), "USD", tuple(_rate(line.split()) for line in rates))


def _rate(words: list[str]) -> Rate:
    bucket, amount, *rest = words
    said = dict(zip(rest[::2], rest[1::2], strict=True))
    return Rate(
        bucket,
        said.get("in", STANDARD_TIER),
        int(said.get("above", "0")),
        Decimal(amount),
        int(said.get("per", "1000000")),
    )


CLAUDE = card(
    "input_tokens 3",
    "cache_read_tokens 0.3",
    "cache_write_tokens 3.75",
    "cache_write_1h_tokens 6",
    "output_tokens 15",
    "web_searches 10 per 1000",
)
GPT_4O = card("input_tokens 2.5", "cache_read_tokens 1.25", "output_tokens 10")
GPT_5 = card("input_tokens 1.25", "cache_read_tokens 0.125", "output_tokens 10")
PRO = card("input_tokens 30", "cache_read_tokens 30", "output_tokens 180")
LONG = card(
    "input_tokens 1",
    "cache_read_tokens 0.1",
    "cache_write_tokens 1.25",
    "output_tokens 5",
    "input_tokens 2 above 2000",
    "cache_read_tokens 0.2 above 2000",
    "cache_write_tokens 2.5 above 2000",
    "output_tokens 10 above 2000",
)
TIERED = card("input_tokens 1", "output_tokens 2", "input_tokens 2 in priority", "output_tokens 4 in priority")
FREE = card("input_tokens 0", "output_tokens 0")
SMALL = card("input_tokens 0.05", "output_tokens 0.4")

# card | flavour | usage object (and what stands beside it) | the price
PRICES: list[tuple[PriceCard, str, dict[str, Any], dict[str, Any], str]] = [
    # 3 x 3 + 12 304 x 3.75 + 550 x 15 = 9 + 46 140 + 8 250
    (
        CLAUDE,
        "anthropic.messages",
        {"input_tokens": 3, "cache_creation_input_tokens": 12304, "output_tokens": 550},
        {},
        "0.054399",
    ),
    # 10 x 3 + 7 x 0.3 + 20 x 3.75 + 10 x 6 + 2 x 15 = 197.1, and 3 searches at 0.01
    (
        CLAUDE,
        "anthropic.messages",
        {
            "input_tokens": 10,
            "cache_read_input_tokens": 7,
            "cache_creation_input_tokens": 30,
            "cache_creation": {"ephemeral_5m_input_tokens": 20, "ephemeral_1h_input_tokens": 10},
            "output_tokens": 2,
            "server_tool_use": {"web_search_requests": 3},
        },
        {},
        "0.0301971",
    ),
    # The search tool was declared and not used: 10 x 3 + 2 x 15
    (
        CLAUDE,
        "anthropic.messages",
        {"input_tokens": 10, "output_tokens": 2, "server_tool_use": {"web_search_requests": 0}},
        {},
        "0.00006",
    ),
    # 86 x 2.5 + 1 920 x 1.25 + 300 x 10 = 215 + 2 400 + 3 000
    (
        GPT_4O,
        "openai.chat",
        {"prompt_tokens": 2006, "completion_tokens": 300, "prompt_tokens_details": {"cached_tokens": 1920}},
        {},
        "0.005615",
    ),
    # 20 000 x 1.25 + 80 000 x 0.125 = 25 000 + 10 000
    (
        GPT_5,
        "openai.chat",
        {"prompt_tokens": 100000, "completion_tokens": 0, "prompt_tokens_details": {"cached_tokens": 80000}},
        {},
        "0.035",
    ),
    # 14 746 x 30 + 1 944 x 180 = 442 380 + 349 920: the 1 360 reasoning tokens are among the 1 944
    (
        PRO,
        "openai.chat",
        {"prompt_tokens": 14746, "completion_tokens": 1944, "completion_tokens_details": {"reasoning_tokens": 1360}},
        {},
        "0.7923",
    ),
    # The whole prompt of 2 600 is above 2 000: 200 x 2 + 2 000 x 0.2 + 400 x 2.5 + 10 x 10 = 400 + 400 + 1 000 + 100
    (
        LONG,
        "openai.chat",
        {
            "prompt_tokens": 2600,
            "completion_tokens": 10,
            "prompt_tokens_details": {"cached_tokens": 2000, "cache_write_tokens": 400},
        },
        {},
        "0.0019",
    ),
    # A prompt of 2 000 is not above 2 000: 2 000 x 1 + 10 x 5
    (LONG, "openai.chat", {"prompt_tokens": 2000, "completion_tokens": 10}, {}, "0.00205"),
    # 2 001 x 2 + 10 x 10
    (LONG, "openai.chat", {"prompt_tokens": 2001, "completion_tokens": 10}, {}, "0.004102"),
    # Served in the default tier: 100 x 1 + 10 x 2; and in the one that was asked for: 100 x 2 + 10 x 4
    (TIERED, "openai.chat", {"prompt_tokens": 100, "completion_tokens": 10}, {"service_tier": "default"}, "0.00012"),
    (TIERED, "openai.chat", {"prompt_tokens": 100, "completion_tokens": 10}, {"service_tier": "priority"}, "0.00024"),
    (FREE, "openai.chat", {"prompt_tokens": 100, "completion_tokens": 10}, {}, "0"),
    (GPT_5, "openai.chat", {"prompt_tokens": 0, "completion_tokens": 0}, {}, "0"),
    # One token at 0.05: nothing is rounded away.
    (SMALL, "openai.chat", {"prompt_tokens": 1, "completion_tokens": 0}, {}, "0.00000005"),
]


def cost(card: PriceCard, flavor: str, document: dict[str, Any]) -> Decimal:
    read = normalize(flavor, json.dumps(document))
    assert read.defects == ()
    lines, reasons = price(card, dict(read.buckets), read.service_tier or STANDARD_TIER)
    assert reasons == ()
    return sum((line.amount for line in lines), ZERO)


@pytest.mark.parametrize(("card", "flavor", "usage", "beside", "amount"), PRICES)
def test_the_price_of_a_usage_body(
    card: PriceCard, flavor: str, usage: dict[str, Any], beside: dict[str, Any], amount: str
) -> None:
    assert cost(card, flavor, beside | {"usage": usage}) == Decimal(amount)


def test_a_stream_is_priced_by_its_last_values() -> None:
    """25 x 3 + 15 x 15 = 300; adding the 1 of the start would give 315."""
    document = merge_stream(
        "anthropic.messages",
        [
            {"type": "message_start", "message": {"model": "m", "usage": {"input_tokens": 25, "output_tokens": 1}}},
            {"type": "message_delta", "usage": {"output_tokens": 15}},
            {"type": "message_stop"},
        ],
    )
    assert document is not None
    assert cost(CLAUDE, "anthropic.messages", document) == Decimal("0.0003")


def test_ten_thousand_small_requests_add_up_exactly() -> None:
    document = {"usage": {"prompt_tokens": 1, "completion_tokens": 0}}
    assert sum((cost(SMALL, "openai.chat", document) for _ in range(10_000)), ZERO) == Decimal("0.0005")


def test_a_bucket_without_a_price_is_not_free() -> None:
    read = normalize(
        "openai.chat",
        '{"usage": {"prompt_tokens": 9, "completion_tokens": 1, "prompt_tokens_details": {"cached_tokens": 5}}}',
    )
    _, reasons = price(TIERED, dict(read.buckets), STANDARD_TIER)
    assert reasons == ("cache_read_tokens has no price on the card in tier standard",)
