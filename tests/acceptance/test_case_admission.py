"""Cases from the field: who gets a hold. Over the real service and database."""

from decimal import Decimal

import psycopg
import pytest

from ledger.v1 import budget_pb2
from tests.acceptance.harness import refused
from tests.acceptance.tenant import Tenant, at_once, fixed, metered
from tests.watching import used_at_each_moment

GPT = ("input_tokens 3", "output_tokens 15")
LONG = (
    "input_tokens 2", "cache_read_tokens 0.2", "cache_write_tokens 2.5", "output_tokens 12",
    "input_tokens 4 above 272000", "cache_read_tokens 0.4 above 272000", "cache_write_tokens 5 above 272000",
    "output_tokens 18 above 272000",
)  # fmt: skip


def test_of_eight_reserves_of_090_at_once_a_cap_of_1_admits_one(acme: Tenant) -> None:
    acme.budget(limit="1.00")
    calls = [lambda number=number: acme.reserve(f"op-{number}", "0.90") for number in range(8)]
    told = at_once(*calls)
    assert told.count("INSUFFICIENT_BUDGET") == 7
    assert acme.balances() == {"authority": "1", "available": "0.1", "held": "0.9"}


def test_a_cap_is_kept_at_every_moment(acme: Tenant) -> None:
    acme.budget(limit="1.00")

    def life(number: int) -> None:
        acme.reserve(f"op-{number}", "0.30", send=True)
        acme.unknown(f"op-{number}")
        acme.charge(f"op-{number}", "0.10")

    at_once(*[lambda number=number: life(number) for number in range(24)])
    used = used_at_each_moment(acme.live.database_url, acme.name, "team#0")
    assert max(used) <= 1
    assert used[-1] == Decimal("0.1") * len(acme.in_state("SETTLED")) > 0
    assert acme.in_state("OUTCOME_UNKNOWN") == []


def test_a_budget_of_a_billionth_that_was_never_seen_before_admits_nothing(acme: Tenant) -> None:
    def first(number: int) -> None:
        acme.budget(limit="0.000000001")
        acme.reserve(f"op-{number}", "0.01")

    told = at_once(*[lambda number=number: first(number) for number in range(8)])
    assert told == ["INSUFFICIENT_BUDGET"] * 8
    assert acme.balances() == {"authority": "0.000000001", "available": "0.000000001"}


def test_of_six_holds_of_1000_on_5000_the_sixth_is_refused(acme: Tenant) -> None:
    acme.budget("org", "5000")
    acme.budget("team", None, parent="org")
    for number in range(5):
        acme.reserve(f"op-{number}", "1000", send=number > 2)
    acme.unknown("op-4")
    with refused("INSUFFICIENT_BUDGET") as told:
        acme.reserve("op-5", "1000")
    assert (told.metadata["budget_id"], told.metadata["available"]) == ("org", "0")
    assert acme.balances("org") == {"authority": "5000", "held": "4000", "unknown": "1000"}


def test_a_call_without_an_output_limit_has_a_finite_ceiling_or_no_quote(acme: Tenant) -> None:
    acme.budget(limit="1")
    acme.card("bounded", "openai", *GPT, max_in=10_000, max_out=1_000)
    acme.card("open", "openai", *GPT, max_in=10_000)
    # 1 000 x 3 + 1 000 x 15, per million: the model's own limit, and not all that is left.
    assert acme.reserve("op-1", metered("bounded", input_tokens=1_000)).hold.amount.amount == "0.018"
    assert acme.reserve("op-2", metered("bounded", input_tokens=1_000)).hold.amount.amount == "0.018"
    with refused("UNQUOTABLE") as told:
        acme.reserve("op-3", metered("open", input_tokens=1_000))
    assert told.metadata["field"] == "quote.metered.ceilings[output_tokens]"
    assert acme.balances() == {"authority": "1", "available": "0.964", "held": "0.036"}


def test_an_output_limit_of_999999999_is_lowered_to_the_models_own_and_the_quote_says_so(acme: Tenant) -> None:
    acme.budget()
    acme.card("gpt", "openai", *GPT, max_in=100_000, max_out=16_384)
    acme.reserve("op-1", metered("gpt", input_tokens=1_000, output_tokens=999_999_999))
    quote = acme.hold("op-1").quote
    # 1 000 x 3 + 16 384 x 15 = 3 000 + 245 760, per million
    assert (quote.amount.amount, list(quote.clamped_groups)) == ("0.24876", ["output_tokens"])


def test_a_prompt_above_a_threshold_is_quoted_at_the_highest_rate_that_can_apply(acme: Tenant) -> None:
    acme.budget()
    acme.card("gpt", "openai", *LONG)
    # The dearest input is a cache write of a long prompt: 300 000 x 5 + 1 000 x 18, per million
    long = acme.reserve("op-1", metered("gpt", input_tokens=300_000, output_tokens=1_000))
    assert long.hold.amount.amount == "1.518"
    # At the threshold is not above it: 272 000 x 2.5 + 1 000 x 12
    short = acme.reserve("op-2", metered("gpt", input_tokens=272_000, output_tokens=1_000))
    assert short.hold.amount.amount == "0.692"


def test_a_service_tier_is_quoted_at_its_own_rate_or_at_the_standard_one_if_that_is_higher(acme: Tenant) -> None:
    acme.budget()
    tiers = (
        "input_tokens 4 in priority",
        "output_tokens 20 in priority",
        "input_tokens 1 in flex",
        "output_tokens 5 in flex",
    )
    acme.card("gpt", "openai", "input_tokens 2", "output_tokens 10", *tiers)
    # 1 000 x 4 + 1 000 x 20; and, because the standard tier may serve instead, 1 000 x 2 + 1 000 x 10
    for tier, amount in (("priority", "0.024"), ("flex", "0.012")):
        quote = metered("gpt", service_tier=tier, input_tokens=1_000, output_tokens=1_000)
        assert acme.reserve(tier, quote).hold.amount.amount == amount


def test_a_model_that_is_not_on_the_card_has_no_quote_and_no_hold(acme: Tenant) -> None:
    acme.budget()
    acme.card("gpt", "openai", *GPT, max_in=1_000, max_out=1_000)
    for operation, quote in (("op-1", metered("gpt", model="gpt-2")), ("op-2", metered("claude"))):
        with refused("UNQUOTABLE"):
            acme.reserve(operation, quote)
        with refused("NOT_FOUND"):
            acme.hold(operation)
    with refused("INVALID_FIELD") as told:
        acme.reserve("op-3", fixed("0.50", reason=""))
    assert told.metadata["field"] == "quote.fixed.reason"
    # An explicit amount, with a reason, is the only other way.
    acme.reserve("op-3", fixed("0.50", reason="no card yet"))
    assert acme.balances()["held"] == "0.5"


def test_a_price_of_zero_is_admitted_when_the_budget_is_used_up(acme: Tenant) -> None:
    acme.budget(limit="1")
    acme.card("free", "openai", "input_tokens 0", "output_tokens 0", max_in=1_000, max_out=1_000)
    acme.reserve("op-1", "1", send=True)
    acme.charge("op-1", "1")
    assert acme.reserve("op-2", metered("free"), send=True).hold.amount.amount == "0"
    acme.count("op-2", "openai", input_tokens=900, output_tokens=900)
    assert acme.stands("op-2") == "SETTLED 0"
    assert acme.balances() == {"authority": "1", "spent": "1"}


def test_a_limit_of_zero_is_nothing_and_an_absent_one_is_unlimited(acme: Tenant) -> None:
    acme.budget("nothing", "0")
    acme.budget("unlimited", None)
    with refused("INSUFFICIENT_BUDGET"):
        acme.reserve("op-1", "0.000000000000000001", "nothing")
    acme.reserve("op-1", "1000000", "unlimited")
    budget = acme.finance.budgets.GetBudget(budget_pb2.GetBudgetRequest(budget_id="unlimited")).budget
    assert not budget.HasField("limit")
    assert budget.balances.held == "1000000"


@pytest.mark.parametrize("limit", ["-7", "NaN", "Infinity", "-Infinity", "1,5", "1e3", "", " 1"])
def test_a_limit_that_is_no_amount_is_refused(acme: Tenant, limit: str) -> None:
    with refused("INVALID_FIELD") as told:
        acme.budget("team", limit)
    assert told.metadata["field"] == "limit"
    with refused("NOT_FOUND"):
        acme.balances("team")


def test_the_path_is_resolved_once_and_debited_at_reserve_and_at_settle_alike(acme: Tenant) -> None:
    """A key without an organisation of its own, whose team is in the organisation."""
    acme.budget("org", "10")
    acme.budget("team", None, parent="org")
    acme.budget("key", None, parent="team")
    hold = acme.reserve("op-1", "4", "key", send=True).hold
    assert sorted(hold.book_ids) == ["key#0", "org#0", "team#0"]
    for budget in ("org", "team", "key"):
        assert acme.balances(budget)["held"] == "4"
    acme.charge("op-1", "3")
    assert [acme.balances(budget)["spent"] for budget in ("org", "team", "key")] == ["3", "3", "3"]
    assert acme.balances("org") == {"authority": "10", "available": "7", "spent": "3"}


def test_holds_that_collide_in_the_database_are_never_called_a_lack_of_money(acme: Tenant) -> None:
    """Two servers take the same two budgets in both orders, again and again, with enough money in them."""
    acme.budget("a")
    acme.budget("b")
    acme.live.add_server()
    stubs = (acme.gateway, acme.live.stubs(acme.name, "gateway", server=1))

    def reserve(number: int) -> None:
        request = acme.reservation(f"op-{number}", "1", "a")
        request.budget_ids[:] = ["a", "b"] if number % 2 else ["b", "a"]
        stubs[number // 2 % 2].holds.Reserve(request)

    assert at_once(*[lambda number=number: reserve(number) for number in range(40)]) == [None] * 40
    assert acme.balances("a") == acme.balances("b") == {"authority": "100", "available": "60", "held": "40"}


def test_a_program_that_bypasses_the_service_cannot_take_available_below_its_floor(acme: Tenant) -> None:
    acme.budget(limit="1")
    acme.reserve("op-1", "0.9")
    below = "available = available - 0.5, held = held + 0.5"
    # Not even by taking away the floor's neighbour, the equation, in the same statement.
    for change in (below, "available = -1, authority = authority - 1.1"):
        with psycopg.connect(acme.live.database_url) as connection, pytest.raises(psycopg.errors.CheckViolation):
            connection.execute(f"UPDATE book SET version = version + 2, {change} WHERE tenant = '{acme.name}'".encode())
    assert acme.balances() == {"authority": "1", "available": "0.1", "held": "0.9"}
