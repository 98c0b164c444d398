"""Exact decimal money: parsing, one normal form, and the context in which all arithmetic is done.

An amount has at most 20 digits before the point and 18 after it, as NUMERIC(38,18) holds. Arithmetic runs in a context of
76 digits that traps Inexact: a result that would have to be rounded is a bug, except in `round_line`, which rounds on purpose.
"""

import re
from collections.abc import Iterable
from decimal import ROUND_FLOOR, ROUND_HALF_EVEN, Context, Decimal, DivisionByZero, Inexact, InvalidOperation, Overflow
from functools import reduce

ZERO = Decimal(0)
PLACES = 18
WHOLE_DIGITS = 20

CONTEXT = Context(
    prec=76, rounding=ROUND_HALF_EVEN, traps=[Inexact, InvalidOperation, DivisionByZero, Overflow], Emax=999, Emin=-999
)
_ROUNDING = Context(
    prec=76, rounding=ROUND_HALF_EVEN, traps=[InvalidOperation, DivisionByZero, Overflow], Emax=999, Emin=-999
)
_QUANTUM = Decimal(1).scaleb(-PLACES)
_HALF_QUANTUM = Decimal(5).scaleb(-PLACES - 1)
_LIMIT = Decimal(10) ** WHOLE_DIGITS
# The most that NUMERIC(38,18) holds.
MOST = CONTEXT.subtract(_LIMIT, _QUANTUM)

_PLAIN = re.compile(r"-?[0-9]{1,20}(\.[0-9]{1,18})?", re.ASCII)
_PRICE = re.compile(r"[0-9]{1,20}(\.[0-9]{1,40})?([eE][-+]?[0-9]{1,2})?", re.ASCII)
_CURRENCY = re.compile(r"[A-Z][A-Z0-9_]{2,15}", re.ASCII)


class NotMoney(ValueError):
    """The text is not an exact amount."""


def parse_amount(text: str, *, negative: bool = False) -> Decimal:
    """Reads an amount from its wire form.

    Raises NotMoney for anything but a plain decimal of at most 20 + 18 digits: NaN, Infinity, an exponent, a comma, a blank,
    too many places; and for a number below zero unless `negative`.
    """
    if not _PLAIN.fullmatch(text):
        raise NotMoney("must be a plain decimal number with at most 20 digits before the point and 18 after it")
    amount = Decimal(text)
    if amount < 0 and not negative:
        raise NotMoney("must not be negative")
    return amount if amount else ZERO


def parse_price(text: str) -> Decimal:
    """Reads a price, which catalogues also write with an exponent: `1e-7` and `0.0000001` are equal.

    Raises NotMoney for anything that is not an exact number from zero upwards with at most 18 places.
    """
    if not _PRICE.fullmatch(text):
        raise NotMoney("must be a decimal number, without a sign, such as 0.0000001 or 1e-7")
    price = CONTEXT.normalize(Decimal(text))
    if price >= _LIMIT or price != _ROUNDING.quantize(price, _QUANTUM):
        raise NotMoney("must have at most 20 digits before the point and 18 after it")
    return price if price else ZERO


def parse_currency(text: str) -> str:
    """An ISO 4217 code or a declared unit: 3 to 16 upper-case letters, digits or underscores. Raises NotMoney."""
    if not _CURRENCY.fullmatch(text):
        raise NotMoney("must be 3 to 16 upper-case letters, digits or underscores, such as USD")
    return text


def plain(amount: Decimal) -> str:
    """The one normal form: no exponent, no trailing zeros, no negative zero."""
    if not amount:
        return "0"
    text = format(amount, "f")
    return text.rstrip("0").rstrip(".") if "." in text else text


def round_line(quantity: int, rate: Decimal, per: int) -> Decimal:
    """The price of `quantity` units at `rate` for `per` of them; rounded once, half even, to 18 places."""
    return _ROUNDING.quantize(_ROUNDING.divide(_ROUNDING.multiply(rate, quantity), per), _QUANTUM)


def most_of(quantity: int, rate: Decimal, per: int, rounded_lines: int) -> Decimal:
    """The most that `quantity` units can come to at no more than `rate` for `per`, however they are divided into lines.

    Each of the lines that `round_line` rounds can gain half a unit of the last place; lines that come out even gain nothing.
    """
    if not rounded_lines:
        return round_line(quantity, rate, per)
    exact = _ROUNDING.divide(_ROUNDING.multiply(rate, quantity), per)
    gain = _ROUNDING.multiply(_HALF_QUANTUM, min(quantity, rounded_lines))
    return _ROUNDING.add(exact, gain).quantize(_QUANTUM, ROUND_FLOOR, _ROUNDING)


def may_be_most_of(amount: Decimal, quantity: int, rate: Decimal, per: int, lines: int) -> bool:
    """True if `amount` is `most_of` so many units, divided into at most so many lines."""
    return any(amount == most_of(quantity, rate, per, rounded) for rounded in range(lines + 1))


def total(amounts: Iterable[Decimal]) -> Decimal:
    """The exact sum, whatever the caller's own decimal context is."""
    return reduce(CONTEXT.add, amounts, ZERO)


def fits(amount: Decimal) -> bool:
    """True if NUMERIC(38,18) can hold the amount."""
    return -_LIMIT < amount < _LIMIT
