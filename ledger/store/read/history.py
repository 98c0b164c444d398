"""What is known of one hold beside its row: what its axes are made from, and all that happened to it, in order of time."""

from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from typing import Any, NamedTuple

from sqlalchemy import Connection, null, select, text
from sqlalchemy.dialects.postgresql import distinct_on

from ledger.domain.axes import Axes, axes
from ledger.domain.commands import ON_HOLDS
from ledger.domain.model import DEBIT_NORMAL, Axis, Hold, Observation
from ledger.domain.states import TERMINAL
from ledger.store.read.holds import get_hold
from ledger.store.read.page import Key, Page, page
from ledger.store.records import evidence, observation, resolution
from ledger.store.rows import evidence_from, resolution_from
from ledger.store.statements import columns_of


class Standing(NamedTuple):
    """A hold, and its three axes at the same instant."""

    hold: Hold
    axes: Axes


def get_standing(connection: Connection, tenant: str, operation_id: str) -> Standing | None:
    """A hold with its axes. However often something was reported, few rows of each kind are read."""
    hold = get_hold(connection, tenant, operation_id)
    if hold is None:
        return None
    o, v, r = observation.c, evidence.c, resolution.c
    here = (o.tenant == tenant, o.operation_id == operation_id)
    # Of each value of the execution the earliest, and the latest of what became unknown or was delivered.
    earliest = (
        columns_of(observation)
        .where(*here, o.axis == Axis.EXECUTION.value)
        .ext(distinct_on(o.value, o.attempt))
        .order_by(o.value, o.attempt, o.observation_id)
    )
    delivered = columns_of(observation).where(*here, o.axis == Axis.DELIVERY.value)
    latest = delivered.order_by(o.observation_id.desc()).limit(1)
    said = [_observation(row) for query in (earliest, latest) for row in connection.execute(query)]
    said.sort(key=lambda seen: seen.observation_id)
    brought = (
        select(*(null() if c is v.body else c for c in evidence.c))
        .where(v.tenant == tenant, v.operation_id == operation_id)
        .ext(distinct_on(v.kind, v.classification, v.source, v.attempt, v.provider_receipt))
        .order_by(v.kind, v.classification, v.source, v.attempt, v.provider_receipt, v.evidence_id)
    )
    facts = [evidence_from(tuple(row)) for row in connection.execute(brought)]
    in_force = None
    if hold.state in TERMINAL:
        query = columns_of(resolution).where(
            r.tenant == tenant, r.operation_id == operation_id, r.revision == hold.revision
        )
        in_force = resolution_from(tuple(connection.execute(query).one()))
    return Standing(hold, axes(hold, said, facts, in_force))


def _observation(row: Any) -> Observation:
    seen = Observation._make(row)
    return seen._replace(axis=Axis(seen.axis), detail={})


class HoldEvent(NamedTuple):
    """Something that happened to a hold. `kind` is a name of the contract's HoldEventKind, `what` says it in one word.

    `amount` is in the hold's currency; an operation without a hold has neither. Events of one instant are in the order of `rank`,
    then of `event_id`.
    """

    at: datetime
    rank: int
    event_id: str
    kind: str
    what: str
    actor: str
    attempt: int
    amount: Decimal | None
    currency: str | None
    observed_at: datetime | None
    detail: Mapping[str, str]


# One line for each kind of row, by its index on the operation. What an entry moved is told on one level, since each moves alike:
# the first of the hold's path, on the normal sides of the accounts.
_EVENTS = text("""
WITH the_hold AS MATERIALIZED (
    SELECT * FROM hold WHERE tenant = :tenant AND operation_id = :operation
), events AS (
    SELECT recorded_at AS at, 1 AS rank, concat_ws(':', actor, command, key) AS event_id, 'COMMAND' AS kind, command AS what,
        actor, 0 AS attempt, NULL::numeric AS amount, NULL::timestamptz AS observed_at,
        jsonb_build_object('key', key, 'outcome', outcome) AS detail
    FROM receipt WHERE resource = :operation AND tenant = :tenant AND command = ANY (:on_holds)
    UNION ALL
    SELECT recorded_at, 1, refused_id::text, 'COMMAND', command, actor, 0, NULL, NULL,
        jsonb_build_object('key', key, 'outcome', reason)
    FROM refused WHERE resource = :operation AND tenant = :tenant AND command = ANY (:on_holds)
    UNION ALL
    SELECT dispatched_at, 2, attempt::text, 'ATTEMPT', CASE WHEN inferred THEN 'INFERRED' ELSE 'BEGUN' END,
        coalesce(dispatcher, ''), attempt, NULL, NULL,
        jsonb_build_object('executor', executor, 'generation', generation::text)
    FROM the_hold WHERE attempt > 0
    UNION ALL
    SELECT (o.detail->>'dispatched_at')::timestamptz, 2, o.attempt::text, 'ATTEMPT', 'BEGUN', o.detail->>'dispatcher',
        o.attempt, NULL, NULL,
        jsonb_build_object('executor', o.detail->>'executor', 'generation', o.detail->>'generation')
    FROM the_hold h JOIN observation o ON o.tenant = :tenant AND o.operation_id = :operation AND o.attempt < h.attempt
    WHERE o.source = 'RecordFailedBeforeDispatch'
    UNION ALL
    SELECT received_at, 3, evidence_id::text, 'EVIDENCE', classification, actor, attempt, NULL, observed_at,
        jsonb_build_object('kind', kind, 'source', source, 'reasons', array_to_string(reasons, '; '), 'adapter', adapter,
            'adapter_revision', adapter_revision, 'policy', policy, 'provider_receipt', provider_receipt,
            'digest', encode(digest, 'hex'))
    FROM evidence WHERE tenant = :tenant AND operation_id = :operation
    UNION ALL
    SELECT received_at, 4, observation_id::text, axis, value, actor, attempt, NULL, observed_at,
        jsonb_build_object('source', source, 'adapter', adapter, 'adapter_revision', adapter_revision, 'provider', provider,
            'provider_receipt', provider_receipt) || detail - '{dispatched_at,dispatcher,executor,generation,nonce}'::text[]
    FROM observation WHERE tenant = :tenant AND operation_id = :operation
    UNION ALL
    SELECT e.recorded_at, 5, e.entry_id::text, 'ENTRY', e.kind, e.actor, 0, NULL, e.effective_at, moved.detail
    FROM the_hold h JOIN entry e ON e.tenant = :tenant AND e.operation_id = :operation CROSS JOIN LATERAL (
        SELECT coalesce(jsonb_object_agg(account, trim_scale(amount)::text), '{}') AS detail FROM (
            SELECT account, sum(CASE WHEN account = ANY(:debit_normal) THEN amount ELSE -amount END) AS amount
            FROM posting WHERE tenant = :tenant AND entry_id = e.entry_id AND book_id = h.books[1] GROUP BY account
        ) accounts
    ) moved
    UNION ALL
    SELECT recorded_at, 6, revision::text, 'RESOLUTION', kind, actor, 0, amount, NULL,
        jsonb_build_object('revision', revision::text, 'digest', encode(digest, 'hex'), 'reason', reason,
            'cost_over_hold', CASE WHEN cost_over_hold > 0 THEN trim_scale(cost_over_hold)::text END)
    FROM resolution WHERE tenant = :tenant AND operation_id = :operation
    UNION ALL
    SELECT opened_at, 7, incident_id::text, 'INCIDENT', kind, '', 0, NULL, NULL, detail
    FROM incident WHERE tenant = :tenant AND operation_id = :operation
)
SELECT at, rank, event_id, kind, what, actor, attempt, amount, (SELECT currency FROM the_hold) AS currency, observed_at,
    jsonb_strip_nulls(detail) AS detail
FROM events
WHERE (at, rank, event_id COLLATE "C") > (:at, :rank, :event_id)
ORDER BY at, rank, event_id COLLATE "C" LIMIT :limit
""")
_BEFORE_ALL = ("-infinity", "0", "")


def list_hold_events(
    connection: Connection, tenant: str, operation_id: str, *, limit: int, after: Key | None = None
) -> Page[HoldEvent]:
    """Oldest first. The key is (at, rank, event_id)."""
    at, rank, event_id = _BEFORE_ALL if after is None else after
    asked = {
        "tenant": tenant,
        "operation": operation_id,
        "on_holds": sorted(ON_HOLDS),
        "debit_normal": sorted(DEBIT_NORMAL),
        "limit": limit + 1,
    }
    place = {"at": at, "rank": int(rank), "event_id": event_id}
    rows = connection.execute(_EVENTS, asked | place).all()
    return page(rows, limit, _event, lambda item: (item.at.isoformat(), str(item.rank), item.event_id))


def _event(row: Any) -> HoldEvent:
    made = HoldEvent._make(row)
    return made._replace(detail={name: value for name, value in sorted(made.detail.items()) if value})
