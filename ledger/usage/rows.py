"""Prices recorded responses by the cards of a catalogue: the pure arithmetic of a settlement, without any ledger."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any, NamedTuple

from genai_prices.types import ModelInfo, Provider, TimeOfDateConstraint

from ledger.domain.cards import GROUP_OF_BUCKET, INPUT_GROUP, OUTPUT_GROUP, STANDARD_TIER
from ledger.domain.money import ZERO, plain, total
from ledger.domain.pricing import price
from ledger.usage.buckets import Untold, disjoint, parts_above_the_whole, without_bucket
from ledger.usage.cards import Made, changes, ends, price_card
from ledger.usage.catalogue import Catalogue
from ledger.usage.extraction import Reader, Reading, Unreadable
from ledger.usage.fields import at
from ledger.usage.shapes import served_tier

PRICED, UNPRICEABLE, REJECTED = "priced", "unpriceable", "rejected"


class Priced(NamedTuple):
    """One response, read as one provider and flavour.

    `status` is priced; unpriceable if the catalogue has no price for it; or rejected if its usage cannot be read.
    `amount` has the fees in it that are neither input nor output. `reasons` also says what is doubtful about a price.
    """

    row: int
    provider_id: str
    api_flavor: str
    status: str
    model: str = ""
    buckets: Mapping[str, int] = {}
    input_amount: Decimal = ZERO
    output_amount: Decimal = ZERO
    amount: Decimal = ZERO
    reported_cost: Mapping[str, Decimal] = {}
    reasons: tuple[str, ...] = ()

    def to_document(self) -> dict[str, Any]:
        """The result as JSON: amounts and costs as decimal text, null where there is no price."""
        document: dict[str, Any] = self._asdict()
        for name in ("input_amount", "output_amount", "amount"):
            document[name] = plain(document[name]) if self.status == PRICED else None
        document["reported_cost"] = {path: plain(cost) for path, cost in self.reported_cost.items()}
        document["reasons"] = list(self.reasons)
        return document


@dataclass
class Pricer:
    """Prices responses by a catalogue as it is in force at a time (timezone-aware)."""

    catalogue: Catalogue
    at: datetime
    _made: dict[tuple[str, str, datetime], Made] = field(default_factory=dict, repr=False)
    _readers: dict[tuple[str, str], Reader | None] = field(default_factory=dict, repr=False)

    def rows(self, rows: Sequence[Mapping[str, Any]]) -> Iterator[Priced]:
        """A result for each row and each provider and flavour that the row names. Raises ValueError if a row is in another form."""
        for number, row in enumerate(rows):
            try:
                body, asked = row["body"], row.get("model")
                readers = [(e["provider_id"], e["api_flavor"]) for seen in row["extracted"] for e in seen["extractors"]]
            except (LookupError, TypeError, AttributeError) as error:
                raise ValueError(f"row {number} is not in the form {{body, model, extracted}}: {error!r}") from error
            for provider, flavor in readers:
                yield self.one(number, body, asked, provider, flavor)

    def one(self, row: int, body: Any, asked: str | None, provider_id: str, flavor: str) -> Priced:
        """One response. `asked` is its model, if it is known otherwise than from the response."""
        result = Priced(row, provider_id, flavor, REJECTED)
        provider = self.catalogue.get(provider_id)
        if provider is None:
            return result._replace(status=UNPRICEABLE, reasons=(f"the catalogue has no provider {provider_id}",))
        reader = self._reader(provider, flavor)
        if reader is None:
            return result._replace(reasons=(f"the catalogue has no extractor {flavor} for {provider_id}",))
        return self._priced(result, provider, reader, body, asked)

    def _priced(self, result: Priced, provider: Provider, reader: Reader, body: Any, asked: str | None) -> Priced:
        try:
            reading = reader.read(body)
        except Unreadable as error:
            return result._replace(reasons=error.reasons)
        result = result._replace(
            reported_cost=reading.costs, reasons=(*reading.doubts, *without_bucket(reading.counts))
        )
        tier = served_tier(reader, body, at(body, *reader.root))
        if tier not in ("", STANDARD_TIER):
            result = result._replace(
                reasons=(*result.reasons, f"it was served in tier {tier!s:.64}: priced as {STANDARD_TIER}")
            )
        name = asked or reading.model
        model = provider.find_model(name.lower(), all_providers=list(self.catalogue.values())) if name else None
        if model is None:
            return result._replace(
                status=UNPRICEABLE,
                model=name,
                buckets=_told(reading),
                reasons=(*result.reasons, f"the catalogue has no model {name!r} for {provider.id}"),
            )
        return self._at_the_card(result._replace(model=model.id), reading, provider, model)

    def _at_the_card(self, result: Priced, reading: Reading, provider: Provider, model: ModelInfo) -> Priced:
        priced = self._at(self.at, result, reading, provider, model)
        notes = []
        for other in _other_times(model, self.at):
            then = self._at(other, result, reading, provider, model)
            if then.status == PRICED and then.amount != priced.amount:
                amounts = f"{plain(then.input_amount)} for input and {plain(then.output_amount)} for output"
                notes.append(f"priced as at {_written(self.at)}; at {_written(other)} it was or will be {amounts}")
        return priced._replace(reasons=(*priced.reasons, *notes))

    def _at(self, at: datetime, result: Priced, reading: Reading, provider: Provider, model: ModelInfo) -> Priced:
        made = self._card(provider, model, at)
        try:
            buckets = disjoint(reading.counts, made.apart)
        except Untold as error:
            return result._replace(reasons=(*result.reasons, str(error)))
        wrong = parts_above_the_whole(buckets)
        if wrong:
            return result._replace(buckets=buckets, reasons=(*result.reasons, *wrong))
        if made.card is None:
            # The catalogue knows the model and gives it no price: that is not a price of zero.
            return result._replace(status=UNPRICEABLE, buckets=buckets, reasons=(*result.reasons, *made.unsaid))
        if made.card.prices("requests", STANDARD_TIER):
            buckets["requests"] = 1
        lines, unpriced = price(made.card, buckets, STANDARD_TIER, at)
        amounts = {
            group: total(line.amount for line in lines if GROUP_OF_BUCKET[line.bucket] == group)
            for group in (INPUT_GROUP, OUTPUT_GROUP)
        }
        return result._replace(
            status=UNPRICEABLE if unpriced and not lines else PRICED,
            buckets=buckets,
            input_amount=amounts[INPUT_GROUP],
            output_amount=amounts[OUTPUT_GROUP],
            amount=total(line.amount for line in lines),
            reasons=(*result.reasons, *unpriced),
        )

    def _reader(self, provider: Provider, flavor: str) -> Reader | None:
        key = (provider.id, flavor)
        if key not in self._readers:
            found = next((e for e in provider.extractors or () if e.api_flavor == flavor), None)
            self._readers[key] = None if found is None else Reader(found)
        return self._readers[key]

    def _card(self, provider: Provider, model: ModelInfo, at: datetime) -> Made:
        key = (provider.id, model.id, at)
        if key not in self._made:
            self._made[key] = price_card(model, provider.id, at, tenant="", card_id=model.id)
        return self._made[key]


def _other_times(model: ModelInfo, at: datetime) -> list[datetime]:
    """Times at which a model that changes its prices may have had, or will have, others: by date, and of the same day."""
    others = [change - timedelta(seconds=1) for change in changes(model)] + changes(model)[-1:]
    if isinstance(model.prices, list):
        for entry in model.prices:
            if isinstance(entry.constraint, TimeOfDateConstraint):
                others += [
                    at.replace(hour=t.hour, minute=t.minute, second=0, microsecond=0) for t in ends(entry.constraint)
                ]
    return others


def _written(at: datetime) -> str:
    return f"{at:%Y-%m-%dT%H:%M:%SZ}"


def _told(reading: Reading) -> dict[str, int]:
    try:
        return disjoint(reading.counts)
    except Untold:
        return {}
