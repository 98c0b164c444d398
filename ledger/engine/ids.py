"""Ids for the rows of a batch: UUIDv7 (RFC 9562), ordered by the batch's clock and, within the batch, by their order."""

import os
from datetime import UTC, datetime
from uuid import UUID

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_POOL_IDS = 512
_RANDOM_BYTES = 6
_VERSION_7 = 7 << 76
_VARIANT = 2 << 62
_LOW_62 = (1 << 62) - 1


class Ids:
    """Gives ids. Used by one lane alone.

    After the version and variant bits an id is: milliseconds (48 bits), microseconds of it (10), number within the batch (16),
    randomness (48). The randomness comes from a pool, since a system call for each id costs more than the id.
    """

    __slots__ = ("_at", "_number", "_offset", "_pool")

    def __init__(self) -> None:
        self._pool = b""
        self._offset = 0
        self._number = 0
        self._at = 0
        self.at(datetime.now(UTC))

    def at(self, now: datetime) -> None:
        """Sets the clock that the next ids are ordered by, and begins to number from 0."""
        since = now - _EPOCH
        micros = (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds
        millis, rest = divmod(micros, 1000)
        self._at = (millis << 80) | _VERSION_7 | _VARIANT | _payload(rest << 64)
        self._number = 0

    def __call__(self) -> UUID:
        end = self._offset + _RANDOM_BYTES
        if end > len(self._pool):
            self._pool = os.urandom(_POOL_IDS * _RANDOM_BYTES)
            self._offset, end = 0, _RANDOM_BYTES
        random = int.from_bytes(self._pool[self._offset : end], "big")
        self._offset = end
        number = self._number & 0xFFFF
        self._number += 1
        return UUID(int=self._at | _payload((number << 48) | random))


def _payload(bits: int) -> int:
    """Spreads 74 bits over the places that a UUIDv7 leaves free: 12 above the variant, 62 below it."""
    return ((bits >> 62) << 64) | (bits & _LOW_62)
