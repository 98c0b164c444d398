"""Evidence that waits for its hold: what people look at, and what the worker must."""

from datetime import timedelta
from typing import NamedTuple
from uuid import UUID

from sqlalchemy import Connection, Select, func, literal, or_, select, true, tuple_

from ledger.domain.waiting import Parked
from ledger.store.read.page import Key, Page, page
from ledger.store.records import parked
from ledger.store.rows import parked_from
from ledger.store.statements import ONE, columns_of
from ledger.store.tables import hold

# (tenant, operation_id, evidence_id)
Place = tuple[str, str, UUID]
_place = (parked.c.tenant, parked.c.operation_id, parked.c.evidence_id)


class Round(NamedTuple):
    """Some of what waits: `ready` is to be filed or given up, `next` is where to go on (None: that was the end)."""

    ready: tuple[Parked, ...]
    next: Place | None


def list_parked(
    connection: Connection, tenant: str, *, limit: int, after: Key | None = None, operation_id: str | None = None
) -> Page[Parked]:
    """In order of operation and time. The key is (operation_id, evidence_id)."""
    query = columns_of(parked).where(parked.c.tenant == tenant)
    if operation_id is not None:
        query = query.where(parked.c.operation_id == operation_id)
    if after is not None:
        query = query.where(tuple_(*_place[1:]) > tuple_(literal(after[0]), literal(UUID(after[1]))))
    rows = connection.execute(query.order_by(*_place[1:]).limit(limit + 1)).all()
    return page(
        rows, limit, lambda row: parked_from(tuple(row)), lambda item: (item.operation_id, str(item.evidence_id))
    )


def waited(connection: Connection, patience: timedelta, limit: int, after: Place | None = None) -> Round:
    """Looks at `limit` of what waits, of all tenants, after a place: whose hold is there, or whose time is over?

    A hint: the rule decides again under the locks. Each row costs one look-up of a hold, however many there are.
    """
    some = _some(limit, after).subquery("some")
    there = (
        select(ONE.label("one"))
        .where(hold.c.tenant == some.c.tenant, hold.c.operation_id == some.c.operation_id)
        .limit(ONE)
        .lateral("there")
    )
    is_ready = or_(there.c.one.is_not(None), some.c.parked_at <= func.statement_timestamp() - patience)
    query = select(*some.c, is_ready).select_from(some.outerjoin(there, true()))
    rows = connection.execute(query.order_by(some.c.tenant, some.c.operation_id, some.c.evidence_id)).all()
    ready = tuple(parked_from(tuple(row[:-1])) for row in rows if row[-1])
    return Round(ready, (rows[-1][0], rows[-1][1], rows[-1][2]) if len(rows) == limit else None)


def _some(limit: int, after: Place | None) -> Select[tuple[object, ...]]:
    query = columns_of(parked).order_by(*_place).limit(limit)
    return query if after is None else query.where(tuple_(*_place) > tuple_(*map(literal, after)))
