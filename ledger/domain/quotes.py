"""Price cards and quotes: what an attempt may cost at most.

A quote prices every group of buckets at its ceiling and at the highest rate that can apply in it. For any usage within the
ceilings the settled amount is therefore never above the quote.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from fractions import Fraction
from functools import cached_property
from typing import Any, NamedTuple

from ledger.domain.canonical import digest
from ledger.domain.money import CONTEXT, ZERO, fits, most_of, plain, round_line, total
from ledger.domain.refusals import Reason, Refusal

STANDARD_TIER = "standard"
INPUT_GROUP = "input_tokens"
OUTPUT_GROUP = "output_tokens"

# Each billable bucket, and the group whose ceiling bounds it. Buckets of a group are disjoint: their sum is the group's total.
GROUP_OF_BUCKET: Mapping[str, str] = {
    "input_tokens": INPUT_GROUP,
    "cache_read_tokens": INPUT_GROUP,
    "cache_write_tokens": INPUT_GROUP,
    "cache_write_1h_tokens": INPUT_GROUP,
    "output_tokens": OUTPUT_GROUP,
    "requests": "requests",
    "web_searches": "web_searches",
}
GROUPS = tuple(dict.fromkeys(GROUP_OF_BUCKET.values()))
MAX_QUANTITY = 10**15


class QuoteKind(StrEnum):
    METERED = "METERED"
    FIXED = "FIXED"


class Rate(NamedTuple):
    """The price of `per` units of a bucket.

    It applies to the whole request when the prompt (every input bucket together) has more than `above` tokens.
    """

    bucket: str
    service_tier: str
    above: int
    price: Decimal
    per: int


class Step(NamedTuple):
    """The highest rate that can apply in a group when the prompt has more than `above` tokens, but not more than the next step's.

    `rounded_lines` is the number of the group's buckets whose price of one unit has more than 18 places.
    """

    above: int
    highest: Rate
    rounded_lines: int


class Offer(NamedTuple):
    """The tiers that may serve a call, and the groups that have a price in one of them, in the order of GROUPS."""

    service_tiers: tuple[str, ...]
    groups: Mapping[str, tuple[Step, ...]]


@dataclass(frozen=True)
class PriceCard:
    """What one model of one provider costs. Immutable; `digest` is over its content, version and id left out."""

    tenant: str
    card_id: str
    version: int
    provider: str
    model: str
    aliases: tuple[str, ...]
    currency: str
    rates: tuple[Rate, ...]
    max_input_tokens: int | None = None
    max_output_tokens: int | None = None
    valid_from: datetime | None = None
    valid_until: datetime | None = None
    _offers: dict[str, Offer | None] = field(default_factory=dict, init=False, compare=False, repr=False)

    def to_document(self) -> dict[str, Any]:
        """The content as JSON, without tenant, id and version. Numbers are strings."""
        return {
            "provider": self.provider,
            "model": self.model,
            "aliases": sorted(self.aliases),
            "currency": self.currency,
            "rates": [
                {
                    "bucket": r.bucket,
                    "tier": r.service_tier,
                    "above": str(r.above),
                    "price": plain(r.price),
                    "per": str(r.per),
                }
                for r in sorted(self.rates)
            ],
            "max_input_tokens": None if self.max_input_tokens is None else str(self.max_input_tokens),
            "max_output_tokens": None if self.max_output_tokens is None else str(self.max_output_tokens),
            "valid_from": None if self.valid_from is None else self.valid_from.isoformat(),
            "valid_until": None if self.valid_until is None else self.valid_until.isoformat(),
        }

    @classmethod
    def from_document(cls, tenant: str, card_id: str, version: int, document: Mapping[str, Any]) -> "PriceCard":
        """The card whose `to_document` gave the document."""
        return cls(
            tenant=tenant,
            card_id=card_id,
            version=version,
            provider=document["provider"],
            model=document["model"],
            aliases=tuple(document["aliases"]),
            currency=document["currency"],
            rates=tuple(
                Rate(r["bucket"], r["tier"], int(r["above"]), Decimal(r["price"]), int(r["per"]))
                for r in document["rates"]
            ),
            max_input_tokens=_integer(document["max_input_tokens"]),
            max_output_tokens=_integer(document["max_output_tokens"]),
            valid_from=_instant(document["valid_from"]),
            valid_until=_instant(document["valid_until"]),
        )

    @cached_property
    def digest(self) -> bytes:
        return digest("price-card", 1, self.to_document())

    @cached_property
    def models(self) -> frozenset[str]:
        """Every name under which the model may be asked for or served."""
        return frozenset((self.model, *self.aliases))

    def offer(self, service_tier: str) -> Offer | None:
        """What a call that asks for the tier may cost; None if the card does not sell it. It may be served by the standard one."""
        if service_tier not in self._offers:
            self._offers[service_tier] = self._offer(service_tier)
        return self._offers[service_tier]

    def _offer(self, service_tier: str) -> Offer | None:
        sold = {r.service_tier for r in self.rates}
        if service_tier not in sold:
            return None
        tiers = {service_tier, STANDARD_TIER} & sold
        groups: dict[str, tuple[Step, ...]] = {}
        for group in GROUPS:
            rates = [r for r in self.rates if GROUP_OF_BUCKET[r.bucket] == group and r.service_tier in tiers]
            if rates:
                groups[group] = _steps(rates)
        return Offer(tuple(sorted(tiers)), groups)

    @cached_property
    def _rates_of(self) -> Mapping[tuple[str, str], list[Rate]]:
        """The rates of each bucket and tier, the highest threshold first."""
        rates: dict[tuple[str, str], list[Rate]] = {}
        for rate in sorted(self.rates, key=lambda r: r.above, reverse=True):
            rates.setdefault((rate.bucket, rate.service_tier), []).append(rate)
        return rates

    def rate(self, bucket: str, service_tier: str, prompt_tokens: int) -> Rate | None:
        """The rate of a bucket in a request of so many prompt tokens; None if the card does not price it."""
        for rate in self._rates_of.get((bucket, service_tier), ()):
            if rate.above == 0 or rate.above < prompt_tokens:
                return rate
        return None


def _steps(rates: list[Rate]) -> tuple[Step, ...]:
    steps = []
    for above in sorted({r.above for r in rates}):
        reached = [r for r in rates if r.above <= above]
        highest = max(reached, key=lambda r: Fraction(r.price) / r.per)
        rounded = {
            r.bucket for r in reached if CONTEXT.multiply(round_line(1, r.price, r.per), Decimal(r.per)) != r.price
        }
        steps.append(Step(above, highest, len(rounded)))
    return tuple(steps)


class QuoteLine(NamedTuple):
    group: str
    quantity: int
    rate: Decimal
    per: int
    amount: Decimal


class QuoteSpec(NamedTuple):
    """What a caller asks to be quoted. METERED names a card; FIXED brings an amount with its reason."""

    kind: QuoteKind
    tolerance: Decimal
    card_id: str = ""
    card_version: int = 0
    model: str = ""
    service_tier: str = STANDARD_TIER
    region: str = ""
    api_flavor: str = ""
    ceilings: tuple[tuple[str, int], ...] = ()
    amount: Decimal = ZERO
    currency: str = ""
    provider: str = ""
    reason: str = ""


@dataclass(frozen=True)
class Quote:
    """The most that the attempt may cost, pinned to the card that says so."""

    kind: QuoteKind
    amount: Decimal
    currency: str
    tolerance: Decimal
    provider: str
    model: str
    card_id: str = ""
    card_version: int = 0
    card_digest: str = ""
    service_tier: str = STANDARD_TIER
    service_tiers: tuple[str, ...] = ()
    region: str = ""
    api_flavor: str = ""
    lines: tuple[QuoteLine, ...] = ()
    clamped: tuple[str, ...] = ()
    valid_until: datetime | None = None
    reason: str = ""
    _document: dict[str, Any] | None = field(default=None, compare=False, repr=False)

    def to_document(self) -> dict[str, Any]:
        """The quote as JSON; numbers are strings."""
        if self._document is not None:
            return self._document
        document: dict[str, Any] = {
            "kind": self.kind.value,
            "amount": plain(self.amount),
            "currency": self.currency,
            "tolerance": plain(self.tolerance),
            "provider": self.provider,
            "model": self.model,
        }
        if self.kind is QuoteKind.FIXED:
            document["reason"] = self.reason
            return document
        document |= {
            "card": [self.card_id, str(self.card_version), self.card_digest],
            "tier": self.service_tier,
            "tiers": list(self.service_tiers),
            "region": self.region,
            "flavor": self.api_flavor,
            "lines": [[g, str(q), plain(r), str(p), plain(a)] for g, q, r, p, a in self.lines],
            "clamped": list(self.clamped),
            "valid_until": None if self.valid_until is None else self.valid_until.isoformat(),
        }
        return document

    @classmethod
    def from_document(cls, document: dict[str, Any]) -> "Quote":
        """The quote whose `to_document` gave the document."""
        kind = QuoteKind(document["kind"])
        amount, currency, tolerance = Decimal(document["amount"]), document["currency"], Decimal(document["tolerance"])
        if kind is QuoteKind.FIXED:
            return cls(
                kind, amount, currency, tolerance, document["provider"], document["model"],
                reason=document["reason"], _document=document,
            )  # fmt: skip
        card_id, card_version, card_digest = document["card"]
        return cls(
            kind, amount, currency, tolerance, document["provider"], document["model"],
            card_id=card_id, card_version=int(card_version), card_digest=card_digest,
            service_tier=document["tier"], service_tiers=tuple(document["tiers"]),
            region=document["region"], api_flavor=document["flavor"],
            lines=tuple(QuoteLine(g, int(q), Decimal(r), int(p), Decimal(a)) for g, q, r, p, a in document["lines"]),
            clamped=tuple(document["clamped"]), valid_until=_instant(document["valid_until"]),
            _document=document,
        )  # fmt: skip

    @cached_property
    def digest(self) -> bytes:
        return digest("quote", 1, self.to_document())


def quote(spec: QuoteSpec, card: PriceCard | None, now: datetime) -> Quote | Refusal:
    """Prices what the caller asks for, or says why no finite price can be put on it (UNQUOTABLE)."""
    if spec.kind is QuoteKind.FIXED:
        return Quote(
            spec.kind, spec.amount, spec.currency, spec.tolerance, spec.provider, spec.model, reason=spec.reason
        )
    if card is None:
        return _unquotable(f"There is no price card {spec.card_id!r}.", "quote.metered.card_id")
    offer = _offered(spec, card, now)
    if isinstance(offer, Refusal):
        return offer
    ceilings = dict(spec.ceilings)
    bounds: dict[str, int] = {}
    clamped: list[str] = []
    for group in offer.groups:
        bound = _bound(group, ceilings.get(group), card, clamped)
        if bound is None:
            return _unquotable(
                f"{group} has no ceiling: give one, or put the model's own limit on the card.",
                f"quote.metered.ceilings[{group}]",
            )
        bounds[group] = bound
    prompt = bounds.get(INPUT_GROUP, 0)
    lines = []
    for group, quantity in bounds.items():
        step = _reached(offer.groups[group], prompt)
        if step is None:
            return _unquotable(
                f"Card {card.card_id!r} has no price for {group} when a prompt has at most {prompt} tokens.",
                f"quote.metered.ceilings[{group}]",
            )
        rate = step.highest
        amount = most_of(quantity, rate.price, rate.per, step.rounded_lines)
        lines.append(QuoteLine(group, quantity, rate.price, rate.per, amount))
    amount = total(line.amount for line in lines)
    if not fits(amount):
        return _unquotable(
            "The amount is above what the ledger can hold: lower the ceilings.", "quote.metered.ceilings"
        )
    return Quote(
        spec.kind, amount, card.currency, spec.tolerance, card.provider, card.model,
        card_id=card.card_id, card_version=card.version, card_digest=card.digest.hex(),
        service_tier=spec.service_tier, service_tiers=offer.service_tiers,
        region=spec.region, api_flavor=spec.api_flavor,
        lines=tuple(lines), clamped=tuple(clamped), valid_until=card.valid_until,
    )  # fmt: skip


def _offered(spec: QuoteSpec, card: PriceCard, now: datetime) -> Offer | Refusal:
    if spec.model and spec.model not in card.models:
        return _unquotable(f"Model {spec.model!r} is not on card {card.card_id!r}.", "quote.metered.model")
    offer = card.offer(spec.service_tier)
    if offer is None:
        return _unquotable(
            f"Card {card.card_id!r} has no price for tier {spec.service_tier!r}.", "quote.metered.service_tier"
        )
    if not (
        (card.valid_from is None or card.valid_from <= now) and (card.valid_until is None or now < card.valid_until)
    ):
        return _unquotable(
            f"Version {card.version} of card {card.card_id!r} is not valid now.", "quote.metered.card_version"
        )
    for group, quantity in spec.ceilings:
        if quantity and group not in offer.groups:
            return _unquotable(f"Card {card.card_id!r} has no price for {group}.", f"quote.metered.ceilings[{group}]")
    return offer


def _reached(steps: tuple[Step, ...], prompt: int) -> Step | None:
    for step in reversed(steps):
        if step.above == 0 or step.above < prompt:
            return step
    return None


def _bound(group: str, asked: int | None, card: PriceCard, clamped: list[str]) -> int | None:
    """The finite ceiling of a group, or None. A ceiling above the model's own is lowered to it, and noted."""
    if group not in (INPUT_GROUP, OUTPUT_GROUP):
        # A request is one request at least; a tool that the caller did not declare cannot be used.
        return max(asked or 0, int(group == "requests"))
    own = card.max_input_tokens if group == INPUT_GROUP else card.max_output_tokens
    if asked is None or own is None:
        return own if asked is None else asked
    if asked > own:
        clamped.append(group)
    return min(asked, own)


def _unquotable(message: str, field_name: str) -> Refusal:
    return Refusal(Reason.UNQUOTABLE, message, {"field": field_name})


def _integer(text: str | None) -> int | None:
    return None if text is None else int(text)


def _instant(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)
