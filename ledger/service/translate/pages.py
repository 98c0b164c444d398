"""The place in a list: an opaque token that names the last row given and the question that it belongs to.

The token is not a secret and not trusted: its keys are data of a query within the caller's own tenant, and a token of another
method, tenant or filter is refused.
"""

import hashlib
from collections.abc import Callable
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from ledger.domain.canonical import canonical
from ledger.domain.model import Caller
from ledger.domain.money import parse_amount
from ledger.service.translate.fields import MAX_INT32, InvalidField, identifier, text
from ledger.service.translate.opaque import opened, sealed

VERSION = "1"
DEFAULT_SIZE = 100
MAX_SIZE = 1000
_MAX_TOKEN = 2048
_LARGEST_VERSION = 2**63 - 1


def name_key(key: str) -> None:
    """A key that is an identifier."""
    identifier(key, "page_token")


def id_key(key: str) -> None:
    """A key that is a UUID."""
    UUID(key)


def time_key(key: str) -> None:
    """A key that is an instant."""
    if datetime.fromisoformat(key).tzinfo is None:
        raise ValueError(key)


def version_key(key: str) -> None:
    """A key that is the number of a row in its book."""
    if not (key.isascii() and key.isdecimal() and len(key) < 20 and int(key) <= _LARGEST_VERSION):
        raise ValueError(key)


def amount_key(key: str) -> None:
    """A key that is an amount."""
    parse_amount(key)


def revision_key(key: str) -> None:
    """A key that is the number of a resolution's revision."""
    version_key(key)
    if int(key) > MAX_INT32:
        raise ValueError(key)


def book_key(key: str) -> None:
    """A key that is the id of a book."""
    text(key, "page_token", least=1, most=_MAX_TOKEN)


def log_key(key: str) -> None:
    """A key that tells apart the lines of the log that are of one instant."""
    text(key, "page_token", least=1, most=_MAX_TOKEN)


class Place(NamedTuple):
    """`size` rows after the row with the keys `after` (None: from the beginning) of the question `scope`."""

    size: int
    after: tuple[str, ...] | None
    scope: str

    def token(self, last: tuple[str, ...] | None) -> str:
        """The token of the page that begins after the row with the keys `last`; empty if there is none."""
        if last is None:
            return ""
        return sealed({"v": VERSION, "s": self.scope, "k": last})


def place(
    method: str, caller: Caller, size: int, token: str, keys: tuple[Callable[[str], None], ...], **filters: str
) -> Place:
    """Reads page_size and page_token. `keys` are the checks of the keys that a row of this list has."""
    if not 0 <= size <= MAX_SIZE:
        raise InvalidField("page_size", f"must be 0 (which is {DEFAULT_SIZE}) to {MAX_SIZE}")
    question = canonical({"method": method, "tenant": caller.tenant, "filter": filters})
    scope = hashlib.sha256(b"ledger/page/v1\n" + question).hexdigest()[:32]
    return Place(size or DEFAULT_SIZE, _after(token, scope, keys) if token else None, scope)


def _after(token: str, scope: str, keys: tuple[Callable[[str], None], ...]) -> tuple[str, ...]:
    try:
        body = opened(token, _MAX_TOKEN)
        version, asked, after = body["v"], body["s"], body["k"]
        if version != VERSION or not isinstance(after, list) or not all(isinstance(key, str) for key in after):
            raise ValueError
    except (ValueError, KeyError, TypeError, RecursionError):
        raise _not_ours() from None
    if asked != scope:
        raise InvalidField("page_token", "belongs to another list or filter: begin again without one")
    try:
        for check, key in zip(keys, after, strict=True):
            check(key)
    except ValueError:
        raise _not_ours() from None
    return tuple(after)


def _not_ours() -> InvalidField:
    return InvalidField("page_token", "must be the next_page_token of an earlier answer")
