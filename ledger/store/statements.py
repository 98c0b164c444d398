"""The statements of the hot path, made from the tables.

All of them are set-based: keys or rows come as one array per column, so that their number does not depend on the size of a
batch. They are compiled once, and prepared once per connection (see pipeline).

Rows are found by `unnest(keys) CROSS JOIN LATERAL (SELECT … WHERE key = k.key)`, which is one index look-up per key under any
statistics, and taken in the order of the keys; plain joins and `= ANY` fell to scans of tables that were never analysed.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    ClauseElement,
    Column,
    ColumnElement,
    Integer,
    Numeric,
    Select,
    Table,
    Text,
    TextClause,
    bindparam,
    cast,
    column,
    delete,
    func,
    literal_column,
    select,
    true,
    union_all,
)
from sqlalchemy.dialects.postgresql import ARRAY, JSONB, TIMESTAMP, Insert, insert, psycopg
from sqlalchemy.sql import FromClause
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.elements import NamedColumn
from sqlalchemy.types import TypeEngine

from ledger.store.arrays import SEPARATOR, Array, array_of

_SEPARATOR = literal_column(f"chr({ord(SEPARATOR)})", Text())


# Written out: a parameter would need a value at each execution.
ONE = literal_column("1", Integer())


@dataclass(frozen=True, slots=True)
class Statement:
    """SQL with the placeholders $1, $2, …: one per name, each for an array of the kind beside it.

    `name` is that of the prepared statement; no two statements of a process share one.
    """

    name: bytes
    sql: str
    names: tuple[str, ...]
    kinds: tuple[type[Array], ...]

    def bind(self, rows: Sequence[Sequence[Any]]) -> list[Array]:
        """One array per column, from rows of which there is at least one; their values are in the order of the names."""
        return [kind(values) for kind, values in zip(self.kinds, zip(*rows, strict=True), strict=True)]


_numbers = count(1)


def statement(sql: str, names: Sequence[str] = (), kinds: Sequence[type[Array]] = ()) -> Statement:
    """A statement under a name of its own."""
    return Statement(f"ledger_{next(_numbers)}".encode(), sql, tuple(names), tuple(kinds))


def _on_the_wire(kind: TypeEngine[Any]) -> TypeEngine[Any]:
    """The type by which the values of a column travel."""
    if isinstance(kind, (Text, ARRAY, Numeric)):
        return Text()
    return BigInteger() if isinstance(kind, Integer) else kind


def _unnest(columns: Sequence[NamedColumn[Any]], name: str) -> FromClause:
    """Rows of the columns' types, from one array parameter per column."""
    kinds = [_on_the_wire(c.type) for c in columns]
    arrays = [bindparam(c.name, type_=ARRAY(kind)) for c, kind in zip(columns, kinds, strict=True)]
    items = [column(c.name, kind) for c, kind in zip(columns, kinds, strict=True)]
    return func.unnest(*arrays).table_valued(*items).render_derived(name=name)


def _compile(clause: ClauseElement, columns: Sequence[NamedColumn[Any]]) -> Statement:
    names = [c.name for c in columns]
    compiled = clause.compile(dialect=psycopg.dialect(paramstyle="numeric_dollar"))  # type: ignore[no-untyped-call] # SQLAlchemy's own
    assert isinstance(compiled, SQLCompiler), "it is no DDL"
    assert compiled.positiontup == names, "arrays are sent in the order of the columns"
    return statement(str(compiled), names, [array_of(c.type) for c in columns])


def columns_of(table: Table) -> Select[Any]:
    """All columns of a table; JSON as its text, which is parsed only where it must be."""
    return select(*(cast(c, Text).label(c.name) if isinstance(c.type, JSONB) else c for c in table.c))


def _written(c: Column[Any], rows: FromClause) -> ColumnElement[Any]:
    """A column as it is written, from its form on the wire."""
    sent = rows.c[c.name]
    if isinstance(c.type, Numeric):
        return cast(sent, Numeric)
    if not isinstance(c.type, ARRAY):
        return sent
    items = func.string_to_array(sent, _SEPARATOR)
    return items if isinstance(c.type.item_type, Text) else cast(items, c.type)


def look_up(found: Select[Any], keys: Sequence[NamedColumn[Any]]) -> Statement:
    """The row of `found` for each of the keys, in their order.

    `found` has a lock or a limit, or else the planner would make it a join.
    """
    k = _unnest(keys, "k")
    row = found.where(*(c == k.c[c.name] for c in keys)).lateral("found")
    return _compile(select(*row.c).select_from(k.join(row, true())), keys)


def look_up_each(found: Sequence[Select[Any]], keys: Sequence[Sequence[NamedColumn[Any]]]) -> Statement:
    """The rows of each `found` for each of the keys, as of one instant; `keys` are the columns of each, named alike."""
    k = _unnest(keys[0], "k")
    rows = [
        one.where(*(c == k.c[c.name] for c in columns)).lateral("found")
        for one, columns in zip(found, keys, strict=True)
    ]
    return _compile(union_all(*(select(*row.c).select_from(k.join(row, true())) for row in rows)), keys[0])


def count_up_to(key: Column[Any], most: int) -> Statement:
    """How many rows there are with each of the keys; counting ends at `most`."""
    k = _unnest([key], "k")
    some = select(ONE.label("one")).where(key == k.c[key.name]).limit(literal_column(str(most), Integer()))
    rows = select(func.count().label("number")).select_from(some.correlate(k).subquery("some")).lateral("found")
    return _compile(select(k.c[key.name], rows.c.number).select_from(k.join(rows, true())), [key])


def remove(table: Table) -> Statement:
    """DELETE of the rows with the keys."""
    keys = list(table.primary_key.columns)
    k = _unnest(keys, "k")
    return _compile(delete(table).where(*(c == k.c[c.name] for c in keys)), keys)


def chains(table: Table, key: Sequence[Column[Any]], path: Column[Any]) -> Statement:
    """The rows on the paths of the rows with the keys, each once: their whole chains."""
    tenant, name = key
    k = _unnest(key, "k")
    end = select(path).where(tenant == k.c[tenant.name], name == k.c[name.name]).limit(ONE).lateral("named")
    level = (
        func.unnest(end.c[path.name]).table_valued(column("step", Text())).render_derived(name="level").lateral("level")
    )
    steps = (
        select(k.c[tenant.name], level.c.step)
        .select_from(k.join(end, true()).join(level, true()))
        .distinct()
        .subquery("levels")
    )
    found = columns_of(table).where(tenant == steps.c[tenant.name], name == steps.c.step).limit(ONE).lateral("found")
    return _compile(select(*found.c).select_from(steps.join(found, true())), key)


def changed_since(keys: Sequence[Column[Any]], version: Column[Any]) -> Statement:
    """The keys of the rows that are not at the version any more that is given with each."""
    sent = [*keys, version]
    k = _unnest(sent, "k")
    same = [c == k.c[c.name] for c in keys]
    row = select(*keys).where(*same, version != k.c[version.name]).limit(ONE).lateral("found")
    return _compile(select(*row.c).select_from(k.join(row, true())), sent)


def subtrees(table: Table, key: Sequence[Column[Any]], parent: ColumnElement[str], has_parent: TextClause) -> Statement:
    """The rows with the keys and all that is below them, level by level."""
    tenant, name = key
    k = _unnest(key, "k")
    top = columns_of(table).where(*(c == k.c[c.name] for c in key)).limit(ONE).lateral("top")
    tree = select(*top.c).select_from(k.join(top, true())).cte("tree", recursive=True)
    # OFFSET keeps the planner from making it a join over the whole table.
    children = columns_of(table).where(tenant == tree.c[tenant.name], parent == tree.c[name.name], has_parent)
    child = children.offset(literal_column("0", Integer())).lateral("child")
    tree = tree.union_all(select(*child.c).select_from(tree.join(child, true())))
    return _compile(select(*tree.c), key)


def append(table: Table) -> Statement:
    """INSERT of rows with all columns."""
    return _compile(_insert(table), list(table.c))


def append_once(table: Table) -> Statement:
    """INSERT of the rows whose key is not there: those that are there stand for the same fact."""
    keys = list(table.primary_key.columns)
    return _compile(_insert(table).on_conflict_do_nothing(index_elements=keys), list(table.c))


def open_missing(table: Table) -> Statement:
    """INSERT of the rows whose key is not there; gives the keys of those that were not."""
    keys = list(table.primary_key.columns)
    return _compile(_insert(table).on_conflict_do_nothing(index_elements=keys).returning(*keys), list(table.c))


def _insert(table: Table) -> Insert:
    rows = _unnest(list(table.c), "u")
    chosen = select(*(_written(c, rows) for c in table.c))
    return insert(table).from_select(list(table.c.keys()), chosen)


def change(table: Table, changing: Sequence[str], guard: str, checked: Sequence[str] = ()) -> Statement:
    """An update of rows that exist and are locked. It affects as many rows as there are that pass the guard.

    It is an upsert, because `UPDATE … FROM unnest` is planned as a join over the whole table while that is young. The columns
    that never change get placeholders, which are never stored; `checked` are those of them that a CHECK looks at.
    """
    keys = list(table.primary_key.columns)
    sent = [*keys, *(table.c[name] for name in (*checked, *changing))]
    rows = _unnest(sent, "u")
    given = {c.name: _written(c, rows) for c in sent}
    chosen = select(*(given.get(c.name, literal_column(_placeholder(c))) for c in table.c))
    statement = insert(table).from_select(list(table.c.keys()), chosen)
    upsert = statement.on_conflict_do_update(
        index_elements=keys,
        set_={name: statement.excluded[name] for name in changing},
        where=literal_column(guard, Boolean()),
    )
    return _compile(upsert, sent)


def _placeholder(c: Column[Any]) -> str:
    if c.nullable:
        return "NULL"
    return {Numeric: "'0'", Integer: "'0'", JSONB: "'{}'", ARRAY: "'{}'", TIMESTAMP: "'epoch'"}.get(type(c.type), "''")
