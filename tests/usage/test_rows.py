"""Recorded responses priced by the cards of a catalogue that brings its own extractors."""

import json
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest

from ledger.usage.catalogue import read_catalogue
from ledger.usage.rows import Priced, Pricer
from tests.recordings import DATA, needs_recordings

NIGHT, DAY = datetime(2026, 6, 1, 2, tzinfo=UTC), datetime(2026, 6, 1, 12, tzinfo=UTC)

EXTRACTOR = {
    "api_flavor": "chat",
    "root": "use",
    "model_path": "model",
    "mappings": [
        {"path": "in", "dest": "input_tokens", "required": True},
        {"path": ["details", "cached"], "dest": "cache_read_tokens", "required": False},
        {"path": ["details", {"type": "array-match", "field": "kind", "match": {"equals": "a"}}, "n"],
         "dest": "input_audio_tokens", "required": False},
        {"path": "sounds", "dest": "input_audio_tokens", "required": False},
        {"path": "searches", "dest": "web_searches", "required": False},
        {"path": "out", "dest": "output_tokens", "required": True},
    ],
}  # fmt: skip


def model(name: str, prices: Any) -> dict[str, Any]:
    return {"id": name, "match": {"starts_with": name}, "prices": prices}


def pricer(at: datetime = DAY) -> Pricer:
    models = [
        model("simple", {"input_mtok": 2, "output_mtok": 8}),
        model("full", {
            "input_mtok": {"base": 2, "tiers": [{"start": 100, "price": 4}]}, "cache_read_mtok": 1, "input_audio_mtok": 32,
            "cache_audio_read_mtok": 16, "output_mtok": 8, "web_searches_kcount": 10, "requests_kcount": 5,
        }),
        model("unpriced", {}),
        model("nightly", [
            {"prices": {"input_mtok": 1, "output_mtok": 1}},
            {"constraint": {"start_time": "08:00:00Z", "end_time": "20:00:00Z"}, "prices": {"input_mtok": 3, "output_mtok": 3}},
        ]),
        model("changing", [
            {"prices": {"output_mtok": 3}}, {"constraint": {"start_date": "2026-07-01"}, "prices": {"output_mtok": 4}},
        ]),
    ]  # fmt: skip
    provider = {"id": "p", "name": "P", "api_pattern": "x", "extractors": [EXTRACTOR], "models": models}
    return Pricer(read_catalogue(json.dumps([provider])), at)


def priced(name: str, use: Any, at: datetime = DAY, flavor: str = "chat", provider: str = "p") -> Priced:
    row = {
        "body": {"model": name, "use": use},
        "extracted": [{"extractors": [{"provider_id": provider, "api_flavor": flavor}]}],
    }
    (found,) = pricer(at).rows([row])
    return found


def test_input_output_and_fees_are_told_apart() -> None:
    found = priced("full-1", {"in": 90, "out": 10, "details": {"cached": 30}, "searches": 2})
    assert dict(found.buckets) == {
        "input_tokens": 60,
        "cache_read_tokens": 30,
        "output_tokens": 10,
        "web_searches": 2,
        "requests": 1,
    }
    # 60 * 2 + 30 * 1; 10 * 8; and 2 searches at 0.01, one request at 0.005
    assert (found.input_amount, found.output_amount) == (Decimal("0.00015"), Decimal("0.00008"))
    assert found.to_document() == {
        "row": 0, "provider_id": "p", "api_flavor": "chat", "status": "priced", "model": "full",
        "buckets": found.buckets, "input_amount": "0.00015", "output_amount": "0.00008", "amount": "0.02523",
        "reported_cost": {}, "reasons": [],
    }  # fmt: skip


def test_the_whole_prompt_chooses_the_rate() -> None:
    assert priced("full", {"in": 100, "out": 0}).input_amount == Decimal("0.0002")
    # 71 * 4 + 30 * 1
    assert priced("full", {"in": 101, "out": 0, "details": {"cached": 30}}).input_amount == Decimal("0.000314")


def test_what_is_not_priced_apart_need_not_be_told_apart() -> None:
    use = {"in": 90, "out": 10, "details": {"cached": 30}, "sounds": 40}
    assert dict(priced("simple", use).buckets) == {"input_tokens": 90, "output_tokens": 10}
    told = priced("full", use)
    assert told.status == "rejected"
    assert told.reasons == ("it is not reported how many of the input_audio_tokens are cache_audio_read_tokens",)


def test_doubts_are_reasons_and_it_is_priced_all_the_same() -> None:
    found = priced(
        "simple", {"in": 10, "out": 1, "total_tokens": 12, "cost": 0.5, "smells": 3, "details": {"cached": "x"}}
    )
    assert found.status == "priced"
    assert found.reported_cost == {"use.cost": Decimal("0.5")}
    assert found.reasons == (
        "use.details.cached is not a whole number",
        "use.total_tokens is 12, but input_tokens and output_tokens come to 11",
        "use.smells is not zero (3), and nothing is known to count it",
    )
    fee = priced("simple", {"in": 10, "out": 1, "searches": 2})
    assert (fee.status, fee.amount) == ("priced", Decimal("0.000028"))
    assert fee.reasons == ("web_searches has no price on the card in tier standard",)


def test_a_served_tier_is_said() -> None:
    assert priced("simple", {"in": 1, "out": 1, "service_tier": "default"}).reasons == ()
    found = priced("simple", {"in": 1, "out": 1, "service_tier": "priority"})
    assert (found.status, found.reasons) == ("priced", ("it was served in tier priority: priced as standard",))
    row = {"body": [1], "extracted": [{"extractors": [{"provider_id": "p", "api_flavor": "chat"}]}]}
    assert [result.status for result in pricer().rows([row])] == ["rejected"]


def test_a_price_that_changes_is_that_of_its_time_and_says_so() -> None:
    by_day, by_night = (priced("nightly", {"in": 10, "out": 0}, at) for at in (DAY, NIGHT))
    assert (by_day.amount, by_night.amount) == (Decimal("0.00003"), Decimal("0.00001"))
    assert by_day.reasons == (
        "priced as at 2026-06-01T12:00:00Z; at 2026-06-01T20:00:00Z it was or will be 0.00001 for input and 0 for output",
    )
    before = priced("changing", {"in": 0, "out": 10})
    after = priced("changing", {"in": 0, "out": 10}, datetime(2026, 7, 1, tzinfo=UTC))
    assert (before.amount, after.amount) == (Decimal("0.00003"), Decimal("0.00004"))
    assert before.reasons == (
        "priced as at 2026-06-01T12:00:00Z; at 2026-07-01T00:00:00Z it was or will be 0 for input and 0.00004 for output",
    )
    assert after.reasons == (
        "priced as at 2026-07-01T00:00:00Z; at 2026-06-30T23:59:59Z it was or will be 0 for input and 0.00003 for output",
    )


def test_no_price_is_not_zero() -> None:
    for name in ("unpriced", "unheard-of"):
        found = priced(name, {"in": 10, "out": 1})
        assert (found.status, found.to_document()["amount"]) == ("unpriceable", None)
        assert found.reasons
    nothing = priced("changing", {"in": 10, "out": 0})
    assert (nothing.status, nothing.reasons[-1]) == (
        "unpriceable",
        "input_tokens has no price on the card in tier standard",
    )
    assert priced("simple", {"in": 0, "out": 0}).to_document()["amount"] == "0"
    assert priced("simple", {"in": 1, "out": 1}, provider="q").status == "unpriceable"


@pytest.mark.parametrize(
    ("use", "reason"),
    [
        (None, "use is absent"),
        ([], "use is not an object"),
        ({"in": 1}, "use.out is absent"),
        ({"in": -1, "out": 1}, "use.in is negative"),
        ({"in": 1.5, "out": 1}, "use.in is not a whole number"),
        ({"in": 10**400, "out": 1}, "use.in is above 1000000000000000"),
        (
            {"in": 10, "out": 1, "details": {"cached": 11}},
            "input_tokens comes to -1: its parts are more than the whole",
        ),
    ],
)
def test_usage_that_cannot_be_read_is_rejected(use: Any, reason: str) -> None:
    found = priced("full", use)
    assert (found.status, found.reasons) == ("rejected", (reason,))


def test_a_flavour_without_an_extractor_and_a_row_in_another_form() -> None:
    assert priced("simple", {}, flavor="other").reasons == ("the catalogue has no extractor other for p",)
    with pytest.raises(ValueError, match="row 1 is not in the form"):
        list(pricer().rows([{"body": {}, "extracted": []}, {"body": {}}]))


@needs_recordings
def test_every_recording_of_every_provider_agrees_to_the_digit() -> None:
    catalogue = read_catalogue((DATA / "genai_prices_catalogue.json").read_text())
    rows = json.loads((DATA / "provider_usages.json").read_text(), parse_float=Decimal)
    # The recorders' prices are those of a day in August, within DeepSeek's hours of the full price.
    found = Pricer(catalogue, datetime(2026, 8, 15, 12, tzinfo=UTC)).rows(rows)
    expected = [each for row in rows for extracted in row["extracted"] for each in extracted["extractors"]]
    agreeing, other = 0, []
    for result, want in zip(found, expected, strict=True):
        if "input_price" not in want:
            assert result.status != "priced"
        elif (result.input_amount, result.output_amount) == (
            Decimal(want["input_price"]),
            Decimal(want["output_price"]),
        ) and (result.status == "priced"):
            agreeing += 1
        else:
            other.append((result.status, result.model, result.reasons, want["input_price"]))
    assert agreeing == 1286
    # The catalogue gives this model no price at all, and the recorders take that for zero.
    assert other == [("unpriceable", "qwen-3-coder-480b", ("qwen-3-coder-480b has no price that fits a card",), "0")]
