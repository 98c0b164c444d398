"""Thresholds: from the contract's messages, and to them."""

from typing import Final

from ledger.domain.thresholds import HIGHEST_PERCENT, MOST_THRESHOLDS, NO_THRESHOLDS, Basis, Thresholds
from ledger.service.translate.fields import InvalidField, named, number, under
from ledger.v1 import budget_pb2 as pb

BASES: Final = {basis: pb.ThresholdBasis.Value(f"THRESHOLD_BASIS_{basis}") for basis in Basis}
_BASIS_OF = {int(value): basis for basis, value in BASES.items()}


def thresholds(message: pb.Thresholds, path: str) -> Thresholds:
    """Thresholds in ascending order; one that is named twice is a mistake."""
    with under(path):
        if not message.percents:
            if message.basis:
                raise InvalidField("basis", "is of no thresholds: name percents, or leave it out")
            return NO_THRESHOLDS
        if len(message.percents) > MOST_THRESHOLDS:
            raise InvalidField("percents", f"must be at most {MOST_THRESHOLDS}")
        percents = [number(p, f"percents[{i}]", 1, HIGHEST_PERCENT) for i, p in enumerate(message.percents)]
        if len(set(percents)) < len(percents):
            raise InvalidField("percents", "must name each percent once")
        return Thresholds(tuple(sorted(percents)), named(message.basis, "basis", _BASIS_OF))


def write_thresholds(message: pb.Thresholds, given: Thresholds) -> None:
    message.percents.extend(given.percents)
    if given.percents:
        message.basis = BASES[given.basis]
