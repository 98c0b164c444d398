"""What a card can say: ranges, windows of the day, regions, names, buckets."""

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest

from ledger.domain.cards import GROUP_OF_BUCKET, GROUPS, PriceCard, Rate, covers, minutes
from ledger.domain.explain import explain
from ledger.domain.money import ZERO, total
from ledger.domain.pricing import price
from ledger.domain.quotes import Quote, QuoteKind, QuoteSpec, quote
from ledger.domain.refusals import Refusal

NOON = datetime(2025, 3, 1, 12, tzinfo=UTC)


def rate(bucket: str, per_million: str, **more: Any) -> Rate:
    return Rate(bucket, more.pop("tier", "standard"), more.pop("above", 0), Decimal(per_million), 10**6, **more)


def card(*rates: Rate, aliases: tuple[str, ...] = (), regions: tuple[tuple[str, Decimal], ...] = ()) -> PriceCard:
    return PriceCard("t", "c", 1, "acme", "gpt", aliases, "USD", rates, 10_000, 10_000, regions=regions)


def quoted(made: PriceCard, region: str = "", choices: int = 1, /, **ceilings: int) -> Quote | Refusal:
    spec = QuoteSpec(
        QuoteKind.METERED, ZERO, "c", region=region, ceilings=tuple(sorted(ceilings.items())), choices=choices
    )
    return quote(spec, made, NOON)


def amount(made: PriceCard, at: datetime | None = None, /, **buckets: int) -> Decimal:
    lines, reasons = price(made, buckets, "standard", at)
    assert reasons == ()
    return total(line.amount for line in lines)


GRADUATED = card(
    rate("input_tokens", "3", marginal=True),
    rate("input_tokens", "2", above=100, marginal=True),
    rate("input_tokens", "1", above=300, marginal=True),
)


@pytest.mark.parametrize(
    ("tokens", "millionths"), [(1, "3"), (100, "300"), (101, "302"), (300, "700"), (301, "701"), (1000, "1400")]
)
def test_a_marginal_rate_is_for_the_units_beyond_its_threshold(tokens: int, millionths: str) -> None:
    # the first 100 at 3, the next 200 at 2, the rest at 1
    assert amount(GRADUATED, input_tokens=tokens) == Decimal(millionths) / 10**6


def test_each_range_is_a_line_the_lowest_first() -> None:
    lines, _ = price(GRADUATED, {"input_tokens": 350}, "standard")
    assert [(line.quantity, line.rate) for line in lines] == [(100, Decimal(3)), (200, Decimal(2)), (50, Decimal(1))]


def test_ranges_are_quoted_at_the_dearest_that_can_be_reached() -> None:
    rising = card(rate("output_tokens", "1", marginal=True), rate("output_tokens", "5", above=100, marginal=True))
    for ceiling, highest in ((100, "1"), (101, "5")):
        found = quoted(rising, output_tokens=ceiling)
        assert isinstance(found, Quote)
        assert (found.lines[0].rate, found.amount) == (Decimal(highest), ceiling * Decimal(highest) / 10**6)
    mixed = quoted(card(*rising.rates, rate("output_audio_tokens", "4")), output_tokens=100)
    assert isinstance(mixed, Quote)
    assert mixed.lines[0].rate == 4


def test_ranges_that_do_not_begin_at_zero_price_nothing() -> None:
    late = card(rate("input_tokens", "3", above=10, marginal=True))
    assert price(late, {"input_tokens": 20}, "standard") == (
        (),
        ("input_tokens has no price on the card in tier standard",),
    )
    assert isinstance(quoted(late, input_tokens=5), Refusal)


BY_THE_HOUR = card(
    rate("input_tokens", "4"), rate("input_tokens", "1", window="16:30-00:30"), rate("output_tokens", "2")
)


@pytest.mark.parametrize(
    ("at", "millionths"), [("16:29", 4), ("16:30", 1), ("23:59", 1), ("00:00", 1), ("00:29", 1), ("00:30", 4)]
)
def test_a_window_replaces_the_rate_while_it_lasts(at: str, millionths: int) -> None:
    moment = datetime.fromisoformat(f"2025-03-01T{at}:59+00:00")
    assert amount(BY_THE_HOUR, moment, input_tokens=1) == Decimal(millionths) / 10**6
    elsewhere = datetime.fromisoformat(f"2025-03-01T{at}:00+00:00").astimezone()
    assert amount(BY_THE_HOUR, elsewhere, input_tokens=1) == Decimal(millionths) / 10**6


def test_without_a_time_only_what_never_changes_has_a_price() -> None:
    assert amount(BY_THE_HOUR, None, output_tokens=1) == Decimal(2) / 10**6
    _, reasons = price(BY_THE_HOUR, {"input_tokens": 1}, "standard")
    assert reasons == ("input_tokens has no price on the card in tier standard",)


def test_a_window_is_quoted_at_the_dearest_time_of_the_day() -> None:
    found = quoted(BY_THE_HOUR, input_tokens=10, output_tokens=0)
    assert isinstance(found, Quote)
    assert found.lines[0].rate == 4


def test_a_time_of_the_day_without_a_rate_has_no_price() -> None:
    nights = card(rate("input_tokens", "1", window="22:00-06:00"))
    assert price(nights, {"input_tokens": 1}, "standard", NOON)[0] == ()


@pytest.mark.parametrize(
    "text", ["", "8:00-9:00", "08:00", "24:00-01:00", "08:60-09:00", "08:00-08:00", "08:00-09:00 "]
)
def test_what_is_no_window(text: str) -> None:
    assert minutes(text) is None
    assert not covers("08:00-09:00", 9 * 60)


REGIONAL = card(
    rate("input_tokens", "3"), rate("web_searches", "10000"), regions=(("us", Decimal("1.1")), ("free", Decimal(0)))
)


def test_a_region_multiplies_the_price_of_tokens_and_of_nothing_else() -> None:
    there = REGIONAL.in_region("us")
    assert there is not None
    assert there is REGIONAL.in_region("us")
    # 100 * 3.3 millionths, and one search at 0.01
    assert amount(there, input_tokens=100, web_searches=1) == Decimal("0.01033")
    free = REGIONAL.in_region("free")
    assert free is not None
    assert amount(free, input_tokens=100) == 0
    assert REGIONAL.in_region("") is REGIONAL
    found = quoted(REGIONAL, "us", input_tokens=100)
    assert isinstance(found, Quote)
    assert (found.amount, found.card_digest) == (Decimal("0.00033"), REGIONAL.digest.hex())


def test_a_region_that_a_card_with_regions_does_not_know_has_no_quote() -> None:
    assert REGIONAL.in_region("moon") is None
    found = quoted(REGIONAL, "moon", input_tokens=1)
    assert isinstance(found, Refusal)
    assert found.metadata == {"field": "quote.metered.region"}
    everywhere = card(rate("input_tokens", "3"))
    assert everywhere.in_region("moon") is everywhere


def test_an_alias_may_stand_for_many_names() -> None:
    made = card(rate("input_tokens", "1"), aliases=("gpt-4o", "gpt-4o-2024*", "*/gpt-4o"))
    assert made.models == {"gpt", "gpt-4o"}
    names = {
        "gpt": 1,
        "gpt-4o": 1,
        "GPT-4O-2024-08-06": 1,
        "openai/gpt-4o": 1,
        "gpt-4o-mini": 0,
        "openai/gpt-4o-mini": 0,
    }
    assert {name: int(made.serves(name)) for name in names} == names


def test_reasoning_is_output_unless_it_is_priced_apart() -> None:
    usage = {"output_tokens": 584, "output_reasoning_tokens": 1360}
    lines, _ = price(card(rate("output_tokens", "180")), usage, "standard")
    assert [(line.bucket, line.quantity) for line in lines] == [("output_tokens", 1944)]
    apart = card(rate("output_tokens", "180"), rate("output_reasoning_tokens", "10"))
    lines, _ = price(apart, usage, "standard")
    assert [(line.bucket, line.quantity) for line in lines] == [
        ("output_reasoning_tokens", 1360),
        ("output_tokens", 584),
    ]


def test_each_choice_may_be_as_long_as_the_model_can() -> None:
    made = card(rate("input_tokens", "1"), rate("output_tokens", "2"))
    found = quoted(made, "", 3, input_tokens=10, output_tokens=20_000)
    assert isinstance(found, Quote)
    assert [(line.group, line.quantity) for line in found.lines] == [("input_tokens", 10), ("output_tokens", 30_000)]
    assert found.clamped == ("output_tokens",)
    endless = PriceCard("t", "c", 1, "acme", "gpt", (), "USD", made.rates)
    found = quoted(endless, "", 3, input_tokens=10, output_tokens=20)
    assert isinstance(found, Quote)
    assert found.lines[1].quantity == 60
    assert isinstance(quoted(endless, "", 3, input_tokens=10), Refusal)


def test_every_bucket_can_be_priced_and_quoted() -> None:
    made = card(*(rate(bucket, str(number + 1)) for number, bucket in enumerate(GROUP_OF_BUCKET)))
    found = quoted(made, **dict.fromkeys(GROUPS, 7))
    assert isinstance(found, Quote)
    for number, bucket in enumerate(GROUP_OF_BUCKET):
        assert amount(made, **{bucket: 7}) == Decimal(7 * (number + 1)) / 10**6
        assert amount(made, **{bucket: 7}) <= found.amount


def test_what_a_card_says_beyond_the_simple_is_in_its_document_and_digest() -> None:
    simple = card(rate("input_tokens", "3"))
    assert simple.to_document().keys() == {
        "provider", "model", "aliases", "currency", "rates", "max_input_tokens", "max_output_tokens", "valid_from", "valid_until",
    }  # fmt: skip
    assert simple.to_document()["rates"] == [
        {"bucket": "input_tokens", "tier": "standard", "above": "0", "price": "3", "per": "1000000"}
    ]
    digests = {simple.digest}
    for other in (
        card(rate("input_tokens", "3", marginal=True)),
        card(rate("input_tokens", "3", window="08:00-09:00")),
        card(rate("input_tokens", "3"), regions=(("us", Decimal("1.10")),)),
    ):
        assert PriceCard.from_document("t", "c", 1, other.to_document()) == other
        digests.add(other.digest)
    assert len(digests) == 4


def test_an_explanation_names_the_rate_and_where_the_ceiling_comes_from() -> None:
    made = card(
        rate("input_tokens", "1"),
        rate("cache_write_tokens", "3", above=100),
        rate("output_tokens", "2", marginal=True),
        rate("output_tokens", "4", marginal=True, above=50, window="22:00-06:00"),
        rate("web_searches", "9"),
    )
    spec = QuoteSpec(QuoteKind.METERED, ZERO, "c", ceilings=(("input_tokens", 101), ("output_tokens", 20_000)))
    found = quote(spec, made, NOON)
    assert isinstance(found, Quote)
    assert explain(spec, made, found) == (
        "input_tokens: 101 (as asked) at 3 for 1000000, the price of cache_write_tokens in tier standard beyond 100 tokens of "
        "prompt: 0.000303 USD",
        "output_tokens: 10000 (the model's own limit, lowered from 20000) at 4 for 1000000, the price of output_tokens in tier "
        "standard beyond 50 of them from 22:00-06:00 UTC: 0.04 USD",
        "web_searches: 0 (not asked for) at 9 for 1000000, the price of web_searches in tier standard: 0 USD",
    )
    unbounded = quote(QuoteSpec(QuoteKind.METERED, ZERO, "c"), made, NOON)
    assert isinstance(unbounded, Quote)
    first = explain(QuoteSpec(QuoteKind.METERED, ZERO, "c"), made, unbounded)[0]
    assert first.startswith("input_tokens: 10000 (the model's own limit) at 3")


def test_everything_that_is_missing_is_said_at_once() -> None:
    made = PriceCard("t", "c", 1, "acme", "gpt", (), "USD", (rate("input_tokens", "1"), rate("output_tokens", "2")))
    found = quoted(made)
    assert isinstance(found, Refusal)
    assert found.message.startswith("input_tokens and output_tokens have no ceiling: give one")
    assert found.metadata == {"field": "quote.metered.ceilings[input_tokens]"}


def test_a_request_is_one_at_least_and_says_so() -> None:
    made = card(rate("requests", "5"))
    for ceilings, said in (((), "1 (a request is one at least)"), ((("requests", 3),), "3 (as asked)")):
        spec = QuoteSpec(QuoteKind.METERED, ZERO, "c", ceilings=ceilings)
        found = quote(spec, made, NOON)
        assert isinstance(found, Quote)
        assert explain(spec, made, found)[0].startswith(f"requests: {said} at 5 for 1000000")


def test_a_fixed_quote_is_as_it_was_given() -> None:
    spec = QuoteSpec(QuoteKind.FIXED, ZERO, amount=Decimal("2.50"), currency="EUR", provider="psp", reason="agreed")
    found = quote(spec, None, NOON)
    assert isinstance(found, Quote)
    assert explain(spec, None, found) == ("2.5 EUR as given: agreed",)
