"""Price cards: the buckets that usage is counted in, and what each of them costs.

Buckets are disjoint: no token is in two of them. A group bounds some of them together, by one ceiling of a quote.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from decimal import Decimal
from functools import cached_property
from typing import Any, NamedTuple

from ledger.domain.canonical import digest
from ledger.domain.money import CONTEXT, plain

STANDARD_TIER = "standard"
INPUT_GROUP = "input_tokens"
OUTPUT_GROUP = "output_tokens"
REASONING = "output_reasoning_tokens"

# Each billable bucket, and the group whose ceiling bounds it.
GROUP_OF_BUCKET: Mapping[str, str] = {
    "input_tokens": INPUT_GROUP,
    "input_audio_tokens": INPUT_GROUP,
    "input_image_tokens": INPUT_GROUP,
    "input_video_tokens": INPUT_GROUP,
    "cache_read_tokens": INPUT_GROUP,
    "cache_audio_read_tokens": INPUT_GROUP,
    "cache_image_read_tokens": INPUT_GROUP,
    "cache_video_read_tokens": INPUT_GROUP,
    "cache_write_tokens": INPUT_GROUP,
    "cache_write_1h_tokens": INPUT_GROUP,
    "cache_audio_write_tokens": INPUT_GROUP,
    "output_tokens": OUTPUT_GROUP,
    REASONING: OUTPUT_GROUP,
    "output_audio_tokens": OUTPUT_GROUP,
    "output_image_tokens": OUTPUT_GROUP,
    "output_video_tokens": OUTPUT_GROUP,
    "output_citation_tokens": OUTPUT_GROUP,
    "requests": "requests",
    "web_searches": "web_searches",
    "social_searches": "social_searches",
    "storage_searches": "storage_searches",
    "rerank_searches": "rerank_searches",
    "map_searches": "map_searches",
    "code_executions": "code_executions",
    "input_characters": "input_characters",
    "output_characters": "output_characters",
    "input_images": "input_images",
    "output_images": "output_images",
    "input_document_pages": "input_document_pages",
    "input_annotated_document_pages": "input_annotated_document_pages",
}
GROUPS = tuple(dict.fromkeys(GROUP_OF_BUCKET.values()))
TOKEN_GROUPS = (INPUT_GROUP, OUTPUT_GROUP)
MAX_QUANTITY = 10**15
MAX_RANGES = 8
"""How many marginal rates one bucket and tier may have: each can become a line of its own."""

_WINDOW = re.compile(r"([01]\d|2[0-3]):([0-5]\d)-([01]\d|2[0-3]):([0-5]\d)", re.ASCII)


class Rate(NamedTuple):
    """The price of `per` units of a bucket.

    A rate applies to the whole request when the prompt (every input bucket together) has more than `above` tokens. A
    `marginal` one applies only to those units of its own bucket that are beyond `above`. With a `window` ("16:30-00:30",
    UTC, the end not in it, which may be past midnight) it replaces the rates without one while that lasts.
    """

    bucket: str
    service_tier: str
    above: int
    price: Decimal
    per: int
    marginal: bool = False
    window: str = ""


Ladder = tuple[Rate, ...]
"""The rates of one bucket and tier at one time, the highest threshold first."""


def minutes(window: str) -> tuple[int, int] | None:
    """The minutes of the day at which a window begins and ends; None if the text is no window, or an empty one."""
    found = _WINDOW.fullmatch(window)
    if found is None:
        return None
    hour, minute, until_hour, until_minute = map(int, found.groups())
    begin, end = 60 * hour + minute, 60 * until_hour + until_minute
    return (begin, end) if begin != end else None


def covers(window: str, minute: int) -> bool:
    """True if the window lasts at that minute of the day."""
    begin, end = minutes(window) or (0, 0)
    return begin <= minute < end if begin < end else (minute >= begin or minute < end)


@dataclass(frozen=True)
class PriceCard:
    """What one model of one provider costs. Immutable; `digest` is over its content, version and id left out.

    In an alias `*` stands for any text. `regions` are factors to the prices of tokens, by region: a call that names one
    costs so many times as much.
    """

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
    regions: tuple[tuple[str, Decimal], ...] = ()
    # What a card comes to is worked out once: its offers by tier (ledger.domain.offers), its prices by region.
    offers: dict[str, Any] = field(default_factory=dict, init=False, compare=False, repr=False)
    _by_region: dict[str, "PriceCard | None"] = field(default_factory=dict, init=False, compare=False, repr=False)

    def to_document(self) -> dict[str, Any]:
        """The content as JSON, without tenant, id and version. Numbers are strings; what is not there takes no room."""
        document: dict[str, Any] = {
            "provider": self.provider,
            "model": self.model,
            "aliases": sorted(self.aliases),
            "currency": self.currency,
            "rates": [_written(rate) for rate in sorted(self.rates)],
            "max_input_tokens": None if self.max_input_tokens is None else str(self.max_input_tokens),
            "max_output_tokens": None if self.max_output_tokens is None else str(self.max_output_tokens),
            "valid_from": None if self.valid_from is None else self.valid_from.isoformat(),
            "valid_until": None if self.valid_until is None else self.valid_until.isoformat(),
        }
        if self.regions:
            document["regions"] = {region: plain(factor) for region, factor in sorted(self.regions)}
        return document

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
                Rate(
                    r["bucket"], r["tier"], int(r["above"]), Decimal(r["price"]), int(r["per"]),
                    "marginal" in r, r.get("window", ""),
                )
                for r in document["rates"]
            ),
            max_input_tokens=_integer(document["max_input_tokens"]),
            max_output_tokens=_integer(document["max_output_tokens"]),
            valid_from=as_instant(document["valid_from"]),
            valid_until=as_instant(document["valid_until"]),
            regions=tuple((region, Decimal(factor)) for region, factor in document.get("regions", {}).items()),
        )  # fmt: skip

    @cached_property
    def digest(self) -> bytes:
        return digest("price-card", 1, self.to_document())

    @cached_property
    def models(self) -> frozenset[str]:
        """The names of the model that are written out."""
        return frozenset(name for name in (self.model, *self.aliases) if "*" not in name)

    @cached_property
    def _patterns(self) -> tuple[re.Pattern[str], ...]:
        return tuple(
            re.compile(".*".join(map(re.escape, alias.split("*"))), re.IGNORECASE | re.DOTALL)
            for alias in self.aliases
            if "*" in alias
        )

    def serves(self, name: str) -> bool:
        """True if the model may be asked for, or served, under the name."""
        return name in self.models or any(pattern.fullmatch(name) for pattern in self._patterns)

    def in_force(self, at: datetime) -> bool:
        return (self.valid_from is None or self.valid_from <= at) and (
            self.valid_until is None or at < self.valid_until
        )

    def in_region(self, region: str) -> "PriceCard | None":
        """The card with the prices of a region; None if it has regions, and not this one. Without regions it is the same in all."""
        if not self.regions or not region:
            return self
        if region not in self._by_region:
            factor = dict(self.regions).get(region)
            self._by_region[region] = None if factor is None else replace(self, regions=(), rates=self._times(factor))
        return self._by_region[region]

    def _times(self, factor: Decimal) -> tuple[Rate, ...]:
        return tuple(
            r._replace(price=CONTEXT.multiply(r.price, factor)) if GROUP_OF_BUCKET[r.bucket] in TOKEN_GROUPS else r
            for r in self.rates
        )

    @cached_property
    def sold(self) -> frozenset[str]:
        """The service tiers that have a price."""
        return frozenset(r.service_tier for r in self.rates)

    @cached_property
    def _ladders(self) -> Mapping[tuple[str, str], Mapping[str, Ladder]]:
        """The rates of each bucket and tier, by their window."""
        ladders: dict[tuple[str, str], dict[str, Ladder]] = {}
        for rate in sorted(self.rates, key=lambda r: r.above, reverse=True):
            windows = ladders.setdefault((rate.bucket, rate.service_tier), {})
            windows[rate.window] = (*windows.get(rate.window, ()), rate)
        return ladders

    @cached_property
    def _plain(self) -> Mapping[tuple[str, str], Ladder]:
        """The ladders that are the same at any time of the day."""
        return {key: windows[""] for key, windows in self._ladders.items() if windows.keys() == {""}}

    def prices(self, bucket: str, service_tier: str) -> bool:
        return (bucket, service_tier) in self._ladders

    def ladder(self, bucket: str, service_tier: str, at: datetime | None) -> Ladder | None:
        """The rates of a bucket in a tier at a time, which is needed only if they change with it; None if it has none then."""
        key = (bucket, service_tier)
        found = self._plain.get(key)
        if found is not None or key not in self._ladders:
            return found
        if at is None:
            return None
        windows, moment = self._ladders[key], at.astimezone(UTC)
        minute = 60 * moment.hour + moment.minute
        return next((windows[w] for w in windows if w and covers(w, minute)), windows.get(""))


def _written(rate: Rate) -> dict[str, Any]:
    written: dict[str, Any] = {
        "bucket": rate.bucket,
        "tier": rate.service_tier,
        "above": str(rate.above),
        "price": plain(rate.price),
        "per": str(rate.per),
    }
    if rate.marginal:
        written["marginal"] = True
    if rate.window:
        written["window"] = rate.window
    return written


def _integer(text: str | None) -> int | None:
    return None if text is None else int(text)


def as_instant(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)
