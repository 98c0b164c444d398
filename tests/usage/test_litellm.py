"""LiteLLM's price map: each field in its place, or said to have none."""

import json
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest

from ledger.domain.money import plain
from ledger.usage.catalogue import CatalogueError
from ledger.usage.imports import Entry, genai_entries, label, sane
from ledger.usage.litellm import litellm_entries, read_litellm
from tests.recordings import DATA, needs_recordings

NOW = datetime(2026, 6, 1, tzinfo=UTC)


def entry(name: str = "m", allow: tuple[str, ...] = (), text: str = "", **fields: Any) -> Entry:
    written = text or json.dumps({name: {"litellm_provider": "p"} | fields})
    (found,) = litellm_entries(read_litellm(written))
    return sane(found, allow)


def rates(found: Entry) -> dict[str, str]:
    """The rates that are not of a kind of input without a price of its own; all are for a million."""
    assert found.card is not None
    assert {rate.per for rate in found.card.rates} == {1_000_000}
    kinds = ("audio", "image", "video", "cache")
    return {label(r): plain(r.price) for r in found.card.rates if not any(kind in r.bucket for kind in kinds)}


def test_prices_of_one_are_written_for_a_million() -> None:
    found = entry(
        input_cost_per_token=3e-06, output_cost_per_token=1.5e-05, max_input_tokens=200000, max_output_tokens=64000.0
    )
    assert rates(found) == {"input_tokens in tier standard": "3", "output_tokens in tier standard": "15"}
    assert found.card is not None
    assert (found.card.card_id, found.card.model, found.card.aliases) == ("p/m", "m", ())
    assert (found.card.max_input_tokens, found.card.max_output_tokens) == (200000, 64000)
    assert (found.reasons, found.unsaid, found.rounded) == ((), (), ())


def test_a_kind_of_input_costs_what_it_is_a_kind_of() -> None:
    found = entry(input_cost_per_token=3e-06, cache_creation_input_token_cost=4e-06, input_cost_per_audio_token=9e-06)
    assert found.card is not None
    assert {r.bucket: plain(r.price) for r in found.card.rates} == {
        "input_tokens": "3", "input_audio_tokens": "9", "input_image_tokens": "3", "input_video_tokens": "3",
        "cache_read_tokens": "3", "cache_audio_read_tokens": "3", "cache_image_read_tokens": "3", "cache_video_read_tokens": "3",
        "cache_write_tokens": "4", "cache_write_1h_tokens": "4", "cache_audio_write_tokens": "4",
    }  # fmt: skip


def test_thresholds_and_tiers_are_in_the_names_of_fields() -> None:
    found = entry(
        input_cost_per_token=1e-06, input_cost_per_token_above_200k_tokens=2e-06, input_cost_per_token_batches=5e-07,
        output_cost_per_token=4e-06, output_cost_per_token_above_200k_tokens_priority=9e-06, output_cost_per_token_priority=6e-06,
    )  # fmt: skip
    assert rates(found) == {
        "input_tokens in tier standard": "1",
        "input_tokens in tier standard beyond 200000": "2",
        "input_tokens in tier batch": "0.5",
        # What a tier has no price for costs what it costs otherwise.
        "input_tokens in tier priority": "1",
        "input_tokens in tier priority beyond 200000": "2",
        "output_tokens in tier standard": "4",
        "output_tokens in tier batch": "4",
        "output_tokens in tier priority": "6",
        "output_tokens in tier priority beyond 200000": "9",
    }


def test_a_cache_write_for_an_hour_has_no_threshold_of_an_hour() -> None:
    found = entry(
        input_cost_per_token=1e-06, cache_creation_input_token_cost_above_1hr=2e-06,
        cache_creation_input_token_cost_above_1hr_above_200k_tokens=4e-06,
    )  # fmt: skip
    assert found.card is not None
    hour = [(r.above, plain(r.price)) for r in found.card.rates if r.bucket == "cache_write_1h_tokens"]
    assert hour == [(0, "2"), (200000, "4")]


def test_ranges_of_the_prompt_are_thresholds() -> None:
    ranges = [
        {"range": [0, 256000.0], "input_cost_per_token": 5e-08, "output_cost_per_reasoning_token": 4e-07},
        {"range": [256000.0, 1e6], "input_cost_per_token": 2.5e-07, "output_cost_per_reasoning_token": 2e-06},
    ]
    assert rates(entry(tiered_pricing=ranges)) == {
        "input_tokens in tier standard": "0.05",
        "input_tokens in tier standard beyond 256000": "0.25",
        "output_reasoning_tokens in tier standard": "0.4",
        "output_reasoning_tokens in tier standard beyond 256000": "2",
    }


def test_fees_by_their_unit() -> None:
    found = entry(
        input_cost_per_token=0, input_cost_per_request=0.005, file_search_cost_per_1k_calls=2.5, output_cost_per_image=0.04,
        search_context_cost_per_query={"low": 0.01, "medium": 0.01, "high": 0.01}, ocr_cost_per_page=0.001,
    )  # fmt: skip
    assert found.card is not None
    prices = {r.bucket: plain(r.price / r.per) for r in found.card.rates}
    expected = {"requests": "0.005", "storage_searches": "0.0025", "output_images": "0.04", "web_searches": "0.01"}
    assert prices | expected == prices
    assert prices["input_document_pages"] == "0.001"
    for mode, bucket in (("rerank", "rerank_searches"), ("search", "web_searches")):
        assert rates(entry(mode=mode, input_cost_per_query=0.002)) == {f"{bucket} in tier standard": "2000"}


def test_factors_by_region() -> None:
    found = entry(
        input_cost_per_token=1e-06,
        regional_processing_uplift_multiplier_eu=1.1,
        provider_specific_entry={"us": 1.2, "fast": 6.0},
    )
    assert found.card is not None
    assert [(region, plain(factor)) for region, factor in found.card.regions] == [("eu", "1.1"), ("us", "1.2")]
    assert found.unsaid == ("provider_specific_entry.fast has no place on a card",)


def test_what_has_no_place_on_a_card_is_said() -> None:
    found = entry(
        input_cost_per_token=1e-06, input_cost_per_second=0.01, off_peak_pricing={"windows": []},
        input_cost_per_token_cache_hit=2e-06, cache_read_input_token_cost=1e-07,
        search_context_cost_per_query={"low": 0.01, "high": 0.02}, tiered_pricing=[{"range": [0, 1], "max_results_range": [0, 2]}],
        supports_vision=True, metadata={"notes": "x"},
    )  # fmt: skip
    assert found.card is not None
    assert set(found.unsaid) == {
        "input_cost_per_second has no place on a card",
        "off_peak_pricing has no place on a card",
        "input_cost_per_token_cache_hit is not cache_read_input_token_cost, which is on the card",
        "search_context_cost_per_query depends on the size of the context: searches have no price on the card",
        "tiered_pricing.max_results_range has no place on a card",
    }
    nothing = entry(input_cost_per_second=0.01)
    assert (nothing.card, nothing.reasons) == (None, ("no price of it fits a card",))
    assert nothing.unsaid == ("input_cost_per_second has no place on a card",)


def test_noise_behind_the_twelfth_digit_is_read_away_and_reported() -> None:
    found = entry(text='{"m": {"litellm_provider": "p", "output_cost_per_token": 2.5000000000000002e-06}}')
    assert rates(found) == {"output_tokens in tier standard": "2.5"}
    assert found.rounded == ("output_tokens in tier standard: 2.5000000000000002 is read as 2.5",)
    assert entry(output_cost_per_token=1.23456789012e-06).rounded == ()


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ('"input_cost_per_token": -1e-6', "input_cost_per_token is '-0.000001', which is not a price"),
        ('"input_cost_per_token": NaN', "input_cost_per_token is 'NaN', which is not a price"),
        ('"input_cost_per_token": Infinity', "input_cost_per_token is 'Infinity', which is not a price"),
        ('"input_cost_per_token": "1,5"', "input_cost_per_token is '1,5', which is not a price"),
        ('"input_cost_per_token": true', "input_cost_per_token is 'True', which is not a price"),
        (
            '"input_cost_per_token": 1e-6, "max_input_tokens": NaN',
            "max_input_tokens is 'NaN', which is not a number of tokens",
        ),
        (
            '"input_cost_per_token": 1e-6, "max_output_tokens": 1.5',
            "max_output_tokens is '1.5', which is not a number of tokens",
        ),
    ],
)
def test_what_is_no_price_or_limit_is_refused(fields: str, reason: str) -> None:
    found = entry(text=f'{{"m": {{"litellm_provider": "p", {fields}}}}}', allow=("m",))
    assert (found.card, found.reasons) == (None, (reason,))


def test_a_rate_above_a_tenth_of_a_dollar_is_refused_unless_it_is_allowed_by_name() -> None:
    assert entry(input_cost_per_token=0.1).card is not None
    dear = entry(output_cost_per_token=0.11)
    assert dear.card is None
    assert dear.reasons == ("output_tokens in tier standard: 110000 for 1000000 is above 0.1 USD per token",)
    assert entry(output_cost_per_token=0.11, allow=("other",)).card is None
    assert entry(output_cost_per_token=0.11, allow=("m",)).card is not None
    assert entry(output_cost_per_image=0.5).card is not None


@pytest.mark.parametrize("text", ["", "[]", "3", "[" * 100_000])
def test_what_is_no_price_map(text: str) -> None:
    with pytest.raises(CatalogueError, match="the price map is not"):
        read_litellm(text)


@pytest.mark.parametrize(
    "fields",
    [
        {"tiered_pricing": 3}, {"tiered_pricing": [3]}, {"tiered_pricing": [{"range": [], "input_cost_per_token": 1}]},
        {"tiered_pricing": [{"range": ["x"], "input_cost_per_token": 1}]}, {"provider_specific_entry": [1]},
    ],
)  # fmt: skip
def test_fields_in_another_form_are_refused(fields: dict[str, Any]) -> None:
    found = entry(input_cost_per_token=1e-06, **fields)
    assert found.card is None
    assert found.reasons[0].startswith("its fields are in another form: ")


def test_an_entry_without_a_provider_and_names_that_begin_with_a_sign() -> None:
    assert entry(text='{"m": {"mode": "chat"}}').reasons == ("it names no provider",)
    assert entry(text='{"m": 3}').reasons == ("it names no provider",)
    for name, model, aliases in (("p/x", "x", ("p/x",)), ("p/@cf/x", "p/@cf/x", ("*@cf/x",))):
        found = entry(name, input_cost_per_token=0)
        assert found.card is not None
        assert (found.card.card_id, found.card.model, found.card.aliases) == (name, model, aliases)


def test_the_models_of_genai_prices_and_their_next_change() -> None:
    prices = [
        {"prices": {"output_mtok": 1}},
        {"constraint": {"start_date": "2026-09-01"}, "prices": {"output_mtok": 2}},
    ]
    models = [
        {"id": "m", "match": {"equals": "m"}, "prices": prices},
        {"id": "n", "match": {"equals": "n"}, "prices": {"audio_hours": 1}},
    ]
    text = json.dumps([{"id": "p", "name": "P", "api_pattern": "x", "models": models}])
    changing, refused = genai_entries(text, NOW)
    assert changing.card is not None
    assert (changing.name, changing.unsaid) == ("p/m", ("its prices change on 2026-09-01: import again then",))
    assert (refused.card, refused.reasons) == (None, ("no price of it fits a card",))
    assert refused.unsaid == ("standard tier: audio_hours has no bucket",)
    assert sane(refused, ()) == refused


def test_a_model_with_a_price_that_is_none_is_refused_alone() -> None:
    good = {"id": "m", "match": {"equals": "m"}, "prices": {"output_mtok": 1}}
    text = json.dumps([{"id": "p", "name": "P", "api_pattern": "x", "models": [good | {"id": "bad"}, good]}])
    found = genai_entries(text.replace('"output_mtok": 1', '"output_mtok": -1', 1), NOW)
    assert {each.name: each.reasons for each in found} == {
        "p/bad": (
            "p/bad/prices/output_mtok must be a decimal number, without a sign, such as 0.0000001 or 1e-7, not '-1'",
        ),
        "p/m": (),
    }


@needs_recordings
def test_every_entry_of_the_map_is_accounted_for() -> None:
    document = read_litellm((DATA / "litellm_prices.json").read_text())
    found = [sane(each, ()) for each in litellm_entries(document)]
    assert [each.name for each in found] == list(document)
    assert all((each.card is None) == bool(each.reasons) for each in found)
    priced = {
        name for name, fields in document.items() if isinstance(fields.get("input_cost_per_token"), int | Decimal)
    }
    assert {each.name for each in found if each.card is None} & priced == {"sample_spec"}
