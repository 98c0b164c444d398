"""Recorded usages of real providers against the prices that their recorders expect, where the recordings are at hand."""

import json
from datetime import UTC, datetime
from decimal import Decimal

from ledger.domain.cards import GROUP_OF_BUCKET, STANDARD_TIER
from ledger.domain.money import ZERO
from ledger.domain.pricing import price
from ledger.usage import normalize
from ledger.usage.cards import price_card
from ledger.usage.catalogue import read_catalogue
from tests.recordings import DATA, needs_recordings

FLAVORS = {("openai", "chat"): "openai.chat", ("anthropic", "default"): "anthropic.messages"}
# The recorders' prices are those of this day: one model among them had an introductory price until the end of the month.
RECORDED = datetime(2026, 8, 15, tzinfo=UTC)


@needs_recordings
def test_every_priced_recording_agrees_to_the_digit() -> None:
    catalogue = read_catalogue((DATA / "genai_prices_catalogue.json").read_text(), only={"openai", "anthropic"})
    agreeing, defective = 0, []
    for row in json.loads((DATA / "provider_usages.json").read_text()):
        for extractor in [e for extracted in row["extracted"] for e in extracted["extractors"]]:
            provider = extractor["provider_id"]
            flavor = FLAVORS.get((provider, extractor["api_flavor"]))
            if flavor is None or "input_price" not in extractor:
                continue
            read = normalize(flavor, json.dumps(row["body"]))
            if read.defects:
                defective.append((row["body"]["model"], read.defects))
                continue
            model = catalogue[provider].find_model(read.model)
            assert model is not None
            card = price_card(model, provider, RECORDED, tenant="t", card_id="c", served=(read.model,)).card
            assert card is not None
            assert card.serves(read.model)
            lines, reasons = price(card, dict(read.buckets), read.service_tier or STANDARD_TIER)
            assert reasons == ()
            by_group = dict.fromkeys(("input_tokens", "output_tokens", "web_searches"), ZERO)
            for line in lines:
                by_group[GROUP_OF_BUCKET[line.bucket]] += line.amount
            assert by_group["input_tokens"] == Decimal(extractor["input_price"])
            assert by_group["output_tokens"] == Decimal(extractor["output_price"])
            total = extractor.get("total_price")
            assert total is None or sum(by_group.values()) == Decimal(total)
            agreeing += 1
    # In one, a turn was answered by another model, whose tokens are billed beside the totals that the expected price covers.
    assert defective == [
        (
            "claude-sonnet-5",
            (
                "usage.input_tokens is 2482, but usage.iterations adds up to 5046",
                "usage.output_tokens is 166, but usage.iterations adds up to 265",
            ),
        )
    ]
    assert agreeing == 136
