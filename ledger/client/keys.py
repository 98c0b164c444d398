"""Idempotency keys that are derived, so that a process which starts anew asks with the keys of the one before it.

A key is unique per tenant, actor and command. A permission (Reserve, BeginDispatch) is asked for once per operation: its key is
made of the operation alone, and another content under it is refused. After a refusal that may change (INSUFFICIENT_BUDGET) a new
try is a new decision of the caller, who then gives a key of his own. A report (Resolve, MarkOutcomeUnknown) has its content in
its key: the same report again is a replay, another one must reach the ledger, which keeps it and says what it conflicts with.
"""

import hashlib
import json
from typing import Any, Final

from google.protobuf.message import Message

LONGEST: Final = 128
_DIGITS: Final = 24
_PLAIN: Final = frozenset({str, int, float, bool})
_as_json: Final = json.JSONEncoder(sort_keys=True, separators=(",", ":")).encode
# In a report but no part of what it says: when it was seen, and who is allowed to say it.
_APART: Final = frozenset({"idempotency_key", "observe_time", "nonce"})


def permission_key(operation_id: str, command: str) -> str:
    """The key of a command that is asked once for an operation."""
    return _fitting(operation_id, f"/{command}")


def report_key(operation_id: str, command: str, report: Message) -> str:
    """The key of a report: the same for the same content."""
    digest = hashlib.sha256(f"ledger.client/1/{command}\n{_as_json(_content(report))}".encode()).hexdigest()
    return _fitting(operation_id, f"/{command}/{digest[:_DIGITS]}")


def _fitting(operation_id: str, ending: str) -> str:
    if len(operation_id) + len(ending) <= LONGEST:
        return operation_id + ending
    shortened = hashlib.sha256(operation_id.encode()).hexdigest() + ending
    # A reference of a grant may be as long as a name.
    return shortened if len(shortened) <= LONGEST else hashlib.sha256((operation_id + ending).encode()).hexdigest()


def _content(message: Message) -> dict[str, Any]:
    """The fields that are set, by name. Not the serialised message: its bytes may change with a release of protobuf."""
    found = {}
    for field, value in message.ListFields():
        name = field.name
        if name not in _APART:
            found[name] = _plain(value)
    return found


def _plain(value: Any) -> Any:
    # The usual case first: this is on the path of every settlement.
    if type(value) in _PLAIN:
        return value
    if isinstance(value, Message):
        return _content(value)
    if hasattr(value, "items"):
        return {str(key): _plain(value[key]) for key in value}
    return [_plain(part) for part in value]
