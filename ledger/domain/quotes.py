"""Quotes: what an attempt may cost at most.

A quote prices every group of buckets at its ceiling and at the highest rate that can apply in it. For any usage within the
ceilings the settled amount is therefore never above the quote.
"""

from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from functools import cached_property
from typing import Any, NamedTuple

from ledger.domain.canonical import digest
from ledger.domain.cards import INPUT_GROUP, OUTPUT_GROUP, STANDARD_TIER, TOKEN_GROUPS, PriceCard, as_instant
from ledger.domain.money import ZERO, fits, most_of, plain, total
from ledger.domain.offers import Offer, Top, offer
from ledger.domain.refusals import Reason, Refusal


class QuoteKind(StrEnum):
    METERED = "METERED"
    FIXED = "FIXED"


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
    choices: int = 1


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
            clamped=tuple(document["clamped"]), valid_until=as_instant(document["valid_until"]),
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
    offered = _offered(spec, card, now)
    if isinstance(offered, Refusal):
        return offered
    ceilings = dict(spec.ceilings)
    bounds: dict[str, int] = {}
    clamped: list[str] = []
    missing: list[str] = []
    for group in offered.groups:
        bound = _bound(group, ceilings.get(group), spec.choices, card, clamped)
        if bound is None:
            missing.append(group)
        else:
            bounds[group] = bound
    if missing:
        return _unquotable(
            f"{' and '.join(missing)} {'has' if len(missing) == 1 else 'have'} no ceiling: give one, or put the model's own "
            "limit on the card.",
            f"quote.metered.ceilings[{missing[0]}]",
        )
    prompt = bounds.get(INPUT_GROUP, 0)
    lines = []
    for group, quantity in bounds.items():
        top = offered.groups[group].top(prompt, quantity)
        if top is None:
            return _unquotable(
                f"Card {card.card_id!r} has no price for {group} when a prompt has at most {prompt} tokens.",
                f"quote.metered.ceilings[{group}]",
            )
        lines.append(_line(group, quantity, top))
    amount = total(line.amount for line in lines)
    if not fits(amount):
        return _unquotable(
            "The amount is above what the ledger can hold: lower the ceilings.", "quote.metered.ceilings"
        )
    return Quote(
        spec.kind, amount, card.currency, spec.tolerance, card.provider, card.model,
        card_id=card.card_id, card_version=card.version, card_digest=card.digest.hex(),
        service_tier=spec.service_tier, service_tiers=offered.service_tiers,
        region=spec.region, api_flavor=spec.api_flavor,
        lines=tuple(lines), clamped=tuple(clamped), valid_until=card.valid_until,
    )  # fmt: skip


def _line(group: str, quantity: int, top: Top) -> QuoteLine:
    price, per = top.highest.price, top.highest.per
    return QuoteLine(group, quantity, price, per, most_of(quantity, price, per, top.rounded_lines))


def _offered(spec: QuoteSpec, card: PriceCard, now: datetime) -> Offer | Refusal:
    if spec.model and not card.serves(spec.model):
        return _unquotable(f"Model {spec.model!r} is not on card {card.card_id!r}.", "quote.metered.model")
    there = card.in_region(spec.region)
    if there is None:
        return _unquotable(f"Card {card.card_id!r} has no prices for region {spec.region!r}.", "quote.metered.region")
    offered = offer(there, spec.service_tier)
    if offered is None:
        return _unquotable(
            f"Card {card.card_id!r} has no price for tier {spec.service_tier!r}.", "quote.metered.service_tier"
        )
    if not card.in_force(now):
        return _unquotable(
            f"Version {card.version} of card {card.card_id!r} is not valid now.", "quote.metered.card_version"
        )
    for group, quantity in spec.ceilings:
        if quantity and group not in offered.groups:
            return _unquotable(f"Card {card.card_id!r} has no price for {group}.", f"quote.metered.ceilings[{group}]")
    return offered


def _bound(group: str, asked: int | None, choices: int, card: PriceCard, clamped: list[str]) -> int | None:
    """The finite ceiling of a group, or None. A ceiling above the model's own is lowered to it, and noted.

    The ceiling of the output is that of one choice: each is as long as it likes.
    """
    if group not in TOKEN_GROUPS:
        # A request is one request at least; a tool that the caller did not declare cannot be used.
        return max(asked or 0, int(group == "requests"))
    own = card.max_input_tokens if group == INPUT_GROUP else card.max_output_tokens
    times = choices if group == OUTPUT_GROUP else 1
    if asked is None or own is None:
        one = own if asked is None else asked
        return None if one is None else one * times
    if asked > own:
        clamped.append(group)
    return min(asked, own) * times


def _unquotable(message: str, field_name: str) -> Refusal:
    return Refusal(Reason.UNQUOTABLE, message, {"field": field_name})
