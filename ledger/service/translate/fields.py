"""Checks of single values. Each returns the value in the domain's type or raises InvalidField with the field's path.

The path is put together on the way out (`under`), so that a good request pays nothing for it.
"""

import re
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Final, TypeAlias, TypeVar

from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from ledger.domain.cards import MAX_QUANTITY
from ledger.domain.money import NotMoney, parse_amount, parse_currency, parse_price
from ledger.domain.refusals import Reason, Refusal
from ledger.domain.states import HoldState
from ledger.v1 import hold_pb2, money_pb2

Name = TypeVar("Name")
Observed: TypeAlias = (
    hold_pb2.UsageEvidence
    | hold_pb2.NoCostProof
    | hold_pb2.RecordFailedBeforeDispatchRequest
    | hold_pb2.RecordReceiptRequest
    | hold_pb2.RecordDeliveryRequest
)

STATE_NUMBERS: Final = {state: hold_pb2.HoldState.Value(f"HOLD_STATE_{state}") for state in HoldState}
STATES: Final = {int(number): state for state, number in STATE_NUMBERS.items()}
_is_id = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@+=-]{0,127}", re.ASCII).fullmatch
_is_label = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@+=-]{0,63}", re.ASCII).fullmatch
_is_digest = re.compile(r"[0-9a-f]{64}", re.ASCII).fullmatch
# C0, DEL and C1 controls, and surrogates.
_unprintable = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]").search
_ID_RULE = "must be 1 to 128 characters: letters, digits or ._:/@+=-, the first a letter or digit"

_EARLIEST = int(datetime(1970, 1, 1, tzinfo=UTC).timestamp())
_LATEST = int(datetime(9999, 12, 31, tzinfo=UTC).timestamp())
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SECONDS_OF_A_DAY = 86_400
MAX_LABELS = 32
MAX_BUDGETS = 32
MAX_TEXT = 256
LEAST_NONCE = 16
MAX_INT32 = 2**31 - 1
DEFAULT_SPAN = timedelta(minutes=15)
LEAST_SPAN = timedelta(seconds=1)
MOST_SPAN = timedelta(hours=24)


class InvalidField(ValueError):
    """A field is malformed. `path` as in `quote.metered.ceilings[output_tokens]`; `rule` says what it must be."""

    def __init__(self, path: str, rule: str) -> None:
        super().__init__(path, rule)
        self.path = path
        self.rule = rule

    @property
    def refusal(self) -> Refusal:
        return Refusal(Reason.INVALID_FIELD, f"{self.path} {self.rule}.", {"field": self.path})


@contextmanager
def under(prefix: str) -> Iterator[None]:
    """Says where in the request the block is. For messages off the hot path."""
    try:
        yield
    except InvalidField as invalid:
        raise InvalidField(f"{prefix}.{invalid.path}", invalid.rule) from None


def identifier(value: str, path: str) -> str:
    if _is_id(value) is None:
        raise InvalidField(path, _ID_RULE)
    return value


def optional_identifier(value: str, path: str) -> str | None:
    return identifier(value, path) if value else None


def empty_or_identifier(value: str, path: str) -> str:
    return identifier(value, path) if value else ""


def text(value: str, path: str, *, least: int = 0, most: int = MAX_TEXT) -> str:
    """Free text, for people."""
    if not least <= len(value) <= most:
        raise InvalidField(path, f"must have {least} to {most} characters")
    if _unprintable(value) is not None:
        raise InvalidField(path, "must not contain control characters")
    return value


def labels(value: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """Labels, sorted by key."""
    if not value:
        return ()
    if len(value) > MAX_LABELS:
        raise InvalidField("labels", f"must be at most {MAX_LABELS}")
    pairs = entries(value)
    for key, content in pairs:
        if _is_label(key) is None:
            raise InvalidField(
                "labels", "must have keys of 1 to 64 letters, digits or ._:/@+=-, the first a letter or digit"
            )
        if len(content) > MAX_TEXT or _unprintable(content) is not None:
            text(content, f"labels[{key}]")
    return pairs


def entries(value: Mapping[str, Name]) -> tuple[tuple[str, Name], ...]:
    """The entries of a map field, sorted by key. A protobuf map's own `items` costs three times as much."""
    return tuple([(key, value[key]) for key in sorted(value)])


def duration(value: Duration, path: str, least: timedelta, most: timedelta) -> timedelta:
    if not (-999_999_999 <= value.nanos <= 999_999_999 and abs(value.seconds) <= 315_576_000_000):
        raise InvalidField(path, "must be a valid duration")
    nanos = value.seconds * 1_000_000_000 + value.nanos
    if not least // _MICRO * 1000 <= nanos <= most // _MICRO * 1000:
        raise InvalidField(path, f"must be {_seconds(least)} s to {_seconds(most)} s")
    return timedelta(microseconds=nanos // 1000)


def lease(message: hold_pb2.Dispatch | hold_pb2.HeartbeatRequest, path: str) -> timedelta:
    """How long an attempt may run."""
    return duration(message.lease, path, LEAST_SPAN, MOST_SPAN) if message.HasField("lease") else DEFAULT_SPAN


def instant(value: Timestamp, path: str) -> datetime:
    """A time to the microsecond, from 1970 to 9999."""
    if not (0 <= value.nanos <= 999_999_999 and _EARLIEST <= value.seconds < _LATEST):
        raise InvalidField(path, "must be a time from 1970 to 9999")
    return _EPOCH + timedelta(seconds=value.seconds, microseconds=value.nanos // 1000)


def digest(value: str, path: str) -> bytes:
    """A SHA-256."""
    if _is_digest(value) is None:
        raise InvalidField(path, "must be 64 hexadecimal digits in lower case")
    return bytes.fromhex(value)


def observed(message: Observed, path: str = "observe_time") -> datetime | None:
    """When something was seen, if that is said: by clocks that may differ from ours, but not by more than a day."""
    if not message.HasField("observe_time"):
        return None
    value = message.observe_time
    if value.seconds > time.time() + _SECONDS_OF_A_DAY:
        raise InvalidField(path, "must not be more than a day in the future")
    return instant(value, path)


def amount(value: str, path: str) -> Decimal:
    try:
        return parse_amount(value)
    except NotMoney as error:
        raise InvalidField(path, str(error)) from None


def price(value: str, path: str) -> Decimal:
    try:
        return parse_price(value)
    except NotMoney as error:
        raise InvalidField(path, str(error)) from None


def currency(value: str, path: str) -> str:
    try:
        return parse_currency(value)
    except NotMoney as error:
        raise InvalidField(path, str(error)) from None


def money(value: money_pb2.Money, path: str) -> tuple[Decimal, str]:
    return amount(value.amount, f"{path}.amount"), currency(value.currency, f"{path}.currency")


def quantity(value: int, path: str) -> int:
    if not 0 <= value <= MAX_QUANTITY:
        raise InvalidField(path, f"must be 0 to {MAX_QUANTITY}")
    return value


def number(value: int, path: str, least: int, most: int) -> int:
    if not least <= value <= most:
        raise InvalidField(path, f"must be {least} to {most}")
    return value


def named(value: int, path: str, names: Mapping[int, Name]) -> Name:
    """The domain's word for an enum number; unspecified and unknown numbers are refused."""
    try:
        return names[value]
    except KeyError:
        raise InvalidField(path, "must be one of the contract's values, and not UNSPECIFIED") from None


_MICRO = timedelta(microseconds=1)


def _seconds(span: timedelta) -> int:
    return span // timedelta(seconds=1)
