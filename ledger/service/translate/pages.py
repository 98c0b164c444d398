"""The place in a list: an opaque token that names the last row given and the question that it belongs to.

The token is not a secret and not trusted: its keys are data of a query within the caller's own tenant, and a token of another
method, tenant or filter is refused.
"""

import base64
import hashlib
import json
import re
from typing import NamedTuple

from ledger.domain.canonical import canonical
from ledger.domain.model import Caller
from ledger.service.translate.fields import InvalidField

VERSION = "1"
DEFAULT_SIZE = 100
MAX_SIZE = 1000
_MAX_TOKEN = 2048
_key_is_plain = re.compile(r"[\x20-\x7e]{0,512}", re.ASCII).fullmatch


class Page(NamedTuple):
    """`size` rows after the row with the keys `after` (None: from the beginning) of the question `scope`."""

    size: int
    after: tuple[str, ...] | None
    scope: str

    def token(self, last: tuple[str, ...]) -> str:
        """The token of the page that begins after the row with the keys `last`."""
        raw = canonical({"v": VERSION, "s": self.scope, "k": last})
        return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def page(method: str, caller: Caller, size: int, token: str, keys: int, **filters: str) -> Page:
    """Reads page_size and page_token. `keys` is how many keys a row of this list has."""
    if not 0 <= size <= MAX_SIZE:
        raise InvalidField("page_size", f"must be 0 (which is {DEFAULT_SIZE}) to {MAX_SIZE}")
    question = canonical({"method": method, "tenant": caller.tenant, "filter": filters})
    scope = hashlib.sha256(b"ledger/page/v1\n" + question).hexdigest()[:32]
    return Page(size or DEFAULT_SIZE, _after(token, scope, keys) if token else None, scope)


def _after(token: str, scope: str, keys: int) -> tuple[str, ...]:
    try:
        if len(token) > _MAX_TOKEN or not token.isascii():
            raise ValueError
        body = json.loads(base64.b64decode(token + "=" * (-len(token) % 4), altchars=b"-_", validate=True))
        version, asked, after = body["v"], body["s"], body["k"]
        if version != VERSION or not isinstance(after, list) or len(after) != keys:
            raise ValueError
        if not all(isinstance(key, str) and _key_is_plain(key) for key in after):
            raise ValueError
    except (ValueError, KeyError, TypeError, RecursionError):
        raise InvalidField("page_token", "must be the next_page_token of an earlier answer") from None
    if asked != scope:
        raise InvalidField("page_token", "belongs to another list or filter: begin again without one")
    return tuple(after)
