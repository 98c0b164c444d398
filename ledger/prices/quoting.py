"""spend-ledger quote: what a call may cost at most, line by line. Nothing is set aside."""

import argparse
import asyncio
import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from ledger.client.calling import CannotReach, add_root_certificate, calling
from ledger.domain.cards import GROUPS, MAX_QUANTITY, STANDARD_TIER, PriceCard
from ledger.domain.explain import explain
from ledger.domain.money import ZERO, plain
from ledger.domain.quotes import QuoteKind, QuoteSpec, quote
from ledger.domain.refusals import Refusal
from ledger.prices import files
from ledger.prices.importing import fitted
from ledger.prices.pricing import moment
from ledger.usage.imports import sane
from ledger.v1 import hold_pb2, price_pb2

DONE, UNQUOTABLE = 0, 1
DESCRIPTION = "Say what a call may cost at most, and why."
EPILOG = """
The card is one of a ledger (--server; its token is in SPEND_LEDGER_TOKEN), or
what a catalogue would become (--catalogue), by the name provider/model.

Each group of buckets is bounded by a ceiling: what is asked for, lowered to the
model's own limit. It is quoted at the highest rate that can apply: of every
kind of token in it, in the asked tier or the standard one, at any time.
Exit status 1 if there is no finite price; the answer says what is missing.

examples:
  spend-ledger quote --catalogue litellm:prices.json openai/gpt-5 \\
      --ceiling input_tokens=20000 --ceiling output_tokens=4000 --tier priority
  spend-ledger quote --server 127.0.0.1:7443 openai/gpt-5 --choices 3
"""


class Answer(NamedTuple):
    """A quote and its explanation; or with an empty amount why there is none."""

    amount: str
    currency: str
    lines: Sequence[str]
    clamped: Sequence[str]
    missing: str = ""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("card", metavar="CARD", help="the card, by its id: provider/model")
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--server", metavar="HOST:PORT", help="the ledger that has the card")
    where.add_argument(
        "--catalogue",
        type=_source,
        metavar="FORMAT:FILE",
        help="litellm:FILE or genai-prices:FILE to make the card from",
    )
    add_root_certificate(parser)
    parser.add_argument(
        "--ceiling",
        action="append",
        type=_ceiling,
        default=[],
        metavar="GROUP=N",
        help="the most of a group, such as output_tokens=4000",
    )
    parser.add_argument("--model", default="", help="the name that will be asked for (the card's own)")
    parser.add_argument("--tier", default=STANDARD_TIER, help="the service tier that will be asked for (standard)")
    parser.add_argument("--region", default="", help="the region that will be asked for")
    parser.add_argument("--choices", type=_choices, default=1, help="how many answers will be asked for (1)")
    parser.add_argument(
        "--at", type=moment, metavar="TIME", help="the prices of a catalogue in force at this time (now)"
    )


def _source(text: str) -> tuple[str, Path]:
    form, _, path = text.partition(":")
    if form not in ("litellm", "genai-prices") or not path:
        raise argparse.ArgumentTypeError(f"{text!r} is not litellm:FILE or genai-prices:FILE")
    return form, Path(path)


def _choices(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of answers, from 1 upwards")
    return int(text)


def _ceiling(text: str) -> tuple[str, int]:
    group, _, most = text.partition("=")
    if group not in GROUPS or not most.isdecimal() or int(most) > MAX_QUANTITY:
        raise argparse.ArgumentTypeError(f"{text!r} is not GROUP=N, of the groups {', '.join(GROUPS)}")
    return group, int(most)


def run(arguments: argparse.Namespace) -> int:
    ceilings = dict(arguments.ceiling)
    answer = asyncio.run(_ask(arguments, ceilings)) if arguments.server else _quote(arguments, ceilings)
    if arguments.json:
        print(json.dumps({**answer._asdict(), "amount": answer.amount or None}))
    elif answer.missing:
        print(f"UNQUOTABLE: {answer.missing}")
    else:
        print("\n".join((*answer.lines, f"at most {answer.amount} {answer.currency}")))
    return UNQUOTABLE if answer.missing else DONE


def _quote(arguments: argparse.Namespace, ceilings: Mapping[str, int]) -> Answer:
    at = arguments.at or datetime.now(UTC)
    form, path = arguments.catalogue
    card = _cards(form, path, at).get(arguments.card)
    spec = QuoteSpec(
        QuoteKind.METERED, ZERO, arguments.card, model=arguments.model, service_tier=arguments.tier,
        region=arguments.region, ceilings=tuple(sorted(ceilings.items())), choices=arguments.choices,
    )  # fmt: skip
    quoted = quote(spec, card, at)
    if isinstance(quoted, Refusal):
        return Answer("", "", (), (), quoted.message)
    return Answer(plain(quoted.amount), quoted.currency, explain(spec, card, quoted), quoted.clamped)


def _cards(form: str, path: Path, at: datetime) -> dict[str, PriceCard]:
    taken = fitted(sane(entry, ()) for entry in files.entries(form, path, at))
    return {t.entry.card.card_id: t.entry.card for t in taken if t.entry.card is not None}


async def _ask(arguments: argparse.Namespace, ceilings: Mapping[str, int]) -> Answer:
    spec = hold_pb2.QuoteSpec(
        metered=hold_pb2.MeteredQuote(
            card_id=arguments.card, model=arguments.model, service_tier=arguments.tier, region=arguments.region,
            ceilings=ceilings, choices=arguments.choices,
        )
    )  # fmt: skip
    try:
        async with calling(arguments) as ledger:
            request = price_pb2.PreviewQuoteRequest(quote=spec)
            found = await ledger.ask(ledger.stubs.prices.PreviewQuote, request)
    except CannotReach as error:
        if error.reason not in ("UNQUOTABLE", "NOT_FOUND"):
            raise
        return Answer("", "", (), (), error.details)
    amount: Any = found.quote.amount
    return Answer(amount.amount, amount.currency, list(found.explanations), list(found.quote.clamped_groups))
