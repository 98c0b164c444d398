"""What the laws of arithmetic need, row by row: cards, quotes, and resolutions with what they rest on."""

import json
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any, NamedTuple

from sqlalchemy import Connection, Integer, Text, and_, cast, select

from ledger.domain.evidence import Line
from ledger.domain.model import Hold
from ledger.domain.quotes import PriceCard
from ledger.domain.states import ResolutionKind
from ledger.store.rows import card_from, hold_from
from ledger.store.statements import columns_of
from ledger.store.tables import evidence, hold, price_card, resolution

AT_A_TIME = 1000


class StoredResolution(NamedTuple):
    """A revision of a resolution, its hold, the card that the quote is pinned to, and the evidence that it rests on."""

    hold: Hold
    revision: int
    kind: ResolutionKind
    digest: bytes
    amount: Decimal
    lines: tuple[Line, ...]
    card: PriceCard | None
    attempt: int | None
    body: Mapping[str, Any] | None


def price_cards(connection: Connection) -> Iterator[tuple[PriceCard, bytes]]:
    """Every version of every card, and the digest that is stored beside it."""
    for row in _stream(connection, select(_card.tenant, _card.card_id, _card.version, _document, _card.digest)):
        yield card_from(row.tenant, row.card_id, row.version, row.document), row.digest


def quotes(connection: Connection) -> Iterator[tuple[Hold, bytes | None]]:
    """Every hold, and the stored digest of the card that its quote is pinned to, if that is there."""
    for row in _stream(
        connection, columns_of(hold).add_columns(_card.digest.label("card_digest")).outerjoin(price_card, _pinned)
    ):
        yield hold_from(tuple(row[:-1])), row.card_digest


def resolutions(connection: Connection) -> Iterator[StoredResolution]:
    """Every revision of every resolution that has a hold."""
    r, v = resolution.c, evidence.c
    rests_on = and_(v.tenant == r.tenant, v.operation_id == r.operation_id, v.evidence_id == r.evidence_id)
    query = (
        columns_of(hold)
        .add_columns(
            r.revision,
            r.kind,
            r.digest,
            r.amount,
            cast(r.lines, Text),
            _card.version,
            _document,
            v.attempt,
            cast(v.body, Text),
        )
        .join(resolution, and_(r.tenant == hold.c.tenant, r.operation_id == hold.c.operation_id))
        .outerjoin(price_card, _pinned)
        .outerjoin(evidence, rests_on)
    )
    width = len(hold.c)
    for row in _stream(connection, query):
        held = hold_from(tuple(row[:width]))
        revision, kind, digest, amount, lines, version, document, attempt, body = row[width:]
        yield StoredResolution(
            held,
            revision,
            ResolutionKind(kind),
            digest,
            amount,
            tuple(map(_line, json.loads(lines))),
            None if document is None else card_from(held.tenant, held.quote.card_id, version, document),
            attempt,
            None if body is None else json.loads(body),
        )


_card = price_card.c
_document = cast(_card.document, Text).label("document")
_quoted = hold.c.quote["card"]
_pinned = and_(
    _card.tenant == hold.c.tenant,
    _card.card_id == _quoted[0].astext,
    _card.version == cast(_quoted[1].astext, Integer),
)


def _line(document: Mapping[str, str]) -> Line:
    return Line(
        document["bucket"],
        int(document["quantity"]),
        Decimal(document["rate"]),
        int(document["per"]),
        Decimal(document["amount"]),
    )


def _stream(connection: Connection, query: Any) -> Iterator[Any]:
    """The rows, a thousand at a time."""
    yield from connection.execution_options(yield_per=AT_A_TIME).execute(query)
