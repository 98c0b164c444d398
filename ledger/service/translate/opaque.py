"""Opaque tokens: JSON in a form that goes through any text field. They are not secret, and not to be trusted."""

import base64
import json
from typing import Any

from ledger.domain.canonical import Document, canonical


def sealed(content: Document) -> str:
    return base64.urlsafe_b64encode(canonical(content)).rstrip(b"=").decode()


def opened(token: str, most: int) -> Any:
    """What was sealed, in a token of at most `most` characters. Raises ValueError or RecursionError if it is none."""
    if len(token) > most:
        raise ValueError(token)
    return json.loads(base64.b64decode(token + "=" * (-len(token) % 4), altchars=b"-_", validate=True))
