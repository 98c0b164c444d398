"""Rows by SQL, for tests that go around the service."""

from datetime import date, datetime
from decimal import Decimal
from uuid import UUID

from ledger.store.records import metadata

# What a column has that must have something, by its type.
NOTHING: dict[type, str] = {
    str: "''",
    bytes: "''",
    int: "0",
    Decimal: "0",
    bool: "false",
    list: "'{}'",
    object: "'{}'",
    datetime: "now()",
    date: "current_date",
    UUID: "gen_random_uuid()",
}


def insert(table: str, rows: str = "", **values: str) -> str:
    """An INSERT of one row, or of one for each of `rows` (a FROM clause). Values are SQL; what is not named has nothing."""
    columns = metadata.tables[table].columns
    assert values.keys() <= set(columns.keys()), values
    must = {column.name: NOTHING[column.type.python_type] for column in columns if not column.nullable}
    row = must | values
    return f"INSERT INTO {table} ({', '.join(row)}) SELECT {', '.join(row.values())} {rows}"
