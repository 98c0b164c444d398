"""Price cards, to the domain and back."""

from collections.abc import Iterable
from itertools import combinations

from ledger.domain.cards import (
    GROUP_OF_BUCKET,
    MAX_QUANTITY,
    MAX_RANGES,
    STANDARD_TIER,
    PriceCard,
    Rate,
    covers,
    minutes,
)
from ledger.domain.money import plain
from ledger.service.translate.answers import write_time
from ledger.service.translate.fields import (
    InvalidField,
    currency,
    empty_or_identifier,
    entries,
    identifier,
    instant,
    price,
    quantity,
)
from ledger.v1 import price_pb2

MAX_RATES = 512
MAX_ALIASES = 64
MAX_REGIONS = 64
PER_MILLION = 1_000_000


def read_card(message: price_pb2.PriceCard, tenant: str) -> PriceCard:
    """The card of a request. Raises InvalidField."""
    if message.version or message.digest:
        raise InvalidField("version" if message.version else "digest", "is given by the server: leave it out")
    aliases = tuple(read_alias(alias) for alias in message.aliases)
    if len(aliases) > MAX_ALIASES or len(set(aliases)) != len(aliases):
        raise InvalidField("aliases", f"must be at most {MAX_ALIASES}, each once")
    if not 1 <= len(message.rates) <= MAX_RATES:
        raise InvalidField("rates", f"must be 1 to {MAX_RATES}")
    rates = tuple(_rate(rate, f"rates[{i}]") for i, rate in enumerate(message.rates))
    _check_together(rates)
    valid_from = instant(message.valid_from, "valid_from") if message.HasField("valid_from") else None
    valid_until = instant(message.valid_until, "valid_until") if message.HasField("valid_until") else None
    if valid_from is not None and valid_until is not None and valid_until <= valid_from:
        raise InvalidField("valid_until", "must be after valid_from")
    if len(message.region_multipliers) > MAX_REGIONS:
        raise InvalidField("region_multipliers", f"must be at most {MAX_REGIONS}")
    return PriceCard(
        tenant,
        identifier(message.card_id, "card_id"),
        0,
        identifier(message.provider, "provider"),
        identifier(message.model, "model"),
        aliases,
        currency(message.currency, "currency"),
        rates,
        quantity(message.max_input_tokens, "max_input_tokens") or None,
        quantity(message.max_output_tokens, "max_output_tokens") or None,
        valid_from,
        valid_until,
        tuple(
            (identifier(region, "region_multipliers"), price(factor, f"region_multipliers[{region}]"))
            for region, factor in entries(message.region_multipliers)
        ),
    )


def write_card(message: price_pb2.PriceCard, card: PriceCard) -> None:
    message.card_id = card.card_id
    message.version = card.version
    message.provider = card.provider
    message.model = card.model
    message.aliases.extend(card.aliases)
    message.currency = card.currency
    for rate in card.rates:
        message.rates.add(
            bucket=rate.bucket,
            service_tier=rate.service_tier,
            above_input_tokens=rate.above,
            price=plain(rate.price),
            per=rate.per,
            marginal=rate.marginal,
            window=rate.window,
        )
    message.max_input_tokens = card.max_input_tokens or 0
    message.max_output_tokens = card.max_output_tokens or 0
    if card.valid_from is not None:
        write_time(message.valid_from, card.valid_from)
    if card.valid_until is not None:
        write_time(message.valid_until, card.valid_until)
    message.digest = card.digest.hex()
    for region, factor in card.regions:
        message.region_multipliers[region] = plain(factor)


def read_alias(alias: str) -> str:
    """An alias of a request. Raises InvalidField."""
    if not alias.strip("*"):
        raise InvalidField("aliases", "must name something: * alone stands for any text")
    identifier(alias.replace("*", "x"), "aliases")
    return alias


def _rate(message: price_pb2.Rate, path: str) -> Rate:
    if message.bucket not in GROUP_OF_BUCKET:
        raise InvalidField(f"{path}.bucket", f"must be one of {', '.join(GROUP_OF_BUCKET)}")
    if not 0 <= message.per <= MAX_QUANTITY:
        raise InvalidField(f"{path}.per", f"must be 0 (which is {PER_MILLION}) to {MAX_QUANTITY}")
    above = quantity(message.above_input_tokens, f"{path}.above_input_tokens")
    if message.inclusive:
        # A threshold of 0 is no threshold, so it cannot stand for "at least 1".
        if above < 2 or message.marginal:
            raise InvalidField(f"{path}.inclusive", "needs a threshold of at least 2, and a rate that is not marginal")
        above -= 1
    if message.window and minutes(message.window) is None:
        raise InvalidField(f"{path}.window", 'must be two different times of the day, such as "16:30-00:30"')
    return Rate(
        message.bucket,
        empty_or_identifier(message.service_tier, f"{path}.service_tier") or STANDARD_TIER,
        above,
        price(message.price, f"{path}.price"),
        message.per or PER_MILLION,
        message.marginal,
        message.window,
    )


def _check_together(rates: Iterable[Rate]) -> None:
    """What the rates of one bucket and tier must be to each other, so that one alone applies at any time."""
    found: dict[tuple[str, str], dict[str, list[Rate]]] = {}
    for rate in rates:
        found.setdefault((rate.bucket, rate.service_tier), {}).setdefault(rate.window, []).append(rate)
    for windows in found.values():
        together = [rate for ladder in windows.values() for rate in ladder]
        if any(len({rate.above for rate in ladder}) < len(ladder) for ladder in windows.values()):
            raise InvalidField("rates", "must not price one bucket, tier, threshold and window twice")
        if len({rate.marginal for rate in together}) > 1:
            raise InvalidField("rates", "must be marginal for all of a bucket and tier, or for none")
        if together[0].marginal and any(
            len(ladder) > MAX_RANGES or min(rate.above for rate in ladder) for ladder in windows.values()
        ):
            raise InvalidField(
                "rates", f"must begin at the threshold 0 if they are marginal, and be at most {MAX_RANGES}"
            )
        for one, other in combinations(filter(None, windows), 2):
            begins = [(minutes(window) or (0, 0))[0] for window in (one, other)]
            if covers(other, begins[0]) or covers(one, begins[1]):
                raise InvalidField("rates", f"must not have windows that overlap, as {one} and {other} do")
