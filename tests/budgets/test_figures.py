"""Numbers and bars, without a ledger."""

from decimal import Decimal

import pytest

from ledger.budgets.figures import ASCII, UNICODE, bar, lengths, number, signs
from ledger.budgets.forest import grown
from ledger.v1 import budget_pb2


@pytest.mark.parametrize(
    ("amount", "told"),
    [
        ("0", "0"),
        ("1234567.5", "1,234,567.5"),
        ("0.000001", "0.000001"),
        ("0.0000005", "~0"),
        ("0.0000015", "~0.000002"),
        ("-12.25", "-12.25"),
        ("99999999999999999999.999999999999999999", "~100,000,000,000,000,000,000"),
    ],
)
def test_a_number_has_six_places_and_says_if_it_has_more(amount: str, told: str) -> None:
    assert number(amount, ASCII.about) == told


@pytest.mark.parametrize(
    ("amounts", "width", "cells"),
    [
        ("0 0 0 0", 20, [0, 0, 0, 0]),
        ("0 0 0 100", 20, [0, 0, 0, 20]),
        ("50 25 15 10", 20, [10, 5, 3, 2]),
        ("0.01 0 0 99.99", 20, [1, 0, 0, 19]),  # what is there is seen
        ("1 1 1 0", 20, [7, 7, 6, 0]),
        ("0.1 0.1 0.1 99.7", 4, [1, 1, 1, 1]),
        ("99.99 0.01 0 0", 10, [9, 1, 0, 0]),
    ],
)
def test_a_bar_is_full_and_in_proportion(amounts: str, width: int, cells: list[int]) -> None:
    found = lengths([Decimal(amount) for amount in amounts.split()], width)
    assert sum(found) in (0, width)
    assert sorted(found[:3], reverse=True) + found[3:] == cells if amounts == "1 1 1 0" else found == cells


def test_a_bar_of_a_budget_with_a_deficit_is_what_was_used() -> None:
    # 10 of authority and 5 of deficit: 12 spent, 3 held.
    balances = budget_pb2.Balances(authority="10", available="0", held="3", unknown="0", spent="12", deficit="5")
    assert bar(balances, 20) == [("spent", 16), ("held", 4)]
    unlimited = budget_pb2.Balances(authority="0", available="-8", held="2", unknown="2", spent="4", deficit="0")
    assert bar(unlimited, 16) == [("spent", 8), ("unknown", 4), ("held", 4)]


def test_the_signs_are_those_that_the_stream_takes() -> None:
    assert signs("UTF-8") is signs("utf8") is UNICODE
    assert signs("ISO-8859-1") is signs("") is signs("ascii") is ASCII
    assert all(sign.isascii() for sign in (*ASCII.parts.values(), *ASCII[1:]) if isinstance(sign, str))


def test_a_forest_has_every_budget_once_below_its_parent() -> None:
    rows = (("acme", ""), ("key", "team"), ("lab", "acme"), ("lost", "gone"), ("team", "acme"), ("user", "key"))
    budgets = [budget_pb2.Budget(budget_id=name, parent_id=parent) for name, parent in rows]
    assert [node.branches + node.budget.budget_id for node in grown(budgets, ASCII)] == [
        "acme",
        "|- lab",
        "`- team",
        "   `- key",
        "      `- user",
        "lost",
    ]
    assert [(node.depth, node.budget.budget_id) for node in grown(budgets, ASCII, "team")] == [
        (0, "team"),
        (1, "key"),
        (2, "user"),
    ]
    assert grown(budgets, ASCII, "nobody") == []
