"""Says how a quote came about, line by line."""

from ledger.domain.cards import INPUT_GROUP, OUTPUT_GROUP, PriceCard, Rate
from ledger.domain.money import plain
from ledger.domain.offers import offer
from ledger.domain.quotes import Quote, QuoteLine, QuoteSpec


def explain(spec: QuoteSpec, card: PriceCard | None, quoted: Quote) -> tuple[str, ...]:
    """A sentence for each line of a quote that was made from the spec and the card; one for an amount that was given."""
    if card is None:
        return (f"{plain(quoted.amount)} {quoted.currency} as given: {quoted.reason}",)
    there = card.in_region(spec.region)
    offered = None if there is None else offer(there, spec.service_tier)
    assert offered is not None, "the quote was made from this card"
    prompt = next((line.quantity for line in quoted.lines if line.group == INPUT_GROUP), 0)
    sentences = []
    for line in quoted.lines:
        top = offered.groups[line.group].top(prompt, line.quantity)
        assert top is not None, "the quote was made from this card"
        sentences.append(
            f"{line.group}: {line.quantity} {_bound(spec, card, line)} at {plain(line.rate)} for {line.per}, {_rate(top.highest)}"
            f"{_region(spec, card, line)}: {plain(line.amount)} {quoted.currency}"
        )
    return tuple(sentences)


def _bound(spec: QuoteSpec, card: PriceCard, line: QuoteLine) -> str:
    """Where the ceiling comes from."""
    asked = dict(spec.ceilings).get(line.group)
    own = {INPUT_GROUP: card.max_input_tokens, OUTPUT_GROUP: card.max_output_tokens}.get(line.group)
    if asked is None:
        source = "not asked for" if own is None else "the model's own limit"
    elif own is not None and asked > own:
        source = f"the model's own limit, lowered from {asked}"
    else:
        source = "as asked"
    each = f", for each of {spec.choices} choices" if line.group == OUTPUT_GROUP and spec.choices > 1 else ""
    if line.group == "requests" and not asked:
        source = "a request is one at least"
    return f"({source}{each})"


def _rate(rate: Rate) -> str:
    """Which rate of the card is the highest that can apply."""
    said = f"the price of {rate.bucket} in tier {rate.service_tier}"
    if rate.above:
        said += f" beyond {rate.above} {'of them' if rate.marginal else 'tokens of prompt'}"
    return said + (f" from {rate.window} UTC" if rate.window else "")


def _region(spec: QuoteSpec, card: PriceCard, line: QuoteLine) -> str:
    regional = card.regions and spec.region and line.group in (INPUT_GROUP, OUTPUT_GROUP)
    return f", times {plain(dict(card.regions)[spec.region])} in region {spec.region}" if regional else ""
