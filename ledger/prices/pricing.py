"""spend-ledger price: recorded responses, priced by the cards of a catalogue."""

import argparse
import json
import sys
from datetime import UTC, datetime
from pathlib import Path

from ledger.domain.money import plain
from ledger.prices.files import UnfitFile, catalogue, usages
from ledger.usage.rows import PRICED, Priced, Pricer

DESCRIPTION = "Price recorded provider responses by a catalogue."
EPILOG = """
The catalogue is in the JSON form of genai-prices, with its extractors.
A row of the usages is {"body": …, "model": …, "extracted": [{"extractors":
[{"provider_id": …, "api_flavor": …}]}]}: the body is read once for each.

Prices that change are those in force at --at; the result names the others.
What is doubtful about a usage is in its reasons; it is priced all the same, for
nothing is settled here. No price is not zero: it is "unpriceable".

examples:
  spend-ledger price --catalogue data.json --usages usages.json --json
  spend-ledger price --catalogue data.json --usages usages.json \\
      --at 2026-08-15T12:00:00Z --json | jq 'select(.status != "priced")'
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--catalogue", required=True, type=Path, metavar="FILE", help="prices and extractors")
    parser.add_argument("--usages", required=True, type=Path, metavar="FILE", help="recorded responses")
    parser.add_argument("--at", type=moment, metavar="TIME", help="when the calls were made, ISO 8601 (now)")


def moment(text: str) -> datetime:
    """A time in ISO 8601; UTC if it says no zone."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a time such as 2026-08-15T12:00:00Z") from None
    return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)


def run(arguments: argparse.Namespace) -> int:
    pricer = Pricer(catalogue(arguments.catalogue), arguments.at or datetime.now(UTC))
    rows = usages(arguments.usages)
    write = sys.stdout.write
    try:
        for result in pricer.rows(rows):
            write((json.dumps(result.to_document()) if arguments.json else _line(result)) + "\n")
    except ValueError as error:
        raise UnfitFile(f"{arguments.usages}: {error}") from error
    return 0


def _line(result: Priced) -> str:
    amount = plain(result.amount) if result.status == PRICED else "-"
    words = (f"{result.row}", f"{result.provider_id}.{result.api_flavor}", result.status, amount)
    return "  ".join((*words, "; ".join(result.reasons))).rstrip()
