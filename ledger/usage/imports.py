"""What a catalogue comes to, entry by entry: the cards that can be made of it, and all that they cannot say."""

from collections.abc import Collection, Iterator
from datetime import datetime
from decimal import ROUND_HALF_EVEN, Context, Decimal
from typing import NamedTuple

from ledger.domain.cards import GROUP_OF_BUCKET, TOKEN_GROUPS, PriceCard, Rate
from ledger.domain.money import plain
from ledger.usage.cards import changes, price_card
from ledger.usage.catalogue import read_catalogue

# Prices that came through a binary floating point number have noise behind their 15th digit.
_DIGITS = Context(prec=12, rounding=ROUND_HALF_EVEN)
_MOST_PER_TOKEN = Decimal("0.1")
NO_PRICE = "no price of it fits a card"


class Entry(NamedTuple):
    """An entry of a catalogue. Without a card it is refused for `reasons`; `unsaid` is what the card cannot say of it.

    `rounded` are the rates that were read to 12 significant digits and changed by it.
    """

    name: str
    card: PriceCard | None
    reasons: tuple[str, ...] = ()
    unsaid: tuple[str, ...] = ()
    rounded: tuple[str, ...] = ()

    def refused(self, *reasons: str) -> "Entry":
        return self._replace(card=None, reasons=(*self.reasons, *reasons))


def genai_entries(text: str, at: datetime) -> Iterator[Entry]:
    """The models of a catalogue of genai-prices, as their providers price them at a time. Raises CatalogueError."""
    refused: dict[str, str] = {}
    catalogue = read_catalogue(text, refused=refused)
    yield from (Entry(name, None).refused(reason) for name, reason in refused.items())
    for provider in catalogue.values():
        for number, model in enumerate(provider.models):
            name = f"{provider.id}/{model.id}"
            made = price_card(model, provider.id, at, tenant="", card_id=name, others=provider.models[:number])
            later = [
                f"its prices change on {change.date()}: import again then" for change in changes(model) if change > at
            ]
            if made.card is None:
                yield Entry(name, None, unsaid=made.unsaid[:-1]).refused(NO_PRICE)
            else:
                yield Entry(name, made.card, unsaid=(*made.unsaid, *later))


def sane(entry: Entry, allowed: Collection[str]) -> Entry:
    """The entry with its rates to 12 significant digits; refused if one is not to be believed and its name is not in `allowed`."""
    if entry.card is None:
        return entry
    rates, rounded = [], []
    for rate in entry.card.rates:
        price = _DIGITS.plus(rate.price)
        if price != rate.price:
            rounded.append(f"{label(rate)}: {plain(rate.price)} is read as {plain(price)}")
        rates.append(rate._replace(price=price))
    above = {
        f"{label(rate)}: {plain(rate.price)} for {rate.per} is above {_MOST_PER_TOKEN} USD per token"
        for rate in rates
        if GROUP_OF_BUCKET[rate.bucket] in TOKEN_GROUPS and rate.price > _MOST_PER_TOKEN * rate.per
    }
    if above and entry.name not in allowed:
        return entry.refused(*sorted(above))
    return entry._replace(card=_with_rates(entry.card, rates), rounded=tuple(rounded))


def label(rate: Rate) -> str:
    """Which rate it is, in a few words."""
    beyond = f" beyond {rate.above}" if rate.above else ""
    return f"{rate.bucket} in tier {rate.service_tier}{beyond}{f' at {rate.window} UTC' if rate.window else ''}"


def _with_rates(card: PriceCard, rates: list[Rate]) -> PriceCard:
    return PriceCard(
        card.tenant, card.card_id, card.version, card.provider, card.model, card.aliases, card.currency, tuple(rates),
        card.max_input_tokens, card.max_output_tokens, card.valid_from, card.valid_until, card.regions,
    )  # fmt: skip
