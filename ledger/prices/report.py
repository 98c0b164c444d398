"""What an import comes to: counts, reasons, and the difference to what stands."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from ledger.domain.cards import PriceCard
from ledger.domain.money import plain
from ledger.usage.imports import Entry, label

# The newest version of each card of the ledger, by its id, and the card.
Standing: TypeAlias = Mapping[str, tuple[int, PriceCard]]
MOST_SHOWN = 20


class Taken(NamedTuple):
    """An entry of the catalogue, and the earlier one with the same card and the same rates, if there is one."""

    entry: Entry
    same_as: str = ""

    @property
    def status(self) -> str:
        """taken; partly, if the card does not say all of it; or refused."""
        if self.entry.card is None:
            return "refused"
        return "partly" if self.entry.unsaid else "taken"


def report(taken: Sequence[Taken], standing: Standing, *, compared: bool) -> dict[str, Any]:
    """Every entry with what became of it, as JSON. Without a ledger to compare with there is no `change`."""
    models = [_model(each, standing, compared) for each in taken]
    statuses = Counter(each.status for each in taken)
    counts = {"entries": len(taken)} | {status: statuses[status] for status in ("taken", "partly", "refused")}
    counts["same_card"] = sum(1 for each in taken if each.same_as)
    counts["rounded"] = sum(1 for each in taken if each.entry.rounded)
    if compared:
        changes = Counter(model.get("change") for model in models)
        counts |= {change: changes[change] for change in ("new", "changed", "unchanged")}
    return {
        "counts": counts,
        "refused": dict(Counter(reason for each in taken for reason in each.entry.reasons).most_common()),
        "unsaid": dict(Counter(sentence for each in taken for sentence in each.entry.unsaid).most_common()),
        "models": models,
    }


def _model(taken: Taken, standing: Standing, compared: bool) -> dict[str, Any]:
    entry, card = taken.entry, taken.entry.card
    model: dict[str, Any] = {"name": entry.name, "status": taken.status}
    for name, sentences in (("reasons", entry.reasons), ("unsaid", entry.unsaid), ("rounded", entry.rounded)):
        if sentences:
            model[name] = list(sentences)
    if card is None:
        return model
    model["card_id"] = card.card_id
    if taken.same_as:
        model["same_as"] = taken.same_as
    elif compared:
        _, stands = standing.get(card.card_id, (0, None))
        same = stands is not None and stands.digest == card.digest
        model["change"] = "new" if stands is None else "unchanged" if same else "changed"
        if stands is not None and not same:
            model["difference"] = list(difference(stands, card))
    return model


def difference(before: PriceCard, after: PriceCard) -> Iterator[str]:
    """Sentences about what a new version changes."""
    old, new = ({label(rate): f"{plain(rate.price)} for {rate.per}" for rate in card.rates} for card in (before, after))
    for name in sorted(old.keys() | new.keys()):
        if old.get(name) != new.get(name):
            yield f"{name}: {old.get(name, 'no price')} becomes {new.get(name, 'no price')}"
    was, becomes = before.to_document(), after.to_document()
    for name in sorted((was.keys() | becomes.keys()) - {"rates"}):
        if was.get(name) != becomes.get(name):
            yield f"{name}: {was.get(name)} becomes {becomes.get(name)}"


def lines(found: Mapping[str, Any]) -> Iterator[str]:
    """The report for people: the counts, and the most frequent reasons."""
    yield "  ".join(f"{name.replace('_', ' ')} {count:,}" for name, count in found["counts"].items())
    for title, key in (("refused, because", "refused"), ("what a card cannot say", "unsaid")):
        if found[key]:
            yield f"\n{title}:"
            for sentence, count in [*found[key].items()][:MOST_SHOWN]:
                yield f"  {count:>6,}  {sentence}"
            if len(found[key]) > MOST_SHOWN:
                yield f"  and {len(found[key]) - MOST_SHOWN:,} more: --json has them all"
    changed = [model for model in found["models"] if "difference" in model]
    if changed:
        yield "\nchanges:"
        for model in changed[:MOST_SHOWN]:
            yield f"  {model['card_id']}"
            yield from (f"    {sentence}" for sentence in model["difference"])
        if len(changed) > MOST_SHOWN:
            yield f"  and {len(changed) - MOST_SHOWN:,} more cards: --json has them all"
