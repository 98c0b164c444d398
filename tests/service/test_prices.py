"""Price cards over gRPC: all that they can say, what a call would be quoted at, and what it is settled at."""

from decimal import Decimal
from pathlib import Path

from ledger.audit.check import check
from ledger.store.database import Database
from ledger.v1 import hold_pb2, price_pb2
from tests.service.harness import fixed, invalid, metered, put_card, refusal, reserve_request, sending_request, serving

RATES = [
    price_pb2.Rate(bucket="input_tokens", price="2"),
    price_pb2.Rate(bucket="input_tokens", price="4", above_input_tokens=1000, inclusive=True),
    price_pb2.Rate(bucket="cache_write_1h_tokens", price="5"),
    price_pb2.Rate(bucket="output_tokens", price="8", marginal=True),
    price_pb2.Rate(bucket="output_tokens", price="6", marginal=True, above_input_tokens=100),
    price_pb2.Rate(bucket="output_audio_tokens", price="20", window="16:30-00:30"),
    price_pb2.Rate(bucket="output_audio_tokens", price="30"),
    price_pb2.Rate(bucket="requests", price="5", per=1000),
    price_pb2.Rate(bucket="code_executions", price="0.03", per=1),
]


def full() -> price_pb2.PriceCard:
    return price_pb2.PriceCard(
        card_id="full", provider="openai", model="gpt-5", aliases=["gpt-5-2025*", "*/gpt-5"], currency="USD", rates=RATES,
        max_input_tokens=2000, max_output_tokens=500, region_multipliers={"us": "1.1", "eu": "1.20"},
    )  # fmt: skip


async def test_a_card_comes_back_as_it_was_put(database_url: str, tmp_path: Path) -> None:
    async with serving(database_url, tmp_path) as ledger:
        put = await ledger.finance.prices.PutPriceCard(price_pb2.PutPriceCardRequest(idempotency_key="k", card=full()))
        got = (await ledger.gateway.prices.GetPriceCard(price_pb2.GetPriceCardRequest(card_id="full"))).card
        assert got.digest == put.card.digest
        assert list(got.aliases) == ["*/gpt-5", "gpt-5-2025*"]
        assert dict(got.region_multipliers) == {"us": "1.1", "eu": "1.2"}
        rates = {(r.bucket, r.above_input_tokens, r.window): r for r in got.rates}
        # At least 1000 is more than 999.
        assert rates["input_tokens", 999, ""].price == "4"
        assert not rates["input_tokens", 999, ""].inclusive
        assert rates["output_tokens", 100, ""].marginal
        assert rates["output_audio_tokens", 0, "16:30-00:30"].price == "20"
        assert rates["requests", 0, ""].per == 1000


async def test_a_preview_explains_a_quote_and_sets_nothing_aside(database_url: str, tmp_path: Path) -> None:
    async with serving(database_url, tmp_path) as ledger:
        await ledger.budget()
        await ledger.finance.prices.PutPriceCard(price_pb2.PutPriceCardRequest(idempotency_key="k", card=full()))
        spec = hold_pb2.QuoteSpec(
            metered=hold_pb2.MeteredQuote(
                card_id="full", model="openai/gpt-5", region="us", choices=2,
                ceilings={"input_tokens": 1000, "output_tokens": 900, "code_executions": 3},
            )
        )  # fmt: skip
        preview = await ledger.gateway.prices.PreviewQuote(price_pb2.PreviewQuoteRequest(quote=spec))
        assert list(preview.explanations) == [
            "input_tokens: 1000 (as asked) at 5.5 for 1000000, the price of cache_write_1h_tokens in tier standard, "
            "times 1.1 in region us: 0.0055 USD",
            "output_tokens: 1000 (the model's own limit, lowered from 900, for each of 2 choices) at 33 for 1000000, "
            "the price of output_audio_tokens in tier standard, times 1.1 in region us: 0.033 USD",
            "requests: 1 (a request is one at least) at 5 for 1000, the price of requests in tier standard: 0.005 USD",
            "code_executions: 3 (as asked) at 0.03 for 1, the price of code_executions in tier standard: 0.09 USD",
        ]
        # 1000 * 5.5 + 1000 * 33 millionths, one request at 0.005, three executions at 0.03
        assert preview.quote.amount.amount == "0.1335"
        assert not (await ledger.gateway.holds.ListHolds(hold_pb2.ListHoldsRequest())).holds
        held = await ledger.gateway.holds.Reserve(reserve_request("op", quote=spec))
        assert held.hold.amount == preview.quote.amount
        got = await ledger.gateway.holds.GetHold(hold_pb2.GetHoldRequest(operation_id="op"))
        assert got.hold.quote == preview.quote
        agreed = await ledger.gateway.prices.PreviewQuote(price_pb2.PreviewQuoteRequest(quote=fixed("2.50")))
        assert list(agreed.explanations) == ["2.5 USD as given: agreed"]


async def test_a_preview_of_what_has_no_quote_says_what_is_missing(database_url: str, tmp_path: Path) -> None:
    async with serving(database_url, tmp_path) as ledger:
        preview = ledger.gateway.prices.PreviewQuote
        assert await refusal(preview(price_pb2.PreviewQuoteRequest(quote=metered()))) == (
            "NOT_FOUND", "NOT_FOUND", {"field": "quote.metered.card_id", "quote.metered.card_id": "gpt-5"},
        )  # fmt: skip
        await put_card(ledger)
        beyond = price_pb2.PreviewQuoteRequest(quote=metered(web_searches=1))
        assert (await refusal(preview(beyond)))[1:] == ("UNQUOTABLE", {"field": "quote.metered.ceilings[web_searches]"})
        many = metered()
        many.metered.choices = 1001
        assert await invalid(preview(price_pb2.PreviewQuoteRequest(quote=many))) == "quote.metered.choices"


async def test_a_hold_is_settled_by_region_range_and_time_of_the_day_and_reprices_from_its_rows(
    database_url: str, tmp_path: Path
) -> None:
    async with serving(database_url, tmp_path) as ledger:
        await ledger.budget()
        await ledger.finance.prices.PutPriceCard(price_pb2.PutPriceCardRequest(idempotency_key="k", card=full()))
        spec = hold_pb2.QuoteSpec(metered=hold_pb2.MeteredQuote(card_id="full", region="us"))
        await ledger.gateway.holds.Reserve(sending_request("op", quote=spec))
        buckets = {"input_tokens": 500, "output_tokens": 150, "output_reasoning_tokens": 50, "output_audio_tokens": 100}
        evidence = hold_pb2.UsageEvidence(
            source=hold_pb2.EVIDENCE_SOURCE_PROVIDER_RESPONSE, provider="openai", model="gpt-5-2025-08-07", adapter="test",
            adapter_revision="1", buckets=hold_pb2.BucketUsage(quantities=buckets),
        )  # fmt: skip
        settled = await ledger.gateway.holds.Resolve(
            hold_pb2.ResolveRequest(idempotency_key="s", operation_id="op", usage=evidence)
        )
        sent = settled.hold.attempt.dispatch_time.ToDatetime()
        minute = 60 * sent.hour + sent.minute
        audio = 20 if minute >= 16 * 60 + 30 or minute < 30 else 30
        # 500 * 2; 200 of output, 100 at 8 and 100 at 6; 100 of audio; all by 1.1; and one request at 0.005
        millionths = (500 * 2 + 100 * 8 + 100 * 6 + 100 * audio) * Decimal("1.1") + 5000
        assert Decimal(settled.hold.resolution.amount.amount) == millionths / 10**6
    database = Database(database_url, pool_size=1)
    try:
        assert [(law.law, law.examples) for law in check(database) if law.violations] == []
    finally:
        database.close()
