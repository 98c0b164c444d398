"""The highest rates that can apply to a call, worked out once for each card and tier."""

from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import NamedTuple

from ledger.domain.cards import GROUP_OF_BUCKET, GROUPS, STANDARD_TIER, PriceCard, Rate
from ledger.domain.money import CONTEXT, round_line


class Top(NamedTuple):
    """The highest rate that can apply in a group beyond a threshold, up to the next one.

    `rounded_lines` is the number of lines, of those that the group can come to, whose price of one unit has more than 18 places.
    """

    above: int
    highest: Rate
    rounded_lines: int


class Heights(NamedTuple):
    """What can apply in a group: `by_prompt` beyond so many tokens of the prompt, `by_units` beyond so many of the group's own."""

    by_prompt: tuple[Top, ...]
    by_units: tuple[Top, ...]

    def top(self, prompt: int, quantity: int) -> Top | None:
        """The highest that can apply with at most so long a prompt and so many units; None if nothing can."""
        whole = _reached(self.by_prompt, prompt)
        if not self.by_units:
            return whole
        marginal = _reached(self.by_units, quantity)
        if whole is None or marginal is None:
            return whole or marginal
        rounded = whole.rounded_lines + marginal.rounded_lines
        return max(whole, marginal, key=lambda top: _each(top.highest))._replace(rounded_lines=rounded)


class Offer(NamedTuple):
    """The tiers that may serve a call, and the groups that have a price in one of them, in the order of GROUPS."""

    service_tiers: tuple[str, ...]
    groups: Mapping[str, Heights]


def offer(card: PriceCard, service_tier: str) -> Offer | None:
    """What a call that asks for the tier may cost; None if the card does not sell it. It may be served by the standard one."""
    known: dict[str, Offer | None] = card.offers
    if service_tier not in known:
        known[service_tier] = _offer(card, service_tier)
    return known[service_tier]


def _offer(card: PriceCard, service_tier: str) -> Offer | None:
    if service_tier not in card.sold:
        return None
    tiers = {service_tier, STANDARD_TIER} & card.sold
    groups: dict[str, Heights] = {}
    for group in GROUPS:
        rates = [r for r in card.rates if GROUP_OF_BUCKET[r.bucket] == group and r.service_tier in tiers]
        if rates:
            groups[group] = Heights(_tops(r for r in rates if not r.marginal), _tops(r for r in rates if r.marginal))
    return Offer(tuple(sorted(tiers)), groups)


def _tops(rates: Iterable[Rate]) -> tuple[Top, ...]:
    rates = tuple(rates)
    tops = []
    for above in sorted({r.above for r in rates}):
        reached = [r for r in rates if r.above <= above]
        # A bucket is one line, or one for each range of a marginal rate.
        rounded = {(r.bucket, r.above if r.marginal else 0) for r in reached if not _is_even(r)}
        tops.append(Top(above, max(reached, key=_each), len(rounded)))
    return tuple(tops)


def _reached(tops: tuple[Top, ...], quantity: int) -> Top | None:
    for top in reversed(tops):
        if top.above == 0 or top.above < quantity:
            return top
    return None


def _each(rate: Rate) -> Fraction:
    return Fraction(rate.price) / rate.per


def _is_even(rate: Rate) -> bool:
    """True if any number of units comes to an amount of at most 18 places."""
    return CONTEXT.multiply(round_line(1, rate.price, rate.per), rate.per) == rate.price
