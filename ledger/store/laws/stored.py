"""What the laws of arithmetic need, row by row: cards, quotes, and resolutions with what they rest on.

A row may be damaged in any way, so one that cannot be read is given as such.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from typing import Any, NamedTuple, TypeAlias, TypeVar

from sqlalchemy import Connection, Select, Text, and_, cast, select

from ledger.domain.cards import PriceCard
from ledger.domain.model import Hold
from ledger.domain.policies import EvidencePolicy
from ledger.domain.pricing import Line
from ledger.domain.states import ResolutionKind
from ledger.store.records import evidence, evidence_policy, price_card, resolution
from ledger.store.rows import card_from, hold_from, policy_from
from ledger.store.statements import columns_of
from ledger.store.tables import hold

AT_A_TIME = 1000

T = TypeVar("T")
Row: TypeAlias = tuple[Any, ...]


class Unreadable(NamedTuple):
    """A row that is no hold, card or resolution any more."""

    name: str


class StoredCard(NamedTuple):
    """A version of a price card, and the digest beside it."""

    card: PriceCard
    digest: bytes


class StoredPolicy(NamedTuple):
    """A version of an evidence policy, and the digest beside it."""

    policy: EvidencePolicy
    digest: bytes


class StoredQuote(NamedTuple):
    """A hold, and the digest of the card that its quote is pinned to, None if that card is not there."""

    hold: Hold
    card_digest: bytes | None


class StoredResolution(NamedTuple):
    """A revision of a resolution, its hold, the card that the quote is pinned to, and the evidence that it rests on."""

    hold: Hold
    revision: int
    kind: ResolutionKind
    digest: bytes
    amount: Decimal
    lines: tuple[Line, ...]
    passed_ceilings: tuple[str, ...]
    card: PriceCard | None
    attempt: int | None
    body: Mapping[str, Any] | None


class StoredEvidence(NamedTuple):
    """Evidence that is kept with its body, and the fact beside it."""

    name: str
    fact: bytes
    body: Mapping[str, Any]


_c, _r, _v = price_card.c, resolution.c, evidence.c
_card = (_c.tenant, _c.card_id, _c.version, cast(_c.document, Text))
_WIDTH = len(hold.c)
# Compared as texts: a damaged quote may hold anything where the version was.
_pinned = and_(
    _c.tenant == hold.c.tenant,
    _c.card_id == hold.c.quote["card"][0].astext,
    cast(_c.version, Text) == hold.c.quote["card"][1].astext,
)
_of_the_hold = and_(_r.tenant == hold.c.tenant, _r.operation_id == hold.c.operation_id)
_rests_on = and_(_v.tenant == _r.tenant, _v.operation_id == _r.operation_id, _v.evidence_id == _r.evidence_id)

_p = evidence_policy.c
POLICIES = select(_p.tenant, _p.provider, _p.version, cast(_p.document, Text), _p.digest)
CARDS = select(*_card, _c.digest)
EVIDENCE = select(_v.tenant, _v.operation_id, _v.evidence_id, _v.fact, cast(_v.body, Text)).where(_v.body.is_not(None))
QUOTES = columns_of(hold).add_columns(_c.digest).outerjoin(price_card, _pinned)
RESOLUTIONS = (
    columns_of(hold)
    .add_columns(
        *_card,
        _r.revision,
        _r.kind,
        _r.digest,
        _r.amount,
        cast(_r.lines, Text),
        _r.passed_ceilings,
        _v.attempt,
        cast(_v.body, Text),
    )
    .join(resolution, _of_the_hold)
    .outerjoin(price_card, _pinned)
    .outerjoin(evidence, _rests_on)
)


def price_cards(connection: Connection) -> Iterator[StoredCard | Unreadable]:
    """Every version of every card."""

    def read(row: Row) -> StoredCard:
        *card, digest = row
        return StoredCard(card_from(*card), digest)

    return _each(connection, CARDS, read, lambda row: f"version {row[2]} of price card {row[1]} of {row[0]}")


def policies(connection: Connection) -> Iterator[StoredPolicy | Unreadable]:
    """Every version of every policy."""

    def read(row: Row) -> StoredPolicy:
        *policy, digest = row
        return StoredPolicy(policy_from(*policy), digest)

    return _each(connection, POLICIES, read, lambda row: f"version {row[2]} of the policy about {row[1]} of {row[0]}")


def quotes(connection: Connection) -> Iterator[StoredQuote | Unreadable]:
    """Every hold with its quote."""

    def read(row: Row) -> StoredQuote:
        return StoredQuote(hold_from(row[:_WIDTH]), row[_WIDTH])

    return _each(connection, QUOTES, read, _operation)


def evidence_with_bodies(connection: Connection) -> Iterator[StoredEvidence | Unreadable]:
    """All evidence that has a body."""

    def name(row: Row) -> str:
        return f"evidence {row[2]} of {_operation(row)}"

    def read(row: Row) -> StoredEvidence:
        body = json.loads(row[4])
        if not isinstance(body, dict):
            raise TypeError(name(row))
        return StoredEvidence(name(row), row[3], body)

    return _each(connection, EVIDENCE, read, name)


def resolutions(connection: Connection) -> Iterator[StoredResolution | Unreadable]:
    """Every revision of every resolution that has a hold."""

    def read(row: Row) -> StoredResolution:
        card, rest = row[_WIDTH : _WIDTH + len(_card)], row[_WIDTH + len(_card) :]
        revision, kind, digest, amount, lines, passed, attempt, body = rest
        return StoredResolution(
            hold_from(row[:_WIDTH]),
            revision,
            ResolutionKind(kind),
            digest,
            amount,
            tuple(map(_line, json.loads(lines))),
            tuple(passed),
            None if card[0] is None else card_from(*card),
            attempt,
            None if body is None else json.loads(body),
        )

    return _each(connection, RESOLUTIONS, read, _operation)


def _each(
    connection: Connection, query: Select[Any], read: Callable[[Row], T], name: Callable[[Row], str]
) -> Iterator[T | Unreadable]:
    """The rows, fetched a thousand at a time."""
    for row in map(tuple, connection.execution_options(yield_per=AT_A_TIME).execute(query)):
        try:
            yield read(row)
        except (LookupError, ValueError, TypeError, ArithmeticError):
            yield Unreadable(name(row))


def _operation(row: Row) -> str:
    return f"operation {row[1]} of {row[0]}"


def _line(document: Mapping[str, str]) -> Line:
    return Line(
        document["bucket"],
        int(document["quantity"]),
        Decimal(document["rate"]),
        int(document["per"]),
        Decimal(document["amount"]),
    )
