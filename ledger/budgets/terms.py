"""On which terms a budget spends: its periods, what is carried over, and at which thresholds somebody is told."""

import argparse
import re
from datetime import UTC, datetime
from typing import Any

from ledger.client.calling import CannotReach
from ledger.v1 import budget_pb2

NONE = "none"
PERIODS = {
    NONE: budget_pb2.PERIOD_KIND_NONE,
    "day": budget_pb2.PERIOD_KIND_DAY,
    "week": budget_pb2.PERIOD_KIND_WEEK,
    "month": budget_pb2.PERIOD_KIND_MONTH,
}
ROLLOVERS = {NONE: budget_pb2.ROLLOVER_KIND_NONE, "all": budget_pb2.ROLLOVER_KIND_ALL}
BASES = {"used": budget_pb2.THRESHOLD_BASIS_USED, "spent": budget_pb2.THRESHOLD_BASIS_SPENT}
UNSPECIFIED = budget_pb2.THRESHOLD_BASIS_UNSPECIFIED
_LENGTH = re.compile(r"([0-9]{1,9})([smhd])")
_UNITS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}


def add_terms(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--every",
        type=_period,
        metavar="none|day|week|month|LENGTH",
        help="when the limit begins anew; a length is such as 6h or 10d (never)",
    )
    parser.add_argument("--zone", default="", help="with --every: whose clocks, such as Europe/Berlin (UTC)")
    parser.add_argument(
        "--from",
        dest="anchor",
        type=_instant,
        metavar="TIME",
        help="with --every: when one of the periods begins, ISO 8601; a LENGTH needs it",
    )
    parser.add_argument("--rollover", metavar="none|all|AMOUNT", help="what is carried over, at most (none)")
    parser.add_argument(
        "--thresholds", type=_percents, metavar="none|PERCENT,…", help="when the feed tells of it (50,80,100)"
    )
    parser.add_argument("--thresholds-of", choices=tuple(BASES), help="with --thresholds: percent of what (used)")


def terms(arguments: argparse.Namespace) -> dict[str, Any]:
    """What was said of them, as fields of a request; nothing of the rest."""
    found: dict[str, Any] = {}
    if (arguments.zone or arguments.anchor) and arguments.every is None:
        raise CannotReach("--zone and --from say more about periods: give --every with them.")
    if arguments.thresholds_of and not arguments.thresholds:
        raise CannotReach("--thresholds-of says of what the percents are: give --thresholds with it.")
    if arguments.every is not None:
        period = budget_pb2.Period(zone=arguments.zone)
        period.MergeFrom(arguments.every)
        if arguments.anchor is not None:
            period.anchor_time.FromDatetime(arguments.anchor)
        found["period"] = period
    if arguments.rollover:
        found["rollover"] = _rollover(arguments.rollover)
    if arguments.thresholds is not None:
        # Of no thresholds there is no basis.
        basis = BASES[arguments.thresholds_of or "used"] if arguments.thresholds else UNSPECIFIED
        found["thresholds"] = budget_pb2.Thresholds(percents=arguments.thresholds, basis=basis)
    return found


def _period(text: str) -> budget_pb2.Period:
    kind = PERIODS.get(text)
    if kind is not None:
        return budget_pb2.Period(kind=kind)
    given = _LENGTH.fullmatch(text)
    if given is None:
        raise argparse.ArgumentTypeError("must be none, day, week, month, or a length such as 90m, 6h or 10d")
    period = budget_pb2.Period(kind=budget_pb2.PERIOD_KIND_FIXED)
    period.length.seconds = int(given[1]) * _UNITS[given[2]]
    return period


def _instant(text: str) -> datetime:
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError("must be a time such as 2026-01-31T00:00:00Z") from None
    if at.tzinfo is None:
        raise argparse.ArgumentTypeError("must say how far it is from UTC, such as 2026-01-31T00:00:00Z")
    return at.astimezone(UTC)


def _rollover(text: str) -> budget_pb2.Rollover:
    kind = ROLLOVERS.get(text)
    if kind is None:
        return budget_pb2.Rollover(kind=budget_pb2.ROLLOVER_KIND_CAP, cap=text)
    return budget_pb2.Rollover(kind=kind)


def _percents(text: str) -> list[int]:
    if text == NONE:
        return []
    if not re.fullmatch(r"[0-9]{1,4}(,[0-9]{1,4})*", text):
        raise argparse.ArgumentTypeError("must be percents such as 50,80,100, or none")
    return [int(percent) for percent in text.split(",")]
