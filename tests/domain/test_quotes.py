"""Quotes and cards, for any card and any usage within the ceilings."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal

from hypothesis import given, settings
from hypothesis import strategies as st

from ledger.domain.cards import GROUP_OF_BUCKET, GROUPS, INPUT_GROUP, OUTPUT_GROUP, STANDARD_TIER, PriceCard, Rate
from ledger.domain.money import ZERO, fits, plain, total
from ledger.domain.pricing import price
from ledger.domain.quotes import Quote, QuoteKind, QuoteSpec, quote
from ledger.domain.refusals import Reason, Refusal

NOW = datetime(2025, 3, 1, 10, tzinfo=UTC)
TIERS = (STANDARD_TIER, "priority", "flex")
PRICES = st.one_of(
    st.decimals(min_value=0, max_value=1000, places=2),
    st.decimals(min_value=0, max_value=1, places=18),
    st.just(Decimal("0.277777777777777778")),
)
WINDOWS = ("", "08:00-16:30", "22:00-02:00")
REGIONS = (("eu", Decimal("1.1")), ("moon", Decimal("0.333333")))
LIMITS = st.none() | st.integers(0, 2000)
TIMES = st.integers(0, 24 * 60).map(lambda minutes: NOW + timedelta(minutes=minutes))


@st.composite
def rates(draw: st.DrawFn) -> list[Rate]:
    """The rates of one bucket and tier: of the whole request or marginal, at any time or by the time of the day."""
    bucket, tier = draw(st.sampled_from(sorted(GROUP_OF_BUCKET))), draw(st.sampled_from(TIERS))
    marginal = draw(st.booleans())
    return [
        Rate(
            bucket, tier, above, draw(PRICES), draw(st.sampled_from([1, 2, 3, 7, 1000, 1_000_000, 10**15])),
            marginal, window,
        )
        for window in draw(st.sets(st.sampled_from(WINDOWS), min_size=1))
        for above in draw(st.sets(st.sampled_from([0, 0, 10, 200, 1000]), min_size=1))
    ]  # fmt: skip


@st.composite
def cards(draw: st.DrawFn) -> PriceCard:
    priced = draw(st.lists(rates(), min_size=1, max_size=8, unique_by=lambda rs: (rs[0].bucket, rs[0].service_tier)))
    return PriceCard(
        "t1", "card", draw(st.integers(1, 9)), "acme", "gpt", tuple(draw(st.lists(st.text(max_size=3), max_size=2))),
        "USD", tuple(rate for each in priced for rate in each), draw(LIMITS), draw(LIMITS),
        draw(st.sampled_from([None, NOW])), draw(st.sampled_from([None, datetime(2026, 1, 1, tzinfo=UTC)])),
        draw(st.sampled_from([(), REGIONS])),
    )  # fmt: skip


@st.composite
def specs(draw: st.DrawFn) -> QuoteSpec:
    ceilings = draw(st.dictionaries(st.sampled_from(GROUPS), st.integers(0, 3000), max_size=4))
    return QuoteSpec(
        QuoteKind.METERED, ZERO, "card", 0, "", draw(st.sampled_from(TIERS)), draw(st.sampled_from(["", "eu", "moon"])),
        ceilings=tuple(sorted(ceilings.items())), choices=draw(st.integers(1, 3)),
    )  # fmt: skip


@settings(max_examples=400, deadline=None)
@given(cards(), specs(), TIMES, st.data())
def test_usage_within_the_ceilings_never_costs_more_than_the_quote(
    card: PriceCard, spec: QuoteSpec, at: datetime, data: st.DataObject
) -> None:
    quoted = quote(spec, card, NOW)
    if isinstance(quoted, Refusal):
        assert quoted.reason is Reason.UNQUOTABLE
        assert quoted.metadata["field"].startswith("quote.metered.")
        return
    buckets: dict[str, int] = {}
    for line in quoted.lines:
        left = line.quantity
        for bucket in data.draw(st.permutations([b for b, group in GROUP_OF_BUCKET.items() if group == line.group])):
            buckets[bucket] = data.draw(st.integers(0, left), bucket)
            left -= buckets[bucket]
    there = card.in_region(quoted.region)
    assert there is not None
    for tier in quoted.service_tiers:
        lines, unpriced = price(there, buckets, tier, at)
        amount = total(line.amount for line in lines)
        assert amount <= quoted.amount
        assert all(line.amount.as_tuple().exponent == -18 for line in lines)
        counted = sum(line.quantity for line in lines)
        assert bool(unpriced) == (counted < sum(buckets.values()))


@settings(max_examples=100, deadline=None)
@given(cards(), specs())
def test_a_quote_says_how_its_amount_came_about(card: PriceCard, spec: QuoteSpec) -> None:
    quoted = quote(spec, card, NOW)
    if isinstance(quoted, Refusal):
        return
    assert fits(quoted.amount)
    assert quoted.amount == total(line.amount for line in quoted.lines)
    assert (quoted.card_version, quoted.card_digest) == (card.version, card.digest.hex())
    assert quoted.service_tier in quoted.service_tiers
    asked = dict(spec.ceilings)
    for line in quoted.lines:
        if line.group == OUTPUT_GROUP and card.max_output_tokens is not None:
            one = min(asked.get(line.group, card.max_output_tokens), card.max_output_tokens)
            assert line.quantity == one * spec.choices
        if line.group == INPUT_GROUP and card.max_input_tokens is not None:
            assert line.quantity == min(asked.get(line.group, card.max_input_tokens), card.max_input_tokens)
            assert (line.group in quoted.clamped) == (asked.get(line.group, 0) > card.max_input_tokens)


@settings(max_examples=100, deadline=None)
@given(cards(), specs())
def test_a_quote_survives_its_document(card: PriceCard, spec: QuoteSpec) -> None:
    quoted = quote(spec, card, NOW)
    if isinstance(quoted, Refusal):
        return
    document = json.loads(json.dumps(quoted.to_document(), sort_keys=True))
    again = Quote.from_document(document)
    assert again == quoted
    assert again.digest == quoted.digest
    assert again.to_document() == quoted.to_document()


@given(st.decimals(0, 1000, places=18), st.decimals(0, 10, places=18), st.text(max_size=5))
def test_a_fixed_quote_survives_its_document(amount: Decimal, tolerance: Decimal, reason: str) -> None:
    spec = QuoteSpec(
        QuoteKind.FIXED, tolerance, amount=amount, currency="EUR", provider="acme", model="gpt", reason=reason
    )
    quoted = quote(spec, None, NOW)
    assert isinstance(quoted, Quote)
    again = Quote.from_document(json.loads(json.dumps(quoted.to_document())))
    assert (again, again.digest) == (quoted, quoted.digest)
    assert (again.amount, again.reason, again.lines) == (amount, reason, ())


@settings(deadline=None)
@given(cards())
def test_a_card_survives_its_document_and_its_digest_is_of_its_content(card: PriceCard) -> None:
    document = json.loads(json.dumps(card.to_document()))
    again = PriceCard.from_document("t2", "other", 7, document)
    assert again.digest == card.digest
    assert again.to_document() == card.to_document()
    assert (again.tenant, again.card_id, again.version, again.models) == ("t2", "other", 7, card.models)
    assert sorted(again.rates) == sorted(card.rates)
    assert replace(card, rates=tuple(reversed(card.rates)), version=99).digest == card.digest
    assert replace(card, currency="EUR").digest != card.digest
    assert replace(card, max_output_tokens=2001).digest != card.digest
    dearer = card.rates[0]._replace(price=card.rates[0].price + 1)
    assert replace(card, rates=(dearer, *card.rates[1:])).digest != card.digest


def test_a_card_is_valid_from_its_first_instant_until_before_its_last() -> None:
    card = PriceCard(
        "t1", "card", 1, "acme", "gpt", (), "USD", (Rate("requests", STANDARD_TIER, 0, Decimal(1), 1),),
        valid_from=datetime(2025, 3, 1, 10, tzinfo=UTC), valid_until=datetime(2025, 3, 1, 11, tzinfo=UTC),
    )  # fmt: skip
    spec = QuoteSpec(QuoteKind.METERED, ZERO, "card")
    instants = [datetime(2025, 3, 1, *at, tzinfo=UTC) for at in ((9, 59, 59), (10, 0, 0), (10, 59, 59), (11, 0, 0))]
    assert [isinstance(quote(spec, card, at), Quote) for at in instants] == [False, True, True, False]


def test_the_document_of_a_quote_reads_as_it_is_written() -> None:
    card = PriceCard(
        "t1", "card", 3, "acme", "gpt", ("b", "a"), "USD",
        (
            Rate("output_tokens", STANDARD_TIER, 0, Decimal("15.0"), 10**6),
            Rate("input_tokens", STANDARD_TIER, 0, Decimal(3), 10**6),
        ),
        max_input_tokens=1000, max_output_tokens=10,
    )  # fmt: skip
    spec = QuoteSpec(
        QuoteKind.METERED,
        Decimal("0.10"),
        "card",
        ceilings=((INPUT_GROUP, 2000),),
        region="eu",
        api_flavor="openai.chat",
    )
    quoted = quote(spec, card, NOW)
    assert isinstance(quoted, Quote)
    assert plain(quoted.amount) == "0.00315"  # 1000 * 3 + 10 * 15 = 3150 millionths
    assert quoted.to_document() == {
        "kind": "METERED",
        "amount": "0.00315",
        "currency": "USD",
        "tolerance": "0.1",
        "provider": "acme",
        "model": "gpt",
        "card": ["card", "3", card.digest.hex()],
        "tier": "standard",
        "tiers": ["standard"],
        "region": "eu",
        "flavor": "openai.chat",
        "lines": [
            ["input_tokens", "1000", "3", "1000000", "0.003"],
            ["output_tokens", "10", "15", "1000000", "0.00015"],
        ],
        "clamped": ["input_tokens"],
        "valid_until": None,
    }
    assert card.to_document()["aliases"] == ["a", "b"]
    assert [r["bucket"] for r in card.to_document()["rates"]] == ["input_tokens", "output_tokens"]
