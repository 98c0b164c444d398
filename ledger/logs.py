"""Logs: JSON on stderr, one object a line, for machines to read.

What may be in a line is a closed list. A message is a fixed text of ours, never built from what a caller sent; the facts go in
`extra`, and only fields of the list get through. Of an exception the type and the places in the code are kept: its text may
repeat what a statement was given.
"""

import json
import logging
import sys
import traceback
from datetime import UTC, datetime
from typing import Any, TextIO

FIELDS = (
    "method",
    "code",
    "reason",
    "tenant",
    "actor",
    "role",
    "request_id",
    "operation_id",
    "address",
    "state",
    "batch",
    "count",
    "attempt",
    "duration_ms",
    "signal",
    "sqlstate",
    "revision",
    "version",
)
LONGEST = 200


class JsonFormatter(logging.Formatter):
    """One line of JSON per record: time, level, logger, message, the allowed extras, and where an exception came from."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": _message(record),
        }
        for name in FIELDS:
            value = record.__dict__.get(name)
            if value is not None:
                line[name] = value if isinstance(value, (bool, int, float)) else str(value)[:LONGEST]
        if record.exc_info and record.exc_info[0] is not None:
            line["exception"] = record.exc_info[0].__qualname__
            frames = traceback.extract_tb(record.exc_info[2])
            line["where"] = [f"{frame.filename}:{frame.lineno} {frame.name}" for frame in frames[-12:]]
        return json.dumps(line, ensure_ascii=False)


def _message(record: logging.LogRecord) -> str:
    """Our own messages whole; of a library's only the template, since its arguments are not ours to vouch for."""
    if record.name == "ledger" or record.name.startswith("ledger."):
        return record.getMessage()
    return str(record.msg)[:LONGEST] if record.args else "(the text is withheld)"


def configure(level: str = "info", stream: TextIO | None = None) -> None:
    """Sends all logs to the stream (stderr by default) as JSON. Libraries are heard from warnings upwards."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    logging.getLogger("ledger").setLevel(level.upper())
