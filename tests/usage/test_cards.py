"""Price cards out of a catalogue: exact rates, tiers, dates, and what a card cannot say."""

import json
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest

from ledger.domain.cards import PriceCard
from ledger.domain.money import plain
from ledger.usage.cards import price_card
from ledger.usage.catalogue import CatalogueError, installed_catalogue, read_catalogue

NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)


def catalogue(prices: Any, **model: Any) -> str:
    entry = {"id": "m-1", "match": {"equals": "m-1"}, "prices": prices} | model
    return json.dumps([{"id": "p", "name": "P", "api_pattern": "https://p", "models": [entry]}])


def made(text: str, at: datetime = NOW, served: tuple[str, ...] = ()) -> tuple[PriceCard, tuple[str, ...]]:
    model = read_catalogue(text)["p"].find_model("m-1")
    assert model is not None
    card, _, unsaid = price_card(model, "p", at, tenant="t", card_id="c", served=served)
    assert card is not None
    return card, unsaid


def rates(card: PriceCard) -> list[str]:
    return [f"{r.bucket} {r.service_tier} >{r.above} {plain(r.price)} per {r.per}" for r in card.rates]


@pytest.mark.parametrize("written", ["1e-7", "0.0000001", '"1e-7"', '"0.0000001"', "1E-7", "1.0e-7"])
def test_a_price_is_read_as_it_is_written(written: str) -> None:
    card, _ = made(catalogue({"output_mtok": 0}).replace('"output_mtok": 0', f'"output_mtok": {written}'))
    assert card.rates[0].price == Decimal("0.0000001")


@pytest.mark.parametrize("written", ['"1,5"', "NaN", '"NaN"', "Infinity", '""', '" "', "-1", '"-1"', "true", "[1]"])
def test_a_price_that_is_no_exact_number_is_refused_with_its_path(written: str) -> None:
    text = catalogue({"output_mtok": 0}).replace('"output_mtok": 0', f'"output_mtok": {written}')
    with pytest.raises(CatalogueError, match=r"^p/m-1/prices/output_mtok must be"):
        read_catalogue(text)


@pytest.mark.parametrize(
    "text", ["", "{}", "[1]", '[{"id": "p"}]', catalogue(3), catalogue({}, match={"sounds_like": "m"})]
)
def test_a_text_that_is_no_catalogue_is_refused(text: str) -> None:
    if text == "{}":
        assert read_catalogue(text) == {}
        return
    with pytest.raises(CatalogueError):
        read_catalogue(text)


def test_kinds_of_input_without_a_price_cost_what_they_are_a_kind_of() -> None:
    card, unsaid = made(
        catalogue({"input_mtok": 2, "cache_write_mtok": 2.5, "output_mtok": 8, "web_searches_kcount": 10})
    )
    assert rates(card) == [
        "cache_audio_read_tokens standard >0 2 per 1000000",
        "cache_audio_write_tokens standard >0 2.5 per 1000000",
        "cache_image_read_tokens standard >0 2 per 1000000",
        "cache_read_tokens standard >0 2 per 1000000",
        "cache_video_read_tokens standard >0 2 per 1000000",
        "cache_write_1h_tokens standard >0 2.5 per 1000000",
        "cache_write_tokens standard >0 2.5 per 1000000",
        "input_audio_tokens standard >0 2 per 1000000",
        "input_image_tokens standard >0 2 per 1000000",
        "input_tokens standard >0 2 per 1000000",
        "input_video_tokens standard >0 2 per 1000000",
        "output_tokens standard >0 8 per 1000000",
        "web_searches standard >0 10 per 1000",
    ]
    assert unsaid == ()


def test_a_long_prompt_has_its_own_rate() -> None:
    card, _ = made(
        catalogue({"output_mtok": {"base": 15, "tiers": [{"start": 200000, "price": 22.5}]}}, context_window=1000)
    )
    assert rates(card) == [
        "output_tokens standard >0 15 per 1000000",
        "output_tokens standard >200000 22.5 per 1000000",
    ]
    assert card.max_input_tokens == 1000


def test_a_tier_has_the_standard_prices_that_it_does_not_override() -> None:
    variants = [
        {"when": {"service_tier": "default"}, "prices": {}},
        {"when": {"service_tier": "priority"}, "prices": {"output_mtok": 9}},
        {"when": {"processing": "batch"}, "prices": {"output_mtok": 2}, "constraint": {"start_date": "2026-06-02"}},
        {"when": {"region": "moon"}, "prices": {"output_mtok": 99}},
    ]
    card, unsaid = made(catalogue({"output_mtok": 4, "requests_kcount": 1}, price_variants=variants))
    assert rates(card) == [
        "output_tokens priority >0 9 per 1000000",
        "output_tokens standard >0 4 per 1000000",
        "requests priority >0 1 per 1000",
        "requests standard >0 1 per 1000",
    ]
    assert unsaid == ("prices under {'region': 'moon'} have no tier",)
    assert card.valid_until == datetime(2026, 6, 2, tzinfo=UTC)


def test_a_card_is_valid_between_two_changes_of_its_prices() -> None:
    text = catalogue(
        [
            {"prices": {"output_mtok": 10}},
            {"constraint": {"start_date": "2026-05-01"}, "prices": {"output_mtok": 8}},
            {"constraint": {"start_date": "2026-09-01"}, "prices": {"output_mtok": 6}},
        ]
    )
    may, june, september = (datetime(2026, month, 1, tzinfo=UTC) for month in (5, 6, 9))
    card, _ = made(text, june)
    assert (rates(card), card.valid_from, card.valid_until) == (
        ["output_tokens standard >0 8 per 1000000"],
        may,
        september,
    )
    card, _ = made(text, september)
    assert (rates(card), card.valid_from, card.valid_until) == (
        ["output_tokens standard >0 6 per 1000000"],
        september,
        None,
    )
    card, _ = made(text, datetime(2026, 4, 30, 23, 59, tzinfo=UTC))
    assert (rates(card), card.valid_from, card.valid_until) == (["output_tokens standard >0 10 per 1000000"], None, may)


def test_names_that_begin_or_end_alike_are_patterns_on_the_card() -> None:
    match = {"or": [{"equals": "m-1"}, {"starts_with": "m-1-x"}, {"or": [{"ends_with": "-1m"}, {"contains": "/m-1/"}]}]}
    card, unsaid = made(catalogue({"output_mtok": 1}, match=match), served=("m-1-x7", "other"))
    assert card.aliases == ("*-1m", "*/m-1/*", "m-1-x*", "m-1-x7")
    assert unsaid == ("other is not a name of m-1 in the catalogue",)
    for name, served in {"m-1": 1, "M-1-X": 1, "m-1-xyz": 1, "m-1-y": 0, "a-1m": 1, "a/m-1/b": 1, "m-1/b": 0}.items():
        assert card.serves(name) == bool(served), name


def test_what_a_card_cannot_say_is_said_beside_it() -> None:
    match = {"or": [{"regex": "^m-[0-9]$"}, {"starts_with": "m-"}, {"and": [{"contains": "m"}, {"contains": "1"}]}]}
    first = {"id": "m-0", "match": {"equals": "m-0"}, "prices": {"output_mtok": 1}}
    document = json.loads(catalogue({"output_mtok": 1, "audio_hours": 32}, match=match))
    document[0]["models"].insert(0, first)
    models = read_catalogue(json.dumps(document))["p"].models
    card, _, unsaid = price_card(models[1], "p", NOW, tenant="t", card_id="c", others=models[:1])
    assert card is not None
    assert card.aliases == ()
    assert unsaid == (
        "its names by the rule ClauseRegex(regex='^m-[0-9]$') cannot be listed",
        "its names m-* are left out: m-0, which is another model, is one of them",
        "its names by the rule ClauseAnd(and_=[ClauseContains(contains='m'), ClauseContains(contains='1')]) cannot be listed",
        "standard tier: audio_hours has no bucket",
    )


def test_no_price_is_no_card() -> None:
    for prices, reason in (
        ({}, "m-1 has no price that fits a card"),
        ([], "m-1 has no price that fits a card"),
        ({"audio_hours": 3}, "standard tier: audio_hours has no bucket"),
    ):
        model = read_catalogue(catalogue(prices))["p"].find_model("m-1")
        assert model is not None
        card, _, unsaid = price_card(model, "p", NOW, tenant="t", card_id="c")
        assert card is None
        assert reason in unsaid


def test_prices_by_the_time_of_the_day_are_windows_in_utc() -> None:
    by_day = {"constraint": {"start_time": "00:30:00Z", "end_time": "16:30:00Z"}, "prices": {"output_mtok": 2}}
    at_night = {
        "constraint": {"start_time": "22:00:00+02:00", "end_time": "23:00:00+02:00"},
        "prices": {"output_mtok": 3},
    }
    card, unsaid = made(catalogue([{"prices": {"output_mtok": 1}}, by_day, at_night]))
    assert [(r.window, plain(r.price)) for r in card.rates] == [("", "1"), ("00:30-16:30", "2"), ("20:00-21:00", "3")]
    assert unsaid == ()
    only, _ = made(catalogue([by_day]))
    assert [(r.window, plain(r.price)) for r in only.rates] == [("", "2"), ("00:30-16:30", "2")]


def test_a_window_that_a_card_cannot_have_is_said() -> None:
    def window(start: str, end: str) -> dict[str, Any]:
        return {"constraint": {"start_time": start, "end_time": end}, "prices": {"output_mtok": 2}}

    base = {"prices": {"output_mtok": 1}}
    card, unsaid = made(catalogue([base, window("01:00:00", "03:00:00"), window("02:00:00", "04:00:00")]))
    assert {r.window for r in card.rates} == {"", "02:00-04:00"}
    assert unsaid == ("its prices from 01:00:00 to 03:00:00 have no window",)
    card, unsaid = made(catalogue([base, window("01:00:30", "03:00:00"), window("05:00:00", "05:00:00")]))
    assert {r.window for r in card.rates} == {""}
    assert len(unsaid) == 2


def test_an_explicit_price_of_zero_is_a_price() -> None:
    card, _ = made(catalogue({"output_mtok": 0}))
    assert rates(card) == ["output_tokens standard >0 0 per 1000000"]


def test_the_installed_catalogue_gives_cards_for_the_models_of_both_providers() -> None:
    found = installed_catalogue()
    for provider, name in (("openai", "gpt-4o-2024-08-06"), ("anthropic", "claude-sonnet-4-5-20250929")):
        model = found[provider].find_model(name)
        assert model is not None
        card, _, _ = price_card(model, provider, NOW, tenant="t", card_id=name, served=(name,))
        assert card is not None
        assert card.serves(name)
        assert {"input_tokens", "cache_read_tokens", "output_tokens"} <= {r.bucket for r in card.rates}


def test_a_tiered_price_with_one_threshold_twice_is_said() -> None:
    tiers = {"base": 1, "tiers": [{"start": 10, "price": 2}, {"start": 10, "price": 3}]}
    card, unsaid = made(catalogue({"output_mtok": 4, "input_mtok": tiers}))
    assert {r.bucket for r in card.rates} == {"output_tokens"}
    assert unsaid == ("standard tier: input_mtok has two prices from one threshold on",)


def test_a_tier_that_needs_two_conditions_has_no_place() -> None:
    variants = [{"when": {"service_tier": "priority", "speed": "fast"}, "prices": {"output_mtok": 9}}]
    _, unsaid = made(catalogue({"output_mtok": 4}, price_variants=variants))
    assert unsaid == ("prices under {'service_tier': 'priority', 'speed': 'fast'} have no tier",)


def test_a_constraint_that_is_not_known_is_refused() -> None:
    with pytest.raises(CatalogueError, match=r"p/m-1: the constraint \['weekday'\] is not known"):
        read_catalogue(catalogue([{"constraint": {"weekday": 1}, "prices": {"output_mtok": 1}}]))
