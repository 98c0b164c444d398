"""The outbox: the events of each batch, in an order that every reader sees alike and in which nothing turns up late.

A row's place is (epoch, position, turn, xid), given when it is inserted, which is when its transaction has all its locks:

- `xid` is the number of the transaction; with L, the highest number that had ended by then, `position` is the greater of the two.
  What may still commit has a number of at least pg_snapshot_xmin (the lowest that runs), and so a position of at least that: rows
  with a position below it are complete for ever. A reader takes those and waits for the rest, so it skips nothing.
- `turn` is how many transactions had ended. If a batch could see another one (it waited for its lock, or came after its answer),
  that one had ended: L was not less, so the position is not less, and `turn` is greater by at least one. The order is therefore
  that in which things happened, by counters that only grow, and never by a clock.
- `epoch` begins anew where the numbers do: in another cluster, into which the database was restored. Rows of other clusters are
  complete.

The number of the transaction alone would not do: it is given at the first lock, and a transaction may wait after that for one
with a higher number. Nor would its window: beside a third one that runs on, the waiting one is complete before the other.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple

from pydantic_core import from_json
from sqlalchemy import Connection, text

from ledger.store.arrays import Json, Texts, Times
from ledger.store.statements import statement

RECORD: Final = statement(
    """
    WITH here AS MATERIALIZED (
        SELECT own, cluster, pg_snapshot_xmax(seen)::text::bigint - 1 AS ended,
            (SELECT count(*) FROM pg_snapshot_xip(seen) AS running WHERE running::text::bigint <> own) AS running
        FROM (
            SELECT pg_current_xact_id()::text::bigint AS own, pg_current_snapshot() AS seen,
                (SELECT system_identifier FROM pg_control_system()) AS cluster
        ) AS asked
    )
    INSERT INTO outbox (tenant, epoch, position, turn, xid, cluster, recorded_at, events)
    SELECT u.tenant, coalesce(newest.epoch + (newest.cluster <> here.cluster)::int, 1), greatest(here.own, here.ended),
        here.ended - here.running - (here.own <= here.ended)::int, here.own, here.cluster, u.recorded_at, u.events
    FROM unnest($1::text[], $2::timestamptz[], $3::json[]) AS u (tenant, recorded_at, events) CROSS JOIN here
    LEFT JOIN LATERAL (
        SELECT o.epoch, o.cluster FROM outbox AS o WHERE o.tenant = u.tenant
        ORDER BY o.epoch DESC, o.position DESC, o.turn DESC, o.xid DESC LIMIT 1
    ) AS newest ON true
    """,
    ("tenant", "recorded_at", "events"),
    (Texts, Times, Json),
)

# Of the rows of the tenant :tenant those that are complete.
_COMPLETE = """
    FROM outbox WHERE tenant = :tenant AND (
        position < pg_snapshot_xmin(pg_current_snapshot())::text::bigint
        OR cluster <> (SELECT system_identifier FROM pg_control_system())
    )
"""
_ORDER = "epoch, position, turn, xid"
_FROM_THE_FIRST = text(f"SELECT {_ORDER}, recorded_at, events::text {_COMPLETE} ORDER BY {_ORDER} LIMIT :limit")
_FROM = text(f"""
    SELECT {_ORDER}, recorded_at, events::text {_COMPLETE}
        AND (epoch, position, turn, xid) >= (:epoch, :position, :turn, :xid) ORDER BY {_ORDER} LIMIT :limit
""")
_AFTER = text(f"""
    SELECT {_ORDER}, recorded_at, events::text {_COMPLETE}
        AND (epoch, position, turn, xid) > (:epoch, :position, :turn, :xid) ORDER BY {_ORDER} LIMIT :limit
""")
_NEWEST = text(f"""
    SELECT {_ORDER}, recorded_at {_COMPLETE} ORDER BY epoch DESC, position DESC, turn DESC, xid DESC LIMIT 1
""")
_RECORDED_AT = text("""
    SELECT recorded_at FROM outbox
    WHERE tenant = :tenant AND (epoch, position, turn, xid) = (:epoch, :position, :turn, :xid)
""")


class Place(NamedTuple):
    """Where a row stands in its tenant's feed."""

    epoch: int
    position: int
    turn: int
    xid: int


class Batch(NamedTuple):
    """The events of one batch, in their order."""

    place: Place
    recorded_at: datetime
    events: Sequence[Mapping[str, Any]]


def batches(
    connection: Connection, tenant: str, after: Place | None, limit: int, *, inclusive: bool = False
) -> list[Batch]:
    """At most `limit` batches after a place (None: from the first), or from it on, that nothing can come before any more."""
    asked: dict[str, Any] = {"tenant": tenant, "limit": limit}
    if after is None:
        rows = connection.execute(_FROM_THE_FIRST, asked)
    else:
        rows = connection.execute(_FROM if inclusive else _AFTER, asked | after._asdict())
    return [Batch(Place(*row[:4]), row[4], from_json(row[5])) for row in rows]


def newest(connection: Connection, tenant: str) -> tuple[Place, datetime] | None:
    """The last batch that a reader would get now, and when it was recorded; None if there is none."""
    row = connection.execute(_NEWEST, {"tenant": tenant}).one_or_none()
    return None if row is None else (Place(*row[:4]), row[4])


def recorded_at(connection: Connection, tenant: str, place: Place) -> datetime | None:
    """When the batch at a place was recorded; None if there is none."""
    row = connection.execute(_RECORDED_AT, {"tenant": tenant} | place._asdict()).one_or_none()
    return None if row is None else row[0]
