"""Usage in disjoint buckets, priced by a card. Pure arithmetic: the same for a first resolution, a replay, and an auditor."""

from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from typing import NamedTuple

from ledger.domain.cards import GROUP_OF_BUCKET, INPUT_GROUP, OUTPUT_GROUP, REASONING, Ladder, PriceCard
from ledger.domain.money import plain, round_line


class Line(NamedTuple):
    """A priced bucket, or the part of one that a marginal rate is for."""

    bucket: str
    quantity: int
    rate: Decimal
    per: int
    amount: Decimal

    def to_document(self) -> dict[str, str]:
        return {
            "bucket": self.bucket,
            "quantity": str(self.quantity),
            "rate": plain(self.rate),
            "per": str(self.per),
            "amount": plain(self.amount),
        }


def price(
    card: PriceCard, buckets: Mapping[str, int], service_tier: str, at: datetime | None = None
) -> tuple[tuple[Line, ...], tuple[str, ...]]:
    """Prices disjoint buckets by a card: the priced lines, sorted by bucket, and the reasons why some cannot be priced.

    The tier of a long prompt is chosen once, by the whole prompt. A line beyond 18 places is rounded once, half even. `at`
    is when the call was made, for prices that change with the time of the day. Reasoning is output: it has a line of its own
    only if the card prices it apart.
    """
    if buckets.get(REASONING) and not card.prices(REASONING, service_tier):
        together = buckets.get(OUTPUT_GROUP, 0) + buckets[REASONING]
        buckets = {bucket: q for bucket, q in buckets.items() if bucket != REASONING} | {OUTPUT_GROUP: together}
    prompt = sum(quantity for bucket, quantity in buckets.items() if GROUP_OF_BUCKET[bucket] == INPUT_GROUP)
    lines: list[Line] = []
    reasons: list[str] = []
    for bucket in sorted(buckets):
        quantity = buckets[bucket]
        if quantity < 0:
            reasons.append(f"{bucket} is negative")
        elif quantity:
            ladder = card.ladder(bucket, service_tier, at)
            priced = _lines(bucket, quantity, ladder, prompt) if ladder else ()
            if not priced:
                reasons.append(f"{bucket} has no price on the card in tier {service_tier}")
            lines += priced
    return tuple(lines), tuple(reasons)


def _lines(bucket: str, quantity: int, ladder: Ladder, prompt: int) -> tuple[Line, ...]:
    """The lines of a bucket, none if it is below every threshold of its rates."""
    if ladder[0].marginal:
        return _ranges(bucket, quantity, ladder)
    for rate in ladder:
        if rate.above == 0 or rate.above < prompt:
            return (Line(bucket, quantity, rate.price, rate.per, round_line(quantity, rate.price, rate.per)),)
    return ()


def _ranges(bucket: str, quantity: int, ladder: Ladder) -> tuple[Line, ...]:
    """One line for each range of units that is reached, the lowest first; none if the first units have no rate."""
    if ladder[-1].above:
        return ()
    lines, left = [], quantity
    for rate in ladder:
        if rate.above < left:
            units = left - rate.above
            lines.append(Line(bucket, units, rate.price, rate.per, round_line(units, rate.price, rate.per)))
            left = rate.above
    return tuple(reversed(lines))
