"""Arrays on the wire, in PostgreSQL's binary form.

Whole columns travel as one array each, and encoding them is the largest cost of a batch. psycopg's own dumpers take the items
one by one; here each distinct value of a column is encoded once and looked up from then on, which pays because most columns
of a batch (tenant, currency, actor, the time) hold few values. The type of an array is given, not guessed from its items, so
that a column without values in one batch is the same prepared statement as in the next.
"""

import struct
from collections.abc import Callable, Iterable
from datetime import date, datetime
from typing import Any, ClassVar, cast

from psycopg import adapters
from psycopg.abc import Buffer
from psycopg.adapt import PyFormat
from pydantic_core import to_json
from sqlalchemy import BigInteger, Boolean, Date, Integer, LargeBinary, Numeric, Text, Uuid
from sqlalchemy.dialects.postgresql import ARRAY, JSONB, TIMESTAMP
from sqlalchemy.types import TypeEngine

_HEAD = struct.Struct("!IIIII").pack  # dimensions, may have nulls, type of the items, length, lower bound
_LENGTH = struct.Struct("!I").pack
_NULL = b"\xff\xff\xff\xff"

# Joins the items of a text[] on its way: an array of arrays would have to be rectangular. Ids have no control characters.
SEPARATOR = "\x1f"


class Array:
    """The values of one column. Each subclass is an array of one type."""

    __slots__ = ("values",)

    type_oid: ClassVar[int]
    array_oid: ClassVar[int]
    encode: "ClassVar[staticmethod[[Any], Buffer]]"

    def __init__(self, values: tuple[Any, ...]) -> None:
        self.values = values

    def items(self) -> Iterable[bytes]:
        """The values, each with its length in front."""
        encode = self.encode
        encoded: dict[Any, bytes] = dict.fromkeys(self.values, _NULL)
        for value in encoded:
            if value is not None:
                item = encode(value)
                encoded[value] = _LENGTH(len(item)) + item
        return map(encoded.__getitem__, self.values)

    def encoded(self) -> bytes:
        """The array as PostgreSQL reads it."""
        return _HEAD(1, 1, self.type_oid, len(self.values), 1) + b"".join(self.items())


def _psycopg(kind: type) -> Callable[[Any], Buffer]:
    """The encoder that psycopg has for single values of a type. It gives None for None only, which it never gets here."""
    return cast("Callable[[Any], Buffer]", adapters.get_dumper(kind, PyFormat.BINARY)(kind).dump)


class Texts(Array):
    type_oid, array_oid = 25, 1009
    encode = staticmethod(str.encode)


class Integers(Array):
    type_oid, array_oid = 20, 1016
    encode = staticmethod(struct.Struct("!q").pack)


class Booleans(Array):
    type_oid, array_oid = 16, 1000
    encode = staticmethod(struct.Struct("!?").pack)


class Amounts(Array):
    """Decimals as texts: writing one is three times as fast as packing its digits, and so is hashing it."""

    type_oid, array_oid = 25, 1009
    encode = staticmethod(str.encode)

    def __init__(self, values: tuple[Any, ...]) -> None:
        super().__init__(tuple([None if value is None else str(value) for value in values]))


class Times(Array):
    type_oid, array_oid = 1184, 1185
    encode = staticmethod(_psycopg(datetime))


class Dates(Array):
    type_oid, array_oid = 1082, 1182
    encode = staticmethod(_psycopg(date))


class ByteStrings(Array):
    type_oid, array_oid = 17, 1001
    encode = staticmethod(bytes)


class Lists(Array):
    """Tuples of texts, each as one text."""

    type_oid, array_oid = 25, 1009

    @staticmethod
    def encode(value: tuple[str, ...]) -> bytes:
        return SEPARATOR.join(value).encode()


class Numbers(Array):
    """Tuples of small numbers, each as one text."""

    type_oid, array_oid = 25, 1009

    @staticmethod
    def encode(value: tuple[int, ...]) -> bytes:
        return SEPARATOR.join(map(str, value)).encode()


class Uuids(Array):
    type_oid, array_oid = 2950, 2951

    def items(self) -> Iterable[bytes]:
        # Ids are all different, and hashing one in Python costs more than looking it up would save.
        return [_NULL if value is None else b"\x00\x00\x00\x10" + value.bytes for value in self.values]


class Documents(Array):
    """JSON: mappings and sequences of texts."""

    type_oid, array_oid = 3802, 3807

    def items(self) -> Iterable[bytes]:
        return [_NULL if value is None else _document(to_json(value)) for value in self.values]


def _document(encoded: bytes) -> bytes:
    # PostgreSQL's binary form of jsonb is its text, after the number of the form.
    return _LENGTH(len(encoded) + 1) + b"\x01" + encoded


class Json(Array):
    """JSON that stays as it is written: PostgreSQL looks whether it is JSON, and does not take it apart."""

    type_oid, array_oid = 114, 199

    def items(self) -> Iterable[bytes]:
        return [_LENGTH(len(encoded)) + encoded for encoded in map(to_json, self.values)]


_BY_TYPE: dict[type[TypeEngine[Any]], type[Array]] = {
    Text: Texts,
    BigInteger: Integers,
    Integer: Integers,
    Boolean: Booleans,
    Numeric: Amounts,
    TIMESTAMP: Times,
    Date: Dates,
    Uuid: Uuids,
    LargeBinary: ByteStrings,
    ARRAY: Lists,
    JSONB: Documents,
}


def array_of(kind: TypeEngine[Any]) -> type[Array]:
    """The array class for values of a column type."""
    if isinstance(kind, ARRAY) and isinstance(kind.item_type, Integer):
        return Numbers
    return _BY_TYPE[type(kind)]
