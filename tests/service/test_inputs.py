"""Bad input, each with the field that it is refused for."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from ledger.domain.commands import Dispatch, NoCostProof, Usage
from ledger.domain.model import Caller, Role
from ledger.domain.refusals import Refusal
from ledger.service.translate import budgets, commands, evidence
from ledger.service.translate.fields import InvalidField
from ledger.v1 import budget_pb2, hold_pb2, money_pb2, price_pb2
from tests.service.harness import fixed, metered, refusal, reserve_request, resolve_request, sending_request, serving

CALLER = Caller("acme", "gateway-1", Role.GATEWAY)
_NEVER_SENT = hold_pb2.NO_COST_KIND_NEVER_SENT
Change: TypeAlias = Callable[[Any], object]

BAD_AMOUNTS = ["NaN", "Infinity", "-1", "-0.1", "1e3", "1,5", "", " 1", "1 ", "+1", ".5", "5.", "0x10", "\u0661", "1_000",
               "0.0000000000000000001", "100000000000000000000", "1\n"]  # fmt: skip
BAD_CURRENCIES = ["", "usd", "US", "U$D", "USDUSDUSDUSDUSDUS", "ÜSD", "USD\n"]
BAD_IDS = ["", " a", "a b", "-a", ".a", "a" * 129, "a\0", "a\n", "ä", "a#0", "a\x7f", "a\u202e", "a,b"]
BAD_TEXTS = ["a\0b", "a\nb", "\x1b[31m", "x\x85y", "x" * 257]


def setting(path: str, value: object) -> Change:
    """A change of the field at a path, as `quote.fixed.amount`."""

    def change(request: Any) -> None:
        *parents, name = path.split(".")
        for parent in parents:
            request = getattr(request, parent)
        if isinstance(value, Duration):
            getattr(request, name).CopyFrom(value)
        else:
            setattr(request, name, value)

    return change


def field_of(read: Callable[[Any, Caller], object], request: Any) -> str:
    with pytest.raises(InvalidField) as caught:
        read(request, CALLER)
    assert caught.value.rule
    return caught.value.path


@pytest.mark.parametrize("amount", BAD_AMOUNTS)
def test_amounts(amount: str) -> None:
    assert field_of(commands.reserve, reserve_request("a", amount)) == "quote.fixed.amount.amount"
    tolerant = reserve_request("a")
    tolerant.quote.tolerance = amount
    if amount:
        assert field_of(commands.reserve, tolerant) == "quote.tolerance"
    assert field_of(commands.resolve, resolve_request("a", amount)) == "usage.charged.amount"
    request = budget_pb2.CreateBudgetRequest(idempotency_key="k", budget_id="b", currency="USD", limit=amount)
    assert field_of(budgets.create_budget, request) == "limit"
    grant = budget_pb2.GrantBudgetRequest(
        idempotency_key="k", budget_id="b", reference="r", amount=money_pb2.Money(amount=amount, currency="USD")
    )
    assert field_of(budgets.grant_budget, grant) == "amount.amount"


def test_a_grant_of_nothing() -> None:
    money = money_pb2.Money(amount="0.00", currency="USD")
    grant = budget_pb2.GrantBudgetRequest(idempotency_key="k", budget_id="b", reference="r", amount=money)
    assert field_of(budgets.grant_budget, grant) == "amount.amount"


@pytest.mark.parametrize("currency", BAD_CURRENCIES)
def test_currencies(currency: str) -> None:
    request = reserve_request("a", quote=fixed("1", currency))
    assert field_of(commands.reserve, request) == "quote.fixed.amount.currency"
    creating = budget_pb2.CreateBudgetRequest(idempotency_key="k", budget_id="b", currency=currency)
    assert field_of(budgets.create_budget, creating) == "currency"


@pytest.mark.parametrize("name", BAD_IDS)
def test_identifiers(name: str) -> None:
    for path in ("idempotency_key", "operation_id"):
        request = reserve_request("a")
        setattr(request, path, name)
        assert field_of(commands.reserve, request) == path
    assert field_of(commands.reserve, reserve_request("a", budget_ids=[name])) == "budget_ids"
    assert field_of(commands.reserve, reserve_request("a", quote=fixed("1", provider=name))) == "quote.fixed.provider"
    resolving = resolve_request("a")
    resolving.usage.provider = name
    assert field_of(commands.resolve, resolving) == "usage.provider"
    if name:
        assert field_of(commands.reserve, reserve_request("a", exclusive_key=name)) == "exclusive_key"
        assert field_of(commands.reserve, reserve_request("a", request_group=name)) == "request_group"
        resolving = resolve_request("a")
        resolving.usage.provider_receipt = name
        assert field_of(commands.resolve, resolving) == "usage.provider_receipt"


@pytest.mark.parametrize("text", BAD_TEXTS)
def test_texts(text: str) -> None:
    assert field_of(commands.reserve, reserve_request("a", quote=fixed("1", reason=text))) == "quote.fixed.reason"
    assert field_of(commands.reserve, reserve_request("a", labels={"project": text})) == "labels[project]"
    marked = hold_pb2.MarkOutcomeUnknownRequest(idempotency_key="k", operation_id="a", observation=text)
    assert field_of(commands.mark_outcome_unknown, marked) == "observation"
    sending = sending_request("a")
    sending.dispatch.executor = text
    assert field_of(commands.reserve, sending) == "dispatch.executor"
    resolving = resolve_request("a", accept_overrun_reason=text)
    assert field_of(commands.resolve, resolving) == "accept_overrun_reason"


@pytest.mark.parametrize(
    ("change", "path"),
    [
        (lambda r: r.ClearField("budget_ids"), "budget_ids"),
        (lambda r: r.budget_ids.append("team"), "budget_ids"),
        (lambda r: r.budget_ids.extend(f"b{i}" for i in range(40)), "budget_ids"),
        (lambda r: r.ClearField("quote"), "quote.kind"),
        (setting("quote.fixed.reason", ""), "quote.fixed.reason"),
        (setting("ttl", Duration(seconds=0)), "ttl"),
        (setting("ttl", Duration(seconds=-1)), "ttl"),
        (setting("ttl", Duration(nanos=999_999_999)), "ttl"),
        (setting("ttl", Duration(seconds=86_400, nanos=1)), "ttl"),
        (setting("ttl", Duration(seconds=2**62)), "ttl"),
        (setting("ttl", Duration(seconds=5, nanos=2_000_000_000)), "ttl"),
        (setting("begin_dispatch", True), "dispatch"),
        (lambda r: r.labels.update({f"k{i}": "v" for i in range(33)}), "labels"),
        (lambda r: r.labels.update({"": "v"}), "labels"),
        (lambda r: r.labels.update({"a b": "v"}), "labels"),
        (lambda r: r.labels.update({"k" * 65: "v"}), "labels"),
    ],
)
def test_reserve(change: Change, path: str) -> None:
    request = reserve_request("a")
    change(request)
    assert field_of(commands.reserve, request) == path


@pytest.mark.parametrize(
    ("ceilings", "path"),
    [
        ({"output_tokens": -1}, "quote.metered.ceilings[output_tokens]"),
        ({"output_tokens": 10**15 + 1}, "quote.metered.ceilings[output_tokens]"),
        ({"cache_read_tokens": 1}, "quote.metered.ceilings"),
        ({"": 1}, "quote.metered.ceilings"),
    ],
)
def test_ceilings(ceilings: dict[str, int], path: str) -> None:
    assert field_of(commands.reserve, reserve_request("a", quote=metered(**ceilings))) == path


@pytest.mark.parametrize(
    ("nonce", "good"),
    [("x" * 15, False), ("x" * 16, True), ("x" * 256, True), ("x" * 257, False), ("x" * 16 + "\0", False)],
)
def test_nonces(nonce: str, good: bool) -> None:
    request = sending_request("a")
    request.dispatch.nonce = nonce
    if good:
        commands.reserve(request, CALLER)
    else:
        assert field_of(commands.reserve, request) == "dispatch.nonce"
    proof = resolve_request("a")
    proof.no_cost.MergeFrom(hold_pb2.NoCostProof(kind=_NEVER_SENT, nonce=nonce))
    if good:
        read = commands.resolve(proof, CALLER).evidence
        assert isinstance(read, NoCostProof)
        assert read.nonce_hash == Dispatch(nonce, timedelta(minutes=1), "").nonce_hash
        assert nonce not in repr(read)
    else:
        assert field_of(commands.resolve, proof) == "no_cost.nonce"


def test_the_bounds_themselves_are_good() -> None:
    request = sending_request("a" * 128, "99999999999999999999.999999999999999999", idempotency_key="Z9._:/@+=-")
    request.ttl.seconds = 86_400
    request.dispatch.lease.seconds = 1
    request.labels.update({f"k{i}": "ä" * 256 for i in range(32)})
    read = commands.reserve(request, CALLER)
    assert read.ttl == timedelta(hours=24)
    assert read.dispatch is not None
    assert read.dispatch.lease == timedelta(seconds=1)
    assert len(read.labels) == 32


@pytest.mark.parametrize(
    ("change", "path"),
    [
        (lambda r: r.ClearField("usage"), "evidence"),
        (setting("attempt", -1), "attempt"),
        (setting("usage.source", 0), "usage.source"),
        (setting("usage.source", 99), "usage.source"),
        (lambda r: r.usage.ClearField("charged"), "usage.usage"),
        (lambda r: r.usage.buckets.quantities.update({"thoughts": 1}), "usage.buckets.quantities"),
        (lambda r: r.usage.buckets.quantities.update({"requests": 10**15 + 1}), "usage.buckets.quantities[requests]"),
        (setting("usage.provider_usage.json", "{}"), "usage.provider_usage.api_flavor"),
        (setting("usage.provider_usage.api_flavor", "openai.chat"), "usage.provider_usage.json"),
        (lambda r: usage_object(r, "x" * 8193), "usage.provider_usage.json"),
        (lambda r: usage_object(r, "ä" * 4097), "usage.provider_usage.json"),
        (lambda r: usage_object(r, '{"a": "\0"}'), "usage.provider_usage.json"),
        (lambda r: setattr(r.usage, "payload_digest", "AB" * 32), "usage.payload_digest"),
        (lambda r: r.usage.observe_time.CopyFrom(Timestamp(seconds=-1)), "usage.observe_time"),
        (lambda r: r.usage.observe_time.CopyFrom(Timestamp(seconds=2**60)), "usage.observe_time"),
        (lambda r: r.usage.observe_time.CopyFrom(Timestamp(seconds=1_700_000_000, nanos=-1)), "usage.observe_time"),
        (lambda r: r.usage.observe_time.FromDatetime(datetime.now(UTC) + timedelta(days=2)), "usage.observe_time"),
        (setting("no_cost.cause", 1), "no_cost.kind"),
        (setting("no_cost.kind", 9), "no_cost.kind"),
        (lambda r: r.no_cost.MergeFrom(hold_pb2.NoCostProof(kind=_NEVER_SENT, cause=9)), "no_cost.cause"),  # type: ignore[arg-type]
        (
            lambda r: r.no_cost.MergeFrom(hold_pb2.NoCostProof(kind=_NEVER_SENT, provider_status=600)),
            "no_cost.provider_status",
        ),
    ],
)
def test_resolve(change: Change, path: str) -> None:
    request = resolve_request("a")
    change(request)
    assert field_of(commands.resolve, request) == path


def usage_object(request: hold_pb2.ResolveRequest, json: str) -> None:
    request.usage.provider_usage.api_flavor = "openai.chat"
    request.usage.provider_usage.json = json


@pytest.mark.parametrize("json", ["[]", "{", "null", '{"usage": {"prompt_tokens": -1}}', '"\\ud800"', "[" * 8000])
def test_a_usage_object_that_makes_no_sense_is_kept_with_its_defects(json: str) -> None:
    request = resolve_request("a")
    usage_object(request, json)
    evidence = commands.resolve(request, CALLER).evidence
    assert isinstance(evidence, Usage)
    assert evidence.defects


def card(**fields: Any) -> price_pb2.PutPriceCardRequest:
    given: dict[str, Any] = {"card_id": "c", "provider": "p", "model": "m", "currency": "USD"}
    given["rates"] = [price_pb2.Rate(bucket="input_tokens", price="1e-7", per=1)]
    return price_pb2.PutPriceCardRequest(idempotency_key="k", card=price_pb2.PriceCard(**given | fields))


def token_rate(**fields: Any) -> price_pb2.Rate:
    return price_pb2.Rate(bucket="input_tokens", price="1", **fields)


@pytest.mark.parametrize("price", ["1,5", "NaN", "", " ", "-1", "1e", "Infinity", "1e-19", "9e99", "0x1"])
def test_prices(price: str) -> None:
    rates = [price_pb2.Rate(bucket="input_tokens", price="1"), price_pb2.Rate(bucket="output_tokens", price=price)]
    assert field_of(budgets.put_price_card, card(rates=rates)) == "card.rates[1].price"


def test_two_spellings_of_a_price_are_one() -> None:
    plain = card(rates=[price_pb2.Rate(bucket="input_tokens", price="0.0000001", per=1)])
    read = budgets.put_price_card(card(), CALLER), budgets.put_price_card(plain, CALLER)
    assert read[0].fingerprint == read[1].fingerprint


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"card_id": ""}, "card.card_id"),
        ({"version": 3}, "card.version"),
        ({"digest": "00"}, "card.digest"),
        ({"currency": "usd"}, "card.currency"),
        ({"rates": []}, "card.rates"),
        ({"rates": [price_pb2.Rate(bucket="tokens", price="1")]}, "card.rates[0].bucket"),
        ({"rates": [price_pb2.Rate(bucket="requests", price="1", per=-1)]}, "card.rates[0].per"),
        (
            {"rates": [price_pb2.Rate(bucket="requests", price="1", above_input_tokens=-1)]},
            "card.rates[0].above_input_tokens",
        ),
        ({"rates": [price_pb2.Rate(bucket="requests", price="1")] * 2}, "card.rates"),
        ({"rates": [price_pb2.Rate(bucket="requests", price="1", service_tier="a b")]}, "card.rates[0].service_tier"),
        ({"aliases": ["m2", "m2"]}, "card.aliases"),
        ({"aliases": ["**"]}, "card.aliases"),
        ({"aliases": ["a *"]}, "card.aliases"),
        ({"region_multipliers": {"us": "-1"}}, "card.region_multipliers[us]"),
        ({"region_multipliers": {"u s": "1"}}, "card.region_multipliers"),
        ({"region_multipliers": {f"r{i}": "1" for i in range(65)}}, "card.region_multipliers"),
        ({"rates": [token_rate(inclusive=True)]}, "card.rates[0].inclusive"),
        ({"rates": [token_rate(inclusive=True, above_input_tokens=1)]}, "card.rates[0].inclusive"),
        ({"rates": [token_rate(inclusive=True, above_input_tokens=9, marginal=True)]}, "card.rates[0].inclusive"),
        ({"rates": [token_rate(window="8-9")]}, "card.rates[0].window"),
        ({"rates": [token_rate(window="08:00-08:00")]}, "card.rates[0].window"),
        ({"rates": [token_rate(window="08:00-10:00"), token_rate(window="09:00-11:00")]}, "card.rates"),
        ({"rates": [token_rate(window="22:00-02:00"), token_rate(window="01:00-03:00")]}, "card.rates"),
        ({"rates": [token_rate(), token_rate(marginal=True, above_input_tokens=5)]}, "card.rates"),
        ({"rates": [token_rate(marginal=True, above_input_tokens=5)]}, "card.rates"),
        ({"rates": [token_rate(marginal=True, above_input_tokens=i) for i in range(9)]}, "card.rates"),
        ({"max_output_tokens": -1}, "card.max_output_tokens"),
        ({"valid_from": Timestamp(seconds=10), "valid_until": Timestamp(seconds=10)}, "card.valid_until"),
        ({"valid_until": Timestamp(seconds=-1)}, "card.valid_until"),
    ],
)
def test_price_cards(fields: dict[str, Any], path: str) -> None:
    assert field_of(budgets.put_price_card, card(**fields)) == path


@pytest.mark.parametrize("count", [0, 1001])
def test_a_batch_of_the_wrong_size_is_refused_whole(count: int) -> None:
    release = hold_pb2.Command(release=hold_pb2.ReleaseRequest(idempotency_key="k", operation_id="a"))
    request = hold_pb2.BatchExecuteRequest(commands=[release] * count)
    assert field_of(commands.batch, request) == "commands"


def test_a_fault_in_reading_one_command_does_not_touch_its_neighbours(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(flavor: str, document: str) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(evidence, "normalize", broken)
    resolving = resolve_request("b")
    usage_object(resolving, "{}")
    request = hold_pb2.BatchExecuteRequest(
        commands=[
            hold_pb2.Command(reserve=reserve_request("a")),
            hold_pb2.Command(resolve=resolving),
            hold_pb2.Command(reserve=reserve_request("c")),
        ]
    )
    _, read = commands.batch(request, CALLER)
    assert [item.reason if isinstance(item, Refusal) else item.operation_id for item in read] == ["a", "INTERNAL", "c"]


async def test_the_path_of_the_field_reaches_the_caller(database_url: str, tmp_path: Path) -> None:
    async with serving(database_url, tmp_path) as ledger:
        asked = ledger.gateway.holds.Reserve(reserve_request("a", quote=metered(output_tokens=-1)))
        assert await refusal(asked) == (
            "INVALID_ARGUMENT",
            "INVALID_FIELD",
            {"field": "quote.metered.ceilings[output_tokens]"},
        )
        nothing = await ledger.gateway.holds.ListHolds(hold_pb2.ListHoldsRequest())
        assert not nothing.holds
