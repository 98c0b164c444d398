"""Messages of the contract in the words that people read."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from google.protobuf.json_format import MessageToDict
from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp

from ledger.v1 import error_pb2, money_pb2

ADVICE = {
    error_pb2.RECOVERY_ACTION_NO_REPLAY: "do not send again: evidence of the provider resolves it",
    error_pb2.RECOVERY_ACTION_RETRY_SAME_KEY: "ask again with the same idempotency key",
}


def name(name_of: Callable[[Any], str], value: int, prefix: str) -> str:
    """An enum's value without its prefix; '-' if it is not specified. `name_of` is the enum's own Name."""
    return name_of(value).removeprefix(prefix) if value else "-"


def instant(at: Timestamp) -> str:
    """A time in UTC, to the millisecond."""
    return at.ToDatetime().isoformat(sep=" ", timespec="milliseconds") + "Z"


def money(amount: money_pb2.Money) -> str:
    return f"{amount.amount} {amount.currency}"


def seconds_since(at: Timestamp) -> int:
    return max(0, int((datetime.now(UTC) - at.ToDatetime(tzinfo=UTC)).total_seconds()))


def span(seconds: int) -> str:
    """A span in its two largest units: 3 d 4 h, 2 min 5 s."""
    parts: list[str] = []
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1)):
        count, seconds = divmod(seconds, size)
        if count or (unit == "s" and not parts):
            parts.append(f"{count} {unit}")
    return " ".join(parts[:2])


def document(message: Message) -> dict[str, Any]:
    """A message as JSON, with the names of the contract."""
    return MessageToDict(message, preserving_proto_field_name=True)


def aligned(rows: list[tuple[str, ...]]) -> list[str]:
    """Lines of columns, each as wide as its widest."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]
    return [line.rstrip() for line in lines]
