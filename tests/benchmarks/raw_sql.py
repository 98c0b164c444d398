"""The other side of the comparison: the same rows, written by plain set-based SQL, as fast as one connection can.

Every lifecycle of the service's batch load is written again: into the same tables, under the same indexes, constraints and
triggers, in three transactions for each batch, as the service commits it. What differs from row to row (operation and ids)
is sent as arrays that are made before the clock starts; the rest is constants of the statement, and PostgreSQL computes
hashes and times. The statements of a transaction go out in one round trip. No rule is applied: no balance is looked at,
no key compared, nothing priced.
"""

import time
import uuid
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, TypeAlias

import psycopg
from psycopg.types.array import ListBinaryDumper
from psycopg.types.json import Jsonb

from ledger.domain.commands import Usage
from ledger.domain.evidence import price
from ledger.domain.needs import STRIPES
from ledger.domain.quotes import STANDARD_TIER, PriceCard, Quote, QuoteKind, QuoteSpec, Rate, quote
from tests.benchmarks import workload

Connection: TypeAlias = "psycopg.Connection[Any]"

RESERVE = (
    """
    INSERT INTO hold (tenant, operation_id, state, currency, amount, quote, budget_ids, books, labels, actor, fingerprint,
                      created_at, expire_at, updated_at, attempt, generation, inferred, revision, version)
    SELECT %(tenant)s, o.id, 'RESERVED', %(currency)s, %(amount)s, %(quote)s, ARRAY[%(budget)s], ARRAY[%(book)s],
           %(labels)s, %(actor)s, sha256(o.id::bytea), now(), now() + interval '15 min', now(), 0, 0, false, 0, 1
    FROM unnest(%(operations)s::text[]) AS o (id)
    """,
    """
    INSERT INTO entry (tenant, entry_id, kind, currency, recorded_at, effective_at, accounting_date, operation_id, actor)
    SELECT %(tenant)s, o.entry_id, 'RESERVE', %(currency)s, now(), now(), current_date, o.id, %(actor)s
    FROM unnest(%(operations)s::text[], %(reserve_entries)s::uuid[]) AS o (id, entry_id)
    """,
    """
    WITH moved AS (
        UPDATE book SET version = version + 2 * %(size)s,
            available = available - %(size)s * %(amount)s, held = held + %(size)s * %(amount)s
        WHERE tenant = %(tenant)s AND book_id = %(book)s RETURNING version - 2 * %(size)s AS before)
    INSERT INTO posting (tenant, book_id, version, entry_id, account, amount)
    SELECT %(tenant)s, %(book)s, before + 2 * (o.n - 1) + leg.n, o.entry_id, leg.account, leg.amount
    FROM moved, unnest(%(reserve_entries)s::uuid[]) WITH ORDINALITY AS o (entry_id, n),
        (VALUES (1, 'AVAILABLE', %(amount)s), (2, 'HELD', -%(amount)s)) AS leg (n, account, amount)
    """,
)
DISPATCH = (
    """
    UPDATE hold SET state = 'DISPATCHING', attempt = 1, generation = 1, executor = %(executor)s, dispatcher = %(actor)s,
        nonce_hash = sha256(operation_id::bytea), dispatched_at = now(), lease_expires_at = now() + interval '15 min',
        updated_at = now(), version = version + 1
    WHERE tenant = %(tenant)s AND operation_id BETWEEN %(first)s AND %(last)s
    """,
)
RESOLVE = (
    """
    UPDATE hold SET state = 'SETTLED', revision = 1, resolution_kind = 'USAGE',
        resolution_digest = sha256(operation_id::bytea), settled = %(cost)s, resolved_at = now(),
        provider_receipt = 'resp-' || operation_id, updated_at = now(), version = version + 1
    WHERE tenant = %(tenant)s AND operation_id BETWEEN %(first)s AND %(last)s
    """,
    """
    INSERT INTO evidence (tenant, operation_id, evidence_id, attempt, kind, status, reasons, source, actor, received_at,
                          provider_receipt, digest, body)
    SELECT %(tenant)s, o.id, o.evidence_id, 1, 'USAGE', 'ACCEPTED', '{}', 'PROVIDER_RESPONSE', %(actor)s, now(),
           'resp-' || o.id, sha256(o.id::bytea), %(body)s
    FROM unnest(%(operations)s::text[], %(evidence_ids)s::uuid[]) AS o (id, evidence_id)
    """,
    """
    INSERT INTO entry (tenant, entry_id, kind, currency, recorded_at, effective_at, accounting_date, operation_id, actor)
    SELECT %(tenant)s, o.entry_id, 'SETTLE', %(currency)s, now(), now(), current_date, o.id, %(actor)s
    FROM unnest(%(operations)s::text[], %(settle_entries)s::uuid[]) AS o (id, entry_id)
    """,
    """
    WITH moved AS (
        UPDATE book SET version = version + 3 * %(size)s, held = held - %(size)s * %(amount)s,
            spent = spent + %(size)s * %(cost)s, available = available + %(size)s * (%(amount)s - %(cost)s)
        WHERE tenant = %(tenant)s AND book_id = %(book)s RETURNING version - 3 * %(size)s AS before),
    paid AS (
        UPDATE book SET version = version + 2 * %(size)s,
            expense = expense + %(size)s * %(cost)s, payable = payable + %(size)s * %(cost)s
        WHERE tenant = %(tenant)s AND book_id = %(stripe)s RETURNING version - 2 * %(size)s AS before)
    INSERT INTO posting (tenant, book_id, version, entry_id, account, amount)
    SELECT %(tenant)s, leg.book_id, CASE leg.book_id WHEN %(book)s THEN moved.before + 3 * (o.n - 1)
           ELSE paid.before + 2 * (o.n - 1) END + leg.n, o.entry_id, leg.account, leg.amount
    FROM moved, paid, unnest(%(settle_entries)s::uuid[]) WITH ORDINALITY AS o (entry_id, n),
        (VALUES (%(book)s, 1, 'HELD', %(amount)s), (%(book)s, 2, 'SPENT', -%(cost)s),
                (%(book)s, 3, 'AVAILABLE', %(cost)s - %(amount)s),
                (%(stripe)s, 1, 'EXPENSE', %(cost)s), (%(stripe)s, 2, 'PAYABLE', -%(cost)s))
            AS leg (book_id, n, account, amount)
    """,
    """
    INSERT INTO resolution (tenant, operation_id, revision, kind, digest, amount, currency, cost_over_hold, lines,
                            evidence_id, entry_id, actor, recorded_at)
    SELECT %(tenant)s, o.id, 1, 'USAGE', sha256(o.id::bytea), %(cost)s, %(currency)s, 0, %(lines)s, o.evidence_id,
           o.entry_id, %(actor)s, now()
    FROM unnest(%(operations)s::text[], %(evidence_ids)s::uuid[], %(settle_entries)s::uuid[])
        AS o (id, evidence_id, entry_id)
    """,
)
RECEIPT = """
    INSERT INTO receipt (tenant, actor, command, key, fingerprint, fingerprint_version, resource, outcome, state,
                         recorded_at)
    SELECT %(tenant)s, %(actor)s, %(command)s, o.id, sha256(o.id::bytea), 1, o.id, 'OK', %(state)s, now()
    FROM unnest(%(operations)s::text[]) AS o (id)
    """
STRIPE = """
    INSERT INTO book (tenant, book_id, provider, model, currency, closed, version, authority, available, held, unknown,
                      spent, deficit, expense, payable)
    SELECT %(tenant)s, book_id, %(provider)s, %(model)s, %(currency)s, false, 0, 0, 0, 0, 0, 0, 0, 0, 0
    FROM unnest(%(stripes)s::text[]) AS s (book_id)
    """
STEPS = (("Reserve", "RESERVED", RESERVE), ("BeginDispatch", "DISPATCHING", DISPATCH), ("Resolve", "SETTLED", RESOLVE))

# The tables that a lifecycle adds rows to.
WRITTEN = ("hold", "entry", "posting", "receipt", "evidence", "resolution", "incident")


@dataclass(frozen=True, slots=True)
class Identity:
    """In whose name the rows are written."""

    tenant: str
    actor: str


def run(url: str, identity: Identity, prefix: str, size: int, count: int, warmup_count: int) -> float:
    """Writes `warmup_count` batches, then `count` batches; how many seconds the latter took.

    The database holds the budget and the price card, as the service's does.
    """
    constants = _constants(identity)
    batches = [_batch(workload.operation_ids(prefix, number, size), number) for number in range(warmup_count + count)]
    with psycopg.connect(url) as connection:
        connection.adapters.register_dumper(list, ListBinaryDumper)
        _open_stripes(connection, constants)
        for batch in batches[:warmup_count]:
            _write(connection, constants | batch)
        started = time.perf_counter()
        for batch in batches[warmup_count:]:
            _write(connection, constants | batch)
        return time.perf_counter() - started


def written(url: str) -> dict[str, int]:
    """How many rows each table has that a lifecycle adds to."""
    with psycopg.connect(url) as connection:
        return {table: _count(connection, table) for table in WRITTEN}


def _count(connection: Connection, table: str) -> int:
    row = connection.execute(f"SELECT count(*) FROM {table}").fetchone()  # noqa: S608 - a name of this module
    assert row is not None
    return int(row[0])


def _write(connection: Connection, values: dict[str, Any]) -> None:
    for command, state, statements in STEPS:
        with connection.pipeline():
            for statement in statements:
                connection.execute(statement, values)
            connection.execute(RECEIPT, values | {"command": command, "state": state})
            connection.commit()


def _open_stripes(connection: Connection, constants: dict[str, Any]) -> None:
    stripes = [_stripe(number) for number in range(STRIPES)]
    connection.execute(STRIPE, constants | {"stripes": stripes})
    connection.commit()


def _stripe(number: int) -> str:
    return f"#financial/{workload.PROVIDER}/{workload.MODEL}/{workload.CURRENCY}/{number % STRIPES}"


def _batch(operations: list[str], number: int) -> dict[str, Any]:
    def ids() -> list[uuid.UUID]:
        # In the order of time, as the service's are: random ones would make the indexes slower here.
        at = time.time_ns() // 1_000_000 << 80
        return [uuid.UUID(int=at | 7 << 76 | 2 << 62 | i << 48 | uuid.uuid4().node) for i in range(len(operations))]

    return {
        "operations": operations,
        "first": operations[0],
        "last": operations[-1],
        "size": len(operations),
        "stripe": _stripe(number),
        "reserve_entries": ids(),
        "settle_entries": ids(),
        "evidence_ids": ids(),
    }


def _constants(identity: Identity) -> dict[str, Any]:
    """What all rows have in common. The documents are those that the service writes for the same lifecycle."""
    rates = tuple(Rate(bucket, STANDARD_TIER, 0, Decimal(price), 1_000_000) for bucket, price in workload.RATES.items())
    card = PriceCard(
        identity.tenant, workload.CARD, 1, workload.PROVIDER, workload.MODEL, (), workload.CURRENCY, rates,
        max_input_tokens=272_000, max_output_tokens=128_000,
    )  # fmt: skip
    ceilings = tuple(sorted(workload.CEILINGS.items()))
    spec = QuoteSpec(
        QuoteKind.METERED, Decimal(0), card_id=workload.CARD, card_version=1, model=workload.MODEL, ceilings=ceilings
    )
    quoted = quote(spec, card, datetime.now(UTC))
    assert isinstance(quoted, Quote)
    buckets = tuple(sorted(workload.USAGE.items()))
    usage = Usage(
        "PROVIDER_RESPONSE", workload.PROVIDER, workload.MODEL, "", workload.ADAPTER, workload.ADAPTER_REVISION, buckets
    )
    lines, _ = price(card, dict(buckets), STANDARD_TIER)
    return {
        "tenant": identity.tenant,
        "actor": identity.actor,
        "currency": workload.CURRENCY,
        "provider": workload.PROVIDER,
        "model": workload.MODEL,
        "executor": workload.EXECUTOR,
        "budget": workload.budget_id(0),
        "book": f"{workload.budget_id(0)}#0",
        "amount": quoted.amount,
        "cost": sum((line.amount for line in lines), Decimal(0)),
        "quote": Jsonb(quoted.to_document()),
        "labels": Jsonb(workload.LABELS),
        "body": Jsonb(usage.content()),
        "lines": Jsonb([line.to_document() for line in lines]),
    }
