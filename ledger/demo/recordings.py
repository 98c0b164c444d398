"""Recorded usages of real providers, if they lie beside the project, each under a hold and a card of its own model.

The recordings come with the prices that their recorders expect; what the ledger posts must be the same to the digit.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

from ledger.client import Client
from ledger.demo.books import put_card
from ledger.demo.gateway import usage_evidence
from ledger.usage import FLAVORS, normalize
from ledger.usage.cards import price_card
from ledger.usage.catalogue import read_catalogue
from ledger.v1 import hold_pb2

FOLDER = Path(__file__).parents[2] / ".." / "shared" / "data"
BUDGET = "acme-replays"
# One of the models had an introductory price until the end of this month, and the recorders expect that.
RECORDED = datetime(2026, 8, 15, tzinfo=UTC)
HOLDS_PER_BATCH = 300


# The flavours of the gateway in the demo.
REPLAYED = ("openai.chat", "anthropic.messages")


@dataclass(frozen=True, slots=True)
class Recording:
    """A usage body, and what it is expected to cost (None where the recorders give no total)."""

    operation_id: str
    flavor: str
    body: dict[str, Any]
    expected: Decimal


@dataclass(frozen=True, slots=True)
class Replayed:
    """How many recordings there were, how many settled and at the expected price, and why others did not."""

    rows: int = 0
    settled: int = 0
    agreeing: int = 0
    posted: Decimal = Decimal(0)
    refused: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {
            "rows": self.rows,
            "settled": self.settled,
            "agreeing": self.agreeing,
            "posted": format(self.posted, "f"),
            "refused": len(self.refused),
        }


def read(folder: Path = FOLDER) -> list[Recording]:
    """The recordings whose shape is read here and that have a price; none if the folder is not there."""
    path = folder / "provider_usages.json"
    return list(_recordings(json.loads(path.read_text()))) if path.is_file() else []


def _recordings(rows: list[Any]) -> Iterator[Recording]:
    flavors = {(FLAVORS[flavor].provider, FLAVORS[flavor].api): flavor for flavor in REPLAYED}
    for number, row in enumerate(rows):
        for expected in (each for extracted in row["extracted"] for each in extracted["extractors"]):
            flavor = flavors.get((expected["provider_id"], expected["api_flavor"]))
            if flavor is not None and "input_price" in expected:
                parts = Decimal(expected["input_price"]) + Decimal(expected["output_price"])
                whole = Decimal(expected.get("total_price", parts))
                yield Recording(f"recorded-{number:04d}-{FLAVORS[flavor].provider}", flavor, row["body"], whole)


def cards(recordings: list[Recording], folder: Path = FOLDER) -> dict[str, dict[str, Any]]:
    """A price card, as a document, for each model of the recordings, by the name under which it was served."""
    catalogue = read_catalogue((folder / "genai_prices_catalogue.json").read_text(), only=_providers(recordings))
    found = {}
    for recording in recordings:
        served, provider = recording.body["model"], FLAVORS[recording.flavor].provider
        model = catalogue[provider].find_model(served)
        if served not in found and model is not None:
            card = price_card(model, provider, RECORDED, tenant="", card_id="", served=(served,)).card
            if card is not None:
                found[served] = card.to_document()
    return found


def _providers(recordings: list[Recording]) -> set[str]:
    return {FLAVORS[recording.flavor].provider for recording in recordings}


async def play(gateway: Client, admin: Client, folder: Path = FOLDER) -> Replayed:
    """Reserves, dispatches and settles every recording, many in one call."""
    recordings = read(folder)
    if not recordings:
        return Replayed()
    for served, document in cards(recordings, folder).items():
        await put_card(admin, f"replay-{served}", document)
    results: list[hold_pb2.CommandResult] = []
    for start in range(0, len(recordings), HOLDS_PER_BATCH):
        batch = hold_pb2.BatchExecuteRequest()
        for recording in recordings[start : start + HOLDS_PER_BATCH]:
            batch.commands.extend(_commands(recording))
        results += (await gateway.holds.BatchExecute(batch)).results
    settled = dict(zip([r.operation_id for r in recordings], results[2::3], strict=True))
    amounts = {
        name: Decimal(result.resolve.hold.resolution.amount.amount)
        for name, result in settled.items()
        if result.WhichOneof("result") == "resolve"
    }
    refused = {name: r.error.message for name, r in settled.items() if r.WhichOneof("result") == "error"}
    if refused:
        await gateway.holds.BatchExecute(hold_pb2.BatchExecuteRequest(commands=[_unknown(name) for name in refused]))
    return Replayed(
        rows=len(recordings),
        settled=len(amounts),
        agreeing=sum(amounts.get(recording.operation_id) == recording.expected for recording in recordings),
        posted=sum(amounts.values(), Decimal(0)),
        refused=tuple(f"{name}: {message}" for name, message in refused.items()),
    )


def _commands(recording: Recording) -> list[hold_pb2.Command]:
    """The three steps of one hold; a batch does the steps of one hold in their order, each committed before the next."""
    name, model = recording.operation_id, recording.body["model"]
    quote = hold_pb2.MeteredQuote(
        card_id=f"replay-{model}", model=model, api_flavor=recording.flavor, ceilings=_ceilings(recording)
    )
    reserve = hold_pb2.ReserveRequest(
        idempotency_key=f"{name}/reserve",
        operation_id=name,
        budget_ids=[BUDGET],
        quote=hold_pb2.QuoteSpec(metered=quote),
    )
    dispatch = hold_pb2.BeginDispatchRequest(
        idempotency_key=f"{name}/dispatch",
        operation_id=name,
        dispatch=hold_pb2.Dispatch(nonce=f"nonce-of-{name}", executor="replay"),
    )
    source = hold_pb2.EVIDENCE_SOURCE_PROVIDER_RESPONSE
    usage = usage_evidence(recording.flavor, recording.body, f"receipt-{name}", source)
    resolve = hold_pb2.ResolveRequest(idempotency_key=f"{name}/resolve", operation_id=name, usage=usage)
    return [
        hold_pb2.Command(reserve=reserve),
        hold_pb2.Command(begin_dispatch=dispatch),
        hold_pb2.Command(resolve=resolve),
    ]


def _unknown(name: str) -> hold_pb2.Command:
    """What a gateway says when the usage that it was given cannot settle the hold."""
    return hold_pb2.Command(
        mark_outcome_unknown=hold_pb2.MarkOutcomeUnknownRequest(
            idempotency_key=f"{name}/unknown", operation_id=name, observation="the usage was refused as evidence"
        )
    )


def _ceilings(recording: Recording) -> dict[str, int]:
    """What the call used is what it may use; a usage with defects is bounded by a guess."""
    totals = normalize(recording.flavor, json.dumps(recording.body)).totals
    return totals or {"input_tokens": 10_000, "output_tokens": 1_000}
