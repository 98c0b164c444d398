"""The kinds of columns that the tables are made of."""

from typing import Any

from sqlalchemy import Column, Integer, LargeBinary, Numeric, Text, Uuid
from sqlalchemy.dialects.postgresql import ARRAY, JSONB, TIMESTAMP


def key(name: str) -> Column[str]:
    return Column(name, Text(collation="C"), primary_key=True)


def word(name: str, *, null: bool = False) -> Column[str]:
    return Column(name, Text(collation="C"), nullable=null)


def money(name: str, *, null: bool = False) -> Column[Any]:
    return Column(name, Numeric(38, 18), nullable=null)


def instant(name: str, *, null: bool = False) -> Column[Any]:
    return Column(name, TIMESTAMP(timezone=True), nullable=null)


def octets(name: str, *, null: bool = False) -> Column[bytes]:
    return Column(name, LargeBinary, nullable=null)


def document(name: str, *, null: bool = False) -> Column[Any]:
    return Column(name, JSONB(none_as_null=True), nullable=null)


def words(name: str) -> Column[list[str]]:
    return Column(name, ARRAY(Text(collation="C")), nullable=False)


def numbers(name: str) -> Column[list[int]]:
    return Column(name, ARRAY(Integer), nullable=False)


def identity(name: str, *, null: bool = False) -> Column[Any]:
    return Column(name, Uuid, nullable=null)


def whole(name: str) -> Column[int]:
    return Column(name, Integer, nullable=False)
