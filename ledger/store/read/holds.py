"""Holds, the incidents about them, and which of them the sweep must look at."""

from datetime import datetime
from decimal import Decimal
from uuid import UUID

from sqlalchemy import Connection, and_, any_, bindparam, func, literal, or_, select, true, tuple_, union_all

from ledger.domain.model import Hold, Incident, Resolution
from ledger.domain.money import plain
from ledger.domain.states import HoldState
from ledger.store.read.page import Key, Page, page
from ledger.store.records import incident, parked, resolution
from ledger.store.rows import hold_from, resolution_from
from ledger.store.statements import ONE, columns_of
from ledger.store.tables import due_at, hold, is_unknown, may_be_due


def get_hold(connection: Connection, tenant: str, operation_id: str) -> Hold | None:
    query = columns_of(hold).where(hold.c.tenant == tenant, hold.c.operation_id == operation_id)
    row = connection.execute(query).one_or_none()
    return None if row is None else hold_from(tuple(row))


def list_holds(
    connection: Connection,
    tenant: str,
    *,
    limit: int,
    after: Key | None = None,
    state: HoldState | None = None,
    request_group: str | None = None,
) -> Page[Hold]:
    """In order of operation_id. The key is (operation_id,)."""
    query = columns_of(hold).where(hold.c.tenant == tenant)
    if state is not None:
        # Written into the statement: the planner must see that it implies the condition of a partial index.
        query = query.where(hold.c.state == bindparam("state", state.value, literal_execute=True))
    if request_group is not None:
        query = query.where(hold.c.request_group == request_group)
    if after is not None:
        query = query.where(hold.c.operation_id > after[0])
    rows = connection.execute(query.order_by(hold.c.operation_id).limit(limit + 1)).all()
    return page(rows, limit, lambda row: hold_from(tuple(row)), lambda item: (item.operation_id,))


def list_open_holds(
    connection: Connection, tenant: str, book_id: str, *, limit: int, after: Key | None = None
) -> Page[Hold]:
    """The holds that are not terminal and have the book on their path, the largest first. The key is (amount, operation_id).

    It goes through the indexes of open holds: its cost grows with what is open, and not with what ever was. Open holds of the
    tenant's other budgets are read too. Of other tenants no row is read; but the index of RESERVED and DISPATCHING ones begins with
    the time, for the sweep, so their entries in it are passed over. While a large share of all holds is open the planner may go
    through the table instead. An index by book would have to be kept for every level of every hold.
    """
    here = (hold.c.tenant == tenant, literal(book_id) == any_(hold.c.books))
    found = union_all(*(columns_of(hold).where(*here, state) for state in (may_be_due, is_unknown))).subquery()
    query = select(found)
    if after is not None:
        amount, operation_id = Decimal(after[0]), after[1]
        next_ones = or_(found.c.amount < amount, and_(found.c.amount == amount, found.c.operation_id > operation_id))
        query = query.where(next_ones)
    rows = connection.execute(query.order_by(found.c.amount.desc(), found.c.operation_id).limit(limit + 1)).all()
    return page(rows, limit, lambda row: hold_from(tuple(row)), lambda item: (plain(item.amount), item.operation_id))


def list_incidents(
    connection: Connection, tenant: str, *, limit: int, after: Key | None = None, operation_id: str | None = None
) -> Page[Incident]:
    """Newest first. The key is (opened_at, incident_id)."""
    query = select(incident).where(incident.c.tenant == tenant)
    if operation_id is not None:
        query = query.where(incident.c.operation_id == operation_id)
    if after is not None:
        query = query.where(
            tuple_(incident.c.opened_at, incident.c.incident_id)
            < tuple_(datetime.fromisoformat(after[0]), UUID(after[1]))
        )
    newest = (incident.c.opened_at.desc(), incident.c.incident_id.desc())
    rows = connection.execute(query.order_by(*newest).limit(limit + 1)).all()
    return page(rows, limit, Incident._make, lambda item: (item.opened_at.isoformat(), str(item.incident_id)))


def list_resolutions(
    connection: Connection, tenant: str, operation_id: str, *, limit: int, after: Key | None = None
) -> Page[Resolution] | None:
    """The revisions of a hold, the first one first; None if there is no such hold. The key is (revision,)."""
    seen = int(after[0]) if after is not None else 0
    r = resolution.c
    its = (r.tenant == hold.c.tenant) & (r.operation_id == hold.c.operation_id) & (r.revision > seen)
    query = columns_of(resolution).select_from(hold.outerjoin(resolution, its))
    query = query.where(hold.c.tenant == tenant, hold.c.operation_id == operation_id)
    rows = connection.execute(query.order_by(r.revision).limit(limit + 1)).all()
    if not rows:
        return None
    # A hold without a later revision gives one row, of nulls.
    revisions = [row for row in rows if row[0] is not None]
    return page(revisions, limit, lambda row: resolution_from(tuple(row)), lambda item: (str(item.revision),))


def due(connection: Connection, limit: int) -> list[tuple[str, str]]:
    """Holds that time has done something to, of all tenants, longest due first: keys (tenant, operation_id).

    RESERVED past its expiry, or DISPATCHING past its lease, and not before the evidence that waits for it is filed. A hint: the
    rule decides again under the lock.
    """
    evidence = (
        select(ONE.label("one"))
        .where(parked.c.tenant == hold.c.tenant, parked.c.operation_id == hold.c.operation_id)
        .limit(ONE)
        .lateral("evidence")
    )
    query = (
        select(hold.c.tenant, hold.c.operation_id)
        .select_from(hold.outerjoin(evidence, true()))
        .where(may_be_due, due_at <= func.statement_timestamp(), evidence.c.one.is_(None))
        .order_by(due_at, hold.c.tenant, hold.c.operation_id)
        .limit(limit)
    )
    return [(row.tenant, row.operation_id) for row in connection.execute(query)]
