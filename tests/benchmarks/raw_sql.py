"""The other side of the comparison: the same rows, written by plain set-based SQL, as fast as one connection can.

Every lifecycle of the service's batch load is written again: into the same tables, under the same indexes, constraints and
triggers, in three transactions for each batch, as the service commits it. What differs from row to row (operation and ids)
is sent as arrays that are made before the clock starts; the rest is constants of the statement, and PostgreSQL computes
hashes and times. The statements of a transaction go out in one round trip. No rule is applied: no balance is looked at,
no key compared, nothing priced.
"""

import hashlib
import json
import secrets
import time
import uuid
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, TypeAlias

import psycopg
from psycopg.types.array import ListBinaryDumper
from psycopg.types.json import Jsonb

from ledger.domain.cards import STANDARD_TIER, PriceCard, Rate
from ledger.domain.commands import Usage
from ledger.domain.model import Caller
from ledger.domain.money import plain
from ledger.domain.needs import STRIPES
from ledger.domain.pricing import price
from ledger.domain.quotes import Quote, QuoteKind, QuoteSpec, quote
from tests.benchmarks import workload

Connection: TypeAlias = "psycopg.Connection[Any]"

RESERVE = (
    """
    INSERT INTO hold (tenant, operation_id, state, currency, amount, quote, budget_ids, books, labels, actor, fingerprint,
                      fingerprint_version, created_at, expire_at, updated_at, attempt, generation, inferred, execution_seen,
                      usage_seen, revision, version)
    SELECT %(tenant)s, o.id, 'RESERVED', %(currency)s, o.amount, o.quote::jsonb, ARRAY[%(budget)s], ARRAY[%(book)s],
           %(labels)s, %(actor)s, sha256(o.id::bytea), 1, now(), now() + interval '15 min', now(), 0, 0, false, false,
           false, 0, 1
    FROM unnest(%(operations)s::text[], %(amounts)s::numeric[], %(quotes)s::text[]) AS o (id, amount, quote)
    """,
    """
    INSERT INTO entry (tenant, entry_id, kind, currency, recorded_at, effective_at, accounting_date, operation_id, actor)
    SELECT %(tenant)s, o.entry_id, 'RESERVE', %(currency)s, now(), now(), current_date, o.id, %(actor)s
    FROM unnest(%(operations)s::text[], %(reserve_entries)s::uuid[]) AS o (id, entry_id)
    """,
    """
    WITH moved AS (
        UPDATE book SET version = version + 2 * %(size)s, open_holds = open_holds + %(size)s,
            available = available - %(amount)s, held = held + %(amount)s
        WHERE tenant = %(tenant)s AND book_id = %(book)s RETURNING version - 2 * %(size)s AS before)
    INSERT INTO posting (tenant, book_id, version, entry_id, account, amount)
    SELECT %(tenant)s, %(book)s, before + 2 * (o.n - 1) + leg.n, o.entry_id, leg.account, leg.amount
    FROM moved, unnest(%(reserve_entries)s::uuid[], %(amounts)s::numeric[]) WITH ORDINALITY AS o (entry_id, amount, n),
        LATERAL (VALUES (1, 'AVAILABLE', o.amount), (2, 'HELD', -o.amount)) AS leg (n, account, amount)
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
    UPDATE hold SET state = 'SETTLED', execution_seen = true, usage_seen = true, revision = 1, resolution_kind = 'USAGE',
        resolution_digest = sha256(operation_id::bytea), settled = o.cost, resolved_at = now(),
        provider_receipt = 'resp-' || operation_id, updated_at = now(), version = version + 1
    FROM unnest(%(operations)s::text[], %(costs)s::numeric[]) AS o (id, cost)
    WHERE tenant = %(tenant)s AND operation_id BETWEEN %(first)s AND %(last)s AND operation_id = o.id
    """,
    """
    INSERT INTO evidence (tenant, operation_id, evidence_id, attempt, kind, classification, reasons, source, actor, adapter,
                          adapter_revision, policy, received_at, provider_receipt, digest, fact, body)
    SELECT %(tenant)s, o.id, o.evidence_id, 1, 'USAGE', 'AUTHORITATIVE', '{}', 'PROVIDER_RESPONSE', %(actor)s,
           %(adapter)s, %(revision)s, '#built-in/1', now(), 'resp-' || o.id, sha256(o.id::bytea),
           sha256(convert_to(o.body, 'UTF8')), o.body::jsonb
    FROM unnest(%(operations)s::text[], %(evidence_ids)s::uuid[], %(bodies)s::text[]) AS o (id, evidence_id, body)
    """,
    """
    INSERT INTO entry (tenant, entry_id, kind, currency, recorded_at, effective_at, accounting_date, operation_id, actor)
    SELECT %(tenant)s, o.entry_id, 'SETTLE', %(currency)s, now(), now(), current_date, o.id, %(actor)s
    FROM unnest(%(operations)s::text[], %(settle_entries)s::uuid[]) AS o (id, entry_id)
    """,
    """
    WITH moved AS (
        UPDATE book SET version = version + 3 * %(size)s, open_holds = open_holds - %(size)s,
            held = held - %(amount)s, spent = spent + %(cost)s, available = available + %(amount)s - %(cost)s
        WHERE tenant = %(tenant)s AND book_id = %(book)s RETURNING version - 3 * %(size)s AS before),
    paid AS (
        UPDATE book SET version = version + 2 * %(size)s, expense = expense + %(cost)s, payable = payable + %(cost)s
        WHERE tenant = %(tenant)s AND book_id = %(stripe)s RETURNING version - 2 * %(size)s AS before)
    INSERT INTO posting (tenant, book_id, version, entry_id, account, amount)
    SELECT %(tenant)s, leg.book_id, leg.version, o.entry_id, leg.account, leg.amount
    FROM moved, paid, unnest(%(settle_entries)s::uuid[], %(amounts)s::numeric[], %(costs)s::numeric[])
            WITH ORDINALITY AS o (entry_id, amount, cost, n),
        LATERAL (VALUES (%(book)s, moved.before + 3 * o.n - 2, 'HELD', o.amount),
                        (%(book)s, moved.before + 3 * o.n - 1, 'SPENT', -o.cost),
                        (%(book)s, moved.before + 3 * o.n, 'AVAILABLE', o.cost - o.amount),
                        (%(stripe)s, paid.before + 2 * o.n - 1, 'EXPENSE', o.cost),
                        (%(stripe)s, paid.before + 2 * o.n, 'PAYABLE', -o.cost))
            AS leg (book_id, version, account, amount)
    """,
    """
    INSERT INTO resolution (tenant, operation_id, revision, kind, digest, amount, currency, cost_over_hold, lines,
                            passed_ceilings, evidence_id, entry_id, actor, recorded_at)
    SELECT %(tenant)s, o.id, 1, 'USAGE', sha256(o.id::bytea), o.cost, %(currency)s, 0, o.lines::jsonb, '{}',
           o.evidence_id, o.entry_id, %(actor)s, now()
    FROM unnest(%(operations)s::text[], %(costs)s::numeric[], %(lines)s::text[], %(evidence_ids)s::uuid[],
                %(settle_entries)s::uuid[]) AS o (id, cost, lines, evidence_id, entry_id)
    """,
)
RECEIPT = """
    INSERT INTO receipt (tenant, actor, command, key, fingerprint, fingerprint_version, resource, outcome, state,
                         recorded_at)
    SELECT %(tenant)s, %(actor)s, %(command)s, o.id, sha256(o.id::bytea), 1, o.id, 'OK', %(state)s, now()
    FROM unnest(%(operations)s::text[]) AS o (id)
    """
OUTBOX = """
    INSERT INTO outbox (tenant, epoch, position, turn, xid, cluster, recorded_at, events)
    SELECT %(tenant)s, 1, own, 0, own, system_identifier, now(), %(events)s::json
    FROM pg_control_system(), LATERAL (SELECT pg_current_xact_id()::text::bigint AS own) AS asked
    """
STRIPES_OPENED = """
    INSERT INTO book (tenant, book_id, provider, model, currency, closed, version, open_holds, authority, available, held,
                      unknown, spent, deficit, expense, payable, rollover, carried, carried_on, thresholds, threshold_basis,
                      crossed)
    SELECT %(tenant)s, book_id, %(provider)s, %(model)s, %(currency)s, false, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 'NONE', 0, 0,
        '{}', 'USED', '{}'
    FROM unnest(%(stripes)s::text[]) AS s (book_id)
    ON CONFLICT DO NOTHING
    """
STEPS = (("Reserve", "RESERVED", RESERVE), ("BeginDispatch", "DISPATCHING", DISPATCH), ("Resolve", "SETTLED", RESOLVE))

# The tables that a lifecycle adds rows to.
WRITTEN = ("hold", "entry", "posting", "receipt", "evidence", "resolution", "incident", "outbox")


def run(url: str, who: Caller, prefix: str, size: int, count: int, warmup_count: int) -> float:
    """Writes `warmup_count` batches, then `count` batches; how many seconds the latter took.

    The database holds the budget and the price card, as the service's does.
    """
    constants = _constants(who)
    card = _card(who)
    batches = [
        constants | _batch(card, workload.operations(prefix, number, size), number)
        for number in range(warmup_count + count)
    ]
    with psycopg.connect(url) as connection:
        connection.adapters.register_dumper(list, ListBinaryDumper)
        connection.execute(STRIPES_OPENED, constants | {"stripes": [_stripe(number) for number in range(STRIPES)]})
        connection.commit()
        for batch in batches[:warmup_count]:
            _write(connection, batch)
        started = time.perf_counter()
        for batch in batches[warmup_count:]:
            _write(connection, batch)
        return time.perf_counter() - started


def written(url: str, before: Mapping[str, int] | None = None) -> dict[str, int]:
    """How many rows each table has that a lifecycle adds to; if `before` is given, how many more than then."""
    with psycopg.connect(url) as connection:
        counted = {table: _count(connection, table) for table in WRITTEN}
    return {table: rows - (before or {}).get(table, 0) for table, rows in counted.items()}


def _count(connection: Connection, table: str) -> int:
    row = connection.execute(f"SELECT count(*) FROM {table}").fetchone()
    assert row is not None
    return int(row[0])


def _write(connection: Connection, values: dict[str, Any]) -> None:
    for command, state, statements in STEPS:
        with connection.pipeline():
            for statement in statements:
                connection.execute(statement, values)
            connection.execute(RECEIPT, values | {"command": command, "state": state})
            connection.execute(OUTBOX, values | {"events": values[command]})
            connection.commit()


def _constants(who: Caller) -> dict[str, Any]:
    """What all rows have in common."""
    return {
        "tenant": who.tenant,
        "actor": who.actor,
        "currency": workload.CURRENCY,
        "provider": workload.PROVIDER,
        "model": workload.MODEL,
        "executor": workload.EXECUTOR,
        "adapter": workload.ADAPTER,
        "revision": workload.ADAPTER_REVISION,
        "budget": workload.budget_id(0),
        "book": f"{workload.budget_id(0)}#0",
        "labels": Jsonb(workload.LABELS),
    }


def _batch(card: PriceCard, operations: dict[int, str], number: int) -> dict[str, Any]:
    """What differs from row to row: amounts and documents are those that the service writes for the same lifecycle."""
    names = list(operations.values())
    quotes = [_quote(card, workload.ceilings(operation)) for operation in operations]
    usages = [workload.usage(operation) for operation in operations]
    priced = [price(card, usage, STANDARD_TIER)[0] for usage in usages]
    amounts = [quoted.amount for quoted in quotes]
    costs = [sum((line.amount for line in lines), Decimal(0)) for lines in priced]
    reserved, settled = _ids(len(names)), _ids(len(names))
    return {
        "operations": names,
        "first": names[0],
        "last": names[-1],
        "size": len(names),
        "stripe": _stripe(number),
        "amounts": amounts,
        "amount": sum(amounts, Decimal(0)),
        "costs": costs,
        "cost": sum(costs, Decimal(0)),
        "quotes": [json.dumps(quoted.to_document()) for quoted in quotes],
        "bodies": [json.dumps(_observed(usage).body()) for usage in usages],
        "lines": [json.dumps([line.to_document() for line in lines]) for lines in priced],
        "reserve_entries": reserved,
        "settle_entries": settled,
        "evidence_ids": _ids(len(names)),
        "Reserve": _events(names, amounts, version=1, to="RESERVED", attempt=0, kind="RESERVE", entries=reserved),
        "BeginDispatch": _events(names, amounts, version=2, to="DISPATCHING", attempt=1, before="RESERVED"),
        "Resolve": _events(
            names,
            amounts,
            version=3,
            to="SETTLED",
            attempt=1,
            before="DISPATCHING",
            kind="SETTLE",
            entries=settled,
            costs=costs,
        ),
    }


def _events(
    names: Sequence[str],
    amounts: Sequence[Decimal],
    *,
    version: int,
    to: str,
    attempt: int,
    before: str = "",
    kind: str = "",
    entries: Sequence[uuid.UUID] = (),
    costs: Sequence[Decimal] = (),
) -> str:
    """What a transaction tells those who follow the ledger."""
    told: list[dict[str, Any]] = [
        {
            "type": "HOLD",
            "operation_id": name,
            "version": version,
            "to": to,
            "attempt": attempt,
            "amount": plain(amount),
        }
        | {"currency": workload.CURRENCY}
        for name, amount in zip(names, amounts, strict=True)
    ]
    for i, event in enumerate(told):
        if before:
            event["from"] = before
        if costs:
            digest = hashlib.sha256(names[i].encode()).hexdigest()
            event |= {"revision": 1, "kind": "USAGE", "digest": digest, "settled": plain(costs[i])}
        if entries:
            event["entries"] = [{"id": str(entries[i]), "kind": kind}]
    return json.dumps(told)


def _ids(count: int) -> list[uuid.UUID]:
    """UUIDs in the order of time, as the service's are: random ones would make the indexes slower here."""
    at = time.time_ns() // 1_000_000 << 80
    return [uuid.UUID(int=at | 7 << 76 | 2 << 62 | i << 48 | secrets.randbits(48)) for i in range(count)]


def _stripe(number: int) -> str:
    return f"#financial/{workload.PROVIDER}#{workload.MODEL}#{workload.CURRENCY}#{number % STRIPES}"


def _card(who: Caller) -> PriceCard:
    rates = tuple(Rate(bucket, STANDARD_TIER, 0, Decimal(price), 1_000_000) for bucket, price in workload.RATES.items())
    return PriceCard(
        who.tenant, workload.CARD, 1, workload.PROVIDER, workload.MODEL, (), workload.CURRENCY, rates,
        max_input_tokens=272_000, max_output_tokens=128_000,
    )  # fmt: skip


def _quote(card: PriceCard, ceilings: dict[str, int]) -> Quote:
    spec = QuoteSpec(
        QuoteKind.METERED, Decimal(0), card_id=card.card_id, card_version=1, model=card.model,
        ceilings=tuple(sorted(ceilings.items())),
    )  # fmt: skip
    quoted = quote(spec, card, datetime.now(UTC))
    assert isinstance(quoted, Quote), f"the card has a price for {ceilings}"
    return quoted


def _observed(buckets: dict[str, int]) -> Usage:
    return Usage(
        "PROVIDER_RESPONSE", workload.PROVIDER, workload.MODEL, "", workload.ADAPTER, workload.ADAPTER_REVISION,
        tuple(sorted(buckets.items())),
    )  # fmt: skip
