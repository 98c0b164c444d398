"""The arrays on the wire are those that PostgreSQL reads: any value, any repetition, and nulls among them."""

from collections.abc import Iterator
from datetime import UTC
from decimal import Decimal
from typing import Any
from uuid import UUID

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from psycopg import pq
from psycopg.adapt import Dumper

from ledger.store.arrays import (
    Amounts,
    Array,
    Booleans,
    ByteStrings,
    Dates,
    Documents,
    Integers,
    Json,
    Lists,
    Numbers,
    Texts,
    Times,
    Uuids,
)

TEXT = st.text(st.characters(exclude_characters="\x00", exclude_categories=["Cs"]), max_size=20)
IDS = st.text(st.characters(categories=["L", "N", "P"]), min_size=1, max_size=5)
MONEY = st.decimals(allow_nan=False, allow_infinity=False, places=18, max_value=10**20 - 1, min_value=1 - 10**20)
JSON = st.recursive(
    TEXT | st.none() | st.booleans(), lambda inner: st.lists(inner) | st.dictionaries(TEXT, inner), max_leaves=8
)
KINDS: dict[str, tuple[type[Array], st.SearchStrategy[Any], str]] = {
    "text": (Texts, TEXT, "%s"),
    "integers": (Integers, st.integers(-(2**63), 2**63 - 1), "%s"),
    "booleans": (Booleans, st.booleans(), "%s"),
    "amounts": (Amounts, MONEY | st.sampled_from([Decimal("1E+3"), Decimal("0E-18"), Decimal("-0")]), "%s::numeric[]"),
    "times": (Times, st.datetimes(timezones=st.just(UTC)), "%s"),
    "dates": (Dates, st.dates(), "%s"),
    "bytes": (ByteStrings, st.binary(), "%s"),
    "ids": (Uuids, st.uuids(), "%s"),
    "documents": (Documents, st.dictionaries(TEXT, JSON), "%s"),
    "json": (Json, st.lists(st.dictionaries(TEXT, JSON)), "%s"),
}


class Sent(Dumper):
    """An array as it is, for a statement of the test."""

    format = pq.Format.BINARY

    def dump(self, obj: Array) -> bytes:
        return obj.encoded()


def dumper_of(kind: type[Array]) -> type[Dumper]:
    return type(kind.__name__, (Sent,), {"oid": kind.array_oid})


@pytest.fixture(scope="module")
def sql(shared_database_url: str) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(shared_database_url, autocommit=True) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        kinds: list[type[Array]] = [Lists, Numbers, *(kind for kind, _, _ in KINDS.values())]
        for kind in kinds:
            connection.adapters.register_dumper(kind, dumper_of(kind))
        yield connection


@pytest.mark.parametrize("name", KINDS)
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_what_is_sent_comes_back(sql: psycopg.Connection[Any], name: str, data: st.DataObject) -> None:
    kind, values, placeholder = KINDS[name]
    sent = data.draw(st.lists(st.none() | values, min_size=1, max_size=8))
    # Values that are there more than once are encoded once.
    sent += sent[:3]
    row = sql.execute(f"SELECT {placeholder}".encode(), [kind(tuple(sent))]).fetchone()
    assert row is not None
    assert row[0] == sent


@given(lists=st.lists(st.lists(IDS).map(tuple), min_size=1))
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_lists_of_any_length(sql: psycopg.Connection[Any], lists: list[tuple[str, ...]]) -> None:
    query = b"SELECT string_to_array(item, chr(31)) FROM unnest(%s) WITH ORDINALITY AS u(item, n) ORDER BY n"
    assert [tuple(row[0]) for row in sql.execute(query, [Lists(tuple(lists))])] == lists


@given(lists=st.lists(st.lists(st.integers(0, 2**31 - 1)).map(tuple), min_size=1))
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_numbers_of_any_length(sql: psycopg.Connection[Any], lists: list[tuple[int, ...]]) -> None:
    query = b"SELECT string_to_array(item, chr(31))::int[] FROM unnest(%s) WITH ORDINALITY AS u(item, n) ORDER BY n"
    assert [tuple(row[0]) for row in sql.execute(query, [Numbers(tuple(lists))])] == lists


def test_an_id_is_its_16_bytes() -> None:
    assert b"".join(Uuids((UUID(int=1),)).items()) == b"\x00\x00\x00\x10" + b"\x00" * 15 + b"\x01"
