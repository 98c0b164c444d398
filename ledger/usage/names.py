"""The names of a model: what a match rule of genai-prices says, in the aliases that a card can have."""

from collections.abc import Iterable

from genai_prices.types import (
    ClauseContains,
    ClauseEndsWith,
    ClauseEquals,
    ClauseOr,
    ClauseStartsWith,
    MatchLogic,
    ModelInfo,
)


def aliases(model: ModelInfo, others: Iterable[ModelInfo], unsaid: list[str]) -> list[str]:
    """The aliases of a model; in one, `*` stands for any text. `unsaid` gets what no alias can say.

    `others` are the models that the catalogue tries before this one: a pattern that also fits a name of theirs would take
    it from them, so it is left out.
    """
    taken = {name for other in others for name in (other.id, *_written_out(other.match))}
    found = []
    for clause in _clauses(model.match):
        alias = _alias(clause)
        if alias is None or "*" in alias.strip("*"):
            unsaid.append(f"its names by the rule {clause} cannot be listed")
        elif "*" in alias and (theirs := next((name for name in sorted(taken) if clause.is_match(name.lower())), None)):
            unsaid.append(f"its names {alias} are left out: {theirs}, which is another model, is one of them")
        else:
            found.append(alias)
    return found


def _clauses(match: MatchLogic) -> list[MatchLogic]:
    return [inner for clause in match.or_ for inner in _clauses(clause)] if isinstance(match, ClauseOr) else [match]


def _written_out(match: MatchLogic) -> list[str]:
    return [clause.equals for clause in _clauses(match) if isinstance(clause, ClauseEquals)]


def _alias(clause: MatchLogic) -> str | None:
    match clause:
        case ClauseEquals():
            return clause.equals
        case ClauseStartsWith():
            return f"{clause.starts_with}*"
        case ClauseEndsWith():
            return f"*{clause.ends_with}"
        case ClauseContains():
            return f"*{clause.contains}*"
    return None
