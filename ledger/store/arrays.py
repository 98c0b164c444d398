"""Arrays on the wire, in PostgreSQL's binary form.

Whole columns travel as one array each, and encoding them is the largest cost of a batch. psycopg's own dumpers take the items
one by one; here each distinct value of a column is encoded once and looked up from then on, which pays because most columns
of a batch (tenant, currency, actor, the time) hold few values. The type of an array is given, not guessed from its items, so
that a column without values in one batch is the same prepared statement as in the next.
"""

import struct
from collections.abc import Callable, Iterable
from datetime import date, datetime
from decimal import Decimal
from typing import Any, ClassVar

from psycopg import Connection, adapters, pq
from psycopg.abc import Buffer
from psycopg.adapt import Dumper, PyFormat
from sqlalchemy import BigInteger, Boolean, Date, LargeBinary, Numeric, Text, Uuid
from sqlalchemy.dialects.postgresql import TIMESTAMP
from sqlalchemy.types import TypeEngine

_HEAD = struct.Struct("!IIIII").pack  # dimensions, may have nulls, type of the items, length, lower bound
_LENGTH = struct.Struct("!I").pack
_NULL = b"\xff\xff\xff\xff"

Encode = Callable[[Any], Buffer]


def _psycopg(kind: type) -> Encode:
    """The encoder that psycopg has for single values of a type."""

    def encode(value: Any) -> Buffer:
        encoded = dump(value)
        assert encoded is not None, "only None has no encoding"
        return encoded

    dump = adapters.get_dumper(kind, PyFormat.BINARY)(kind).dump
    return encode


class Array(list[Any]):
    """The values of one column. Each subclass is an array of one type."""

    type_oid: ClassVar[int]
    array_oid: ClassVar[int]
    encode: "ClassVar[staticmethod[[Any], Buffer]]"

    def items(self) -> Iterable[bytes]:
        """The values, each with its length in front."""
        encode = self.encode
        encoded: dict[Any, bytes] = dict.fromkeys(self, _NULL)
        for value in encoded:
            if value is not None:
                item = encode(value)
                encoded[value] = _LENGTH(len(item)) + item
        return map(encoded.__getitem__, self)


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
    type_oid, array_oid = 1700, 1231
    encode = staticmethod(_psycopg(Decimal))


class Times(Array):
    type_oid, array_oid = 1184, 1185
    encode = staticmethod(_psycopg(datetime))


class Dates(Array):
    type_oid, array_oid = 1082, 1182
    encode = staticmethod(_psycopg(date))


class Uuids(Array):
    type_oid, array_oid = 2950, 2951

    def items(self) -> Iterable[bytes]:
        # Ids are all different, and the hash of a UUID is computed in Python: looking them up would cost more than it saves.
        return [_NULL if value is None else b"\x00\x00\x00\x10" + value.bytes for value in self]


class ByteStrings(Array):
    type_oid, array_oid = 17, 1001
    encode = staticmethod(bytes)


_BY_TYPE: dict[type[TypeEngine[Any]], type[Array]] = {
    Text: Texts,
    BigInteger: Integers,
    Boolean: Booleans,
    Numeric: Amounts,
    TIMESTAMP: Times,
    Date: Dates,
    Uuid: Uuids,
    LargeBinary: ByteStrings,
}


def array_of(kind: TypeEngine[Any]) -> type[Array]:
    """The array class for values of a column type."""
    return _BY_TYPE[type(kind)]


class _ArrayDumper(Dumper):
    format = pq.Format.BINARY

    def __init__(self, cls: type[Array], context: Any = None) -> None:
        super().__init__(cls, context)
        self.oid = cls.array_oid
        self._type_oid = cls.type_oid

    def dump(self, obj: Array) -> bytes:
        return _HEAD(1, 1, self._type_oid, len(obj), 1) + b"".join(obj.items())


def register_arrays(connection: Connection[Any]) -> None:
    """Teaches a connection to send the arrays of this module."""
    for array in _BY_TYPE.values():
        connection.adapters.register_dumper(array, _ArrayDumper)


def columns(kinds: Iterable[type[Array]], rows: Iterable[Iterable[Any]]) -> list[Array]:
    """Turns rows, of which there is at least one, into one array per column."""
    return [kind(column) for kind, column in zip(kinds, zip(*rows, strict=True), strict=True)]
