"""spend-ledger prices import: a catalogue, put into the ledger as price cards."""

import argparse
import asyncio
import hashlib
import json
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path

from ledger.client import Ledger
from ledger.client.calling import TOKEN_VARIABLE, CannotReach, add_root_certificate, calling
from ledger.domain.cards import PriceCard
from ledger.prices import files
from ledger.prices.pricing import moment
from ledger.prices.report import Standing, Taken, lines, report
from ledger.service.translate.cards import read_alias, read_card, write_card
from ledger.service.translate.fields import InvalidField
from ledger.usage.imports import Entry, sane
from ledger.v1 import price_pb2

AT_ONCE = 32
PAGE = 1000
DESCRIPTION = "Put the prices of a catalogue into the ledger."
EPILOG = f"""
Each model becomes a price card, by the name provider/model, with a new version
if it differs from the one that stands. The same import again changes nothing.
What the catalogue has and a card cannot say is listed, entry by entry. Rates
are read to 12 significant digits. A rate above 0.1 USD per token is refused
unless its entry is named by --allow; one that is negative or no number always.

--dry-run puts nothing. With --server it shows what would change.
The token of a caller (finance or admin) is read from {TOKEN_VARIABLE}.

examples:
  spend-ledger prices import --format litellm prices.json --dry-run
  spend-ledger prices import --format genai-prices data.json \\
      --server 127.0.0.1:7443 --json | jq .counts
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", type=Path, metavar="FILE")
    parser.add_argument("--format", required=True, choices=("genai-prices", "litellm"), help="what the file is")
    parser.add_argument("--dry-run", action="store_true", help="put nothing")
    parser.add_argument("--server", metavar="HOST:PORT", help="the ledger; not needed for a dry run")
    add_root_certificate(parser)
    parser.add_argument("--allow", action="append", default=[], metavar="MODEL", help="believe the rates of this entry")
    parser.add_argument("--at", type=moment, metavar="TIME", help="the prices in force at this time, ISO 8601 (now)")


def run(arguments: argparse.Namespace) -> int:
    at = arguments.at or datetime.now(UTC)
    found = files.entries(arguments.format, arguments.file, at)
    taken = fitted(sane(entry, arguments.allow) for entry in found)
    standing: Standing = {}
    if arguments.server is not None:
        standing = asyncio.run(_compared(arguments, taken))
    elif not arguments.dry_run:
        raise CannotReach("--server says which ledger to put the cards into; --dry-run needs none.")
    told = report(taken, standing, compared=arguments.server is not None)
    print(json.dumps(told) if arguments.json else "\n".join(lines(told)))
    return 0


def fitted(entries: Iterable[Entry]) -> list[Taken]:
    """The entries with the cards that the ledger would take, in their order: each card once, and in the ledger's own form."""
    by_id: dict[str, tuple[str, PriceCard]] = {}
    found = []
    for given in entries:
        entry, same_as = _fit(given), ""
        if entry.card is not None:
            first, card = by_id.setdefault(entry.card.card_id, (entry.name, entry.card))
            if first != entry.name and card.rates == entry.card.rates:
                same_as = first
            elif first != entry.name:
                entry = entry.refused(f"its card would be that of {first}, which has other prices")
        found.append(Taken(entry, same_as))
    return found


def _fit(entry: Entry) -> Entry:
    if entry.card is None:
        return entry
    message = price_pb2.PriceCard()
    write_card(message, entry.card)
    message.ClearField("digest")
    unsaid = []
    for alias in entry.card.aliases:
        try:
            read_alias(alias)
        except InvalidField as invalid:
            message.aliases.remove(alias)
            unsaid.append(f"its name {alias} cannot be an alias: it {invalid.rule}")
    try:
        return entry._replace(card=read_card(message, ""), unsaid=(*entry.unsaid, *unsaid))
    except InvalidField as invalid:
        return entry.refused(f"{invalid.path} {invalid.rule}")


async def _compared(arguments: argparse.Namespace, taken: Sequence[Taken]) -> Standing:
    """The cards that stood before; and unless it is a dry run, those that differ were put."""
    async with calling(arguments) as ledger:
        standing = await _standing(ledger)
        if not arguments.dry_run:
            await _put(ledger, [t.entry.card for t in taken if t.entry.card is not None and not t.same_as], standing)
        return standing


async def _standing(ledger: Ledger) -> Standing:
    standing, token = {}, ""
    while True:
        request = price_pb2.ListPriceCardsRequest(page_size=PAGE, page_token=token)
        page = await ledger.ask(ledger.stubs.prices.ListPriceCards, request)
        for message in page.cards:
            version = message.version
            message.ClearField("version")
            message.ClearField("digest")
            standing[message.card_id] = (version, read_card(message, ""))
        token = page.next_page_token
        if not token:
            return standing


async def _put(ledger: Ledger, cards: Sequence[PriceCard], standing: Standing) -> None:
    waiting = iter(cards)

    async def worker() -> None:
        for card in waiting:
            version, stands = standing.get(card.card_id, (0, None))
            if stands is None or stands.digest != card.digest:
                message = price_pb2.PriceCard()
                write_card(message, card)
                message.ClearField("digest")
                request = price_pb2.PutPriceCardRequest(idempotency_key=_key(card, version), card=message)
                await ledger.ask(ledger.stubs.prices.PutPriceCard, request)

    await asyncio.gather(*(worker() for _ in range(AT_ONCE)))


def _key(card: PriceCard, version: int) -> str:
    """One key for this content in the place of that version: an import that was cut short goes on where it was."""
    content = f"{card.card_id}\n{version}\n{card.digest.hex()}"
    return f"import-{hashlib.sha256(content.encode()).hexdigest()}"
