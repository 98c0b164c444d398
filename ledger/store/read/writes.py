"""The invocation log, and what one key or operation came to."""

from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import Connection, Select, Text, and_, cast, collate, func, literal, select, tuple_, union_all

from ledger.domain.commands import ON_HOLDS
from ledger.domain.invocations import Receipt
from ledger.domain.model import Hold
from ledger.store.read.holds import get_hold
from ledger.store.read.page import Key, Page, page
from ledger.store.records import receipt, refused
from ledger.store.rows import receipt_from
from ledger.store.statements import columns_of


class Invocation(NamedTuple):
    """A line of the log. `outcome` is OK or a reason; `remembered`: the key gives it again. `place` orders one instant."""

    actor: str
    command: str
    key: str
    fingerprint: bytes
    resource: str
    outcome: str
    remembered: bool
    state: str | None
    recorded_at: datetime
    place: str

    @classmethod
    def of(cls, row: Receipt) -> "Invocation":
        """The line of a receipt."""
        key = (row.actor, row.command, row.key)
        return cls(*key, row.fingerprint, row.resource, row.outcome, True, row.state, row.recorded_at, ":".join(key))


class Written(NamedTuple):
    """What is there at `as_of`: the receipt of the key that was asked for, and the hold that it or the question names."""

    receipt: Receipt | None
    hold: Hold | None
    as_of: datetime


def written(
    connection: Connection, tenant: str, operation_id: str | None, key: tuple[str, str, str] | None = None
) -> Written:
    """By key (actor, command, key), or by operation. Committed before `as_of` means seen here."""
    as_of: datetime = connection.execute(select(func.transaction_timestamp())).scalar_one()
    found = None
    if key is not None:
        columns = (receipt.c.tenant, receipt.c.actor, receipt.c.command, receipt.c.key)
        row = connection.execute(columns_of(receipt).where(tuple_(*columns) == (tenant, *key))).one_or_none()
        found = None if row is None else receipt_from(tuple(row))
    named = operation_id
    if found is not None:
        named = found.resource if found.command in ON_HOLDS else None
    return Written(found, None if named is None else get_hold(connection, tenant, named), as_of)


def list_invocations(
    connection: Connection, tenant: str, resource: str, *, limit: int, after: Key | None = None
) -> Page[Invocation]:
    """Oldest first, of a card or policy those of every version. The key is (recorded_at, place)."""
    r, f = receipt.c, refused.c
    # What gave a version names it behind a #, which no name has in it; $ is the character after that.
    of_a_version = and_(r.resource > resource + "#", r.resource < resource + "$")
    place = (r.actor + ":" + r.command + ":" + r.key).label("place")
    done = select(
        r.actor, r.command, r.key, r.fingerprint, r.resource, r.outcome, literal(True).label("remembered"), r.state, r.recorded_at,
        place,
    ).where(r.tenant == tenant)  # fmt: skip
    refused_place = collate(cast(f.refused_id, Text), "C").label("place")
    not_done = select(
        f.actor, f.command, f.key, f.fingerprint, f.resource, f.reason, literal(False), f.state, f.recorded_at, refused_place
    ).where(f.tenant == tenant, f.resource == resource)  # fmt: skip
    parts: list[tuple[Select[Any], Any, Any]] = [
        (done.where(r.resource == resource), r.recorded_at, place),
        (done.where(of_a_version), r.recorded_at, place),
        (not_done, f.recorded_at, refused_place),
    ]
    if after is not None:
        seen = (datetime.fromisoformat(after[0]), after[1])
        parts = [(lines.where(tuple_(at, by) > seen), at, by) for lines, at, by in parts]
    # Each part for itself: refusals may be without number, and come in the order of their index.
    log = union_all(*(lines.order_by(at, by).limit(limit + 1) for lines, at, by in parts)).subquery("log")
    query = select(log)
    rows = connection.execute(query.order_by(log.c.recorded_at, log.c.place).limit(limit + 1)).all()
    return page(rows, limit, Invocation._make, lambda item: (item.recorded_at.isoformat(), item.place))
