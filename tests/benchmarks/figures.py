"""What was measured: each figure once per trial, its median and its range."""

import statistics
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

# Figures that are the quotient of two others of the same trial.
RATIOS = {
    "unary_over_noop": ("unary_rps", "noop_unary_rps"),
    "batch_over_raw": ("batch_lifecycles_per_s", "raw_sql_lifecycles_per_s"),
    "batch_two_servers_over_raw": ("batch_two_servers_lifecycles_per_s", "raw_sql_lifecycles_per_s"),
    "hot_over_spread": ("hot_rps", "spread_rps"),
    "coalesced_over_alone": ("coalesced_lifecycles_per_s", "alone_lifecycles_per_s"),
    "four_levels_over_one": ("four_levels_lifecycles_per_s", "one_level_lifecycles_per_s"),
    "grown_over_young": ("grown_lifecycles_per_s", "young_lifecycles_per_s"),
    "read_grown_over_young": ("grown_read_median_ms", "young_read_median_ms"),
    "as_sent_over_buckets": ("resolves_as_sent_per_s", "resolves_in_buckets_per_s"),
    "guarded_over_raw": ("guarded_lifecycle_ms", "raw_lifecycle_ms"),
}


@dataclass(frozen=True, slots=True)
class Figure:
    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Iterable[float]) -> "Figure":
        ordered = sorted(values)
        return cls(statistics.median(ordered), ordered[0], ordered[-1])


class Notes:
    """Values as the trials give them."""

    def __init__(self) -> None:
        self._values: dict[str, list[float]] = defaultdict(list)

    def note(self, name: str, value: float) -> None:
        self._values[name].append(value)

    def figures(self) -> dict[str, Figure]:
        """Every figure that was measured, the ratios among them: a ratio is taken within each trial."""
        figures = {name: Figure.of(values) for name, values in self._values.items()}
        for name, (above, below) in RATIOS.items():
            if above not in self._values:
                continue
            pairs = zip(self._values[above], self._values[below], strict=True)
            figures[name] = Figure.of([a / b for a, b in pairs])
        return figures

    def highest(self, name: str) -> float:
        return max(self._values[name])

    def total(self, name: str) -> int:
        return int(sum(self._values[name]))


def document(notes: Notes) -> dict[str, Any]:
    """The figures for programs: medians by name, and the ranges beside them."""
    figures = notes.figures()
    plain: dict[str, Any] = {
        name: _rounded(figure.median)
        for name, figure in figures.items()
        if name not in ("server_peak_rss_mb", "mismatches")
    }
    plain["server_peak_rss_mb"] = _rounded(notes.highest("server_peak_rss_mb"))
    plain["ledger_mismatches"] = notes.total("mismatches")
    plain["ranges"] = {name: [_rounded(figure.low), _rounded(figure.high)] for name, figure in figures.items()}
    return plain


def _rounded(value: float) -> float:
    return round(value, 3) if value < 10 else round(value, 1)
