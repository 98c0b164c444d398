"""Amounts and prices: one normal form, and nothing that is not exact."""

from decimal import Decimal, localcontext

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.domain.money import (
    NotMoney,
    fits,
    may_be_most_of,
    most_of,
    parse_amount,
    parse_currency,
    parse_price,
    plain,
    round_line,
    total,
)

AMOUNTS = st.decimals(min_value=0, max_value=Decimal(10**20 - 1), places=18)


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        ("0", "0"),
        ("0.000", "0"),
        ("10", "10"),
        ("10.50", "10.5"),
        ("007", "7"),
        ("0.000000000000000001", "0.000000000000000001"),
        ("99999999999999999999.999999999999999999", "99999999999999999999.999999999999999999"),
    ],
)
def test_an_amount_has_one_normal_form(text: str, normal: str) -> None:
    assert plain(parse_amount(text)) == normal


@pytest.mark.parametrize(
    "text",
    [
        "", " ", "1 ", "\n1", "1\n", "+1", "-1", "1e3", "1E-7", "1,5", "1.", ".5", "1_000", "NaN", "nan", "sNaN", "Infinity",
        "-Infinity", "0x10", "\u0663", "\uff11", "0.0000000000000000001", "100000000000000000000", "--1", "1.2.3",
    ],
)  # fmt: skip
def test_what_is_not_a_plain_decimal_is_refused(text: str) -> None:
    with pytest.raises(NotMoney):
        parse_amount(text)


def test_below_zero_is_an_amount_only_where_it_is_asked_for() -> None:
    assert parse_amount("-7.10", negative=True) == Decimal("-7.1")
    assert plain(parse_amount("-0.0", negative=True)) == "0"
    assert plain(Decimal("-0.00")) == "0"
    with pytest.raises(NotMoney, match="negative"):
        parse_amount("-7")


@given(AMOUNTS)
def test_an_amount_survives_the_wire(amount: Decimal) -> None:
    text = plain(amount)
    assert parse_amount(text) == amount
    assert plain(parse_amount(text)) == text
    assert "E" not in text
    assert not ("." in text and text.endswith(("0", ".")))


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        ("1e-7", "0.0000001"),
        ("0.0000001", "0.0000001"),
        ("1E-7", "0.0000001"),
        ("3", "3"),
        ("3.0", "3"),
        ("1.5e+2", "150"),
        ("0e99", "0"),
        ("0.0000000000000000010", "0.000000000000000001"),
        ("99999999999999999999", "99999999999999999999"),
    ],
)
def test_a_price_may_be_written_with_an_exponent(text: str, normal: str) -> None:
    assert plain(parse_price(text)) == normal


@pytest.mark.parametrize(
    "text",
    ["", " ", "1,5", "NaN", "Infinity", "-1", "-0", "+1", "1e", "e7", "1e-19", "1e20", "99e99", "99e999", "1e-999"],
)
def test_what_is_not_an_exact_price_is_refused(text: str) -> None:
    with pytest.raises(NotMoney):
        parse_price(text)


@pytest.mark.parametrize("text", ["USD", "EUR", "GPU_SECONDS", "X9A"])
def test_a_currency_is_a_code_or_a_declared_unit(text: str) -> None:
    assert parse_currency(text) == text


@pytest.mark.parametrize("text", ["", "US", "usd", "U$D", "9US", "USD ", "A" * 17])
def test_what_is_not_a_currency_is_refused(text: str) -> None:
    with pytest.raises(NotMoney):
        parse_currency(text)


@pytest.mark.parametrize(
    ("quantity", "rate", "per", "amount"),
    [
        (1, "2", 3, "0.666666666666666667"),
        (2, "1", 3, "0.666666666666666667"),
        (1, "1", 3, "0.333333333333333333"),
        (1, "0.000000000000000001", 2, "0"),  # 0.5 of the last place: to the even 0
        (3, "0.000000000000000001", 2, "0.000000000000000002"),  # 1.5: to the even 2
        (5, "0.000000000000000001", 2, "0.000000000000000002"),  # 2.5: to the even 2
        (0, "5", 1, "0"),
        (1_000_000, "0.15", 1_000_000, "0.15"),
    ],
)
def test_a_line_is_rounded_once_half_even(quantity: int, rate: str, per: int, amount: str) -> None:
    assert plain(round_line(quantity, Decimal(rate), per)) == amount


def test_the_most_that_lines_can_come_to() -> None:
    dust = Decimal("1e-18")
    assert most_of(6, dust, 2, 0) == 3 * dust  # even: nothing to gain
    assert most_of(6, dust, 2, 2) == 4 * dust  # 3 and two halves
    assert most_of(1, dust, 2, 4) == 1 * dust  # one unit is one line: half and a half
    assert most_of(0, dust, 2, 4) == 0
    assert [may_be_most_of(n * dust, 6, dust, 2, 2) for n in (2, 3, 4, 5)] == [False, True, True, False]


def test_sums_and_bounds_are_exact_in_any_context() -> None:
    most = Decimal("99999999999999999999.999999999999999999")
    with localcontext(prec=5):
        assert fits(most)
        assert fits(most.copy_negate())
        assert not fits(Decimal(10**20))
        assert not fits(Decimal(-(10**20)))
        assert plain(total([most, Decimal("1e-18")])) == "100000000000000000000"
        assert total([]) == 0
