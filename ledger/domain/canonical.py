"""Canonical JSON (RFC 8785) and hashes over it.

Every hash has its own domain tag and version, so that no document can pass for one of another kind. Numbers are never put in
as numbers: amounts, counts and sequence numbers are strings. With only strings, booleans, nulls, lists and ASCII keys the
standard library's encoder writes exactly the bytes of RFC 8785, 20 times as fast as the reference package; a test holds the
two together.
"""

import hashlib
import json
from collections.abc import Mapping
from typing import TypeAlias

Document: TypeAlias = "str | bool | list[Document] | tuple[Document, ...] | Mapping[str, Document] | None"

_encode = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode


def canonical(document: Document) -> bytes:
    """The RFC 8785 bytes of a document without numbers, whose keys are ASCII."""
    return _encode(document).encode()


def digest(tag: str, version: int, document: Document) -> bytes:
    """SHA-256 over the domain tag, its version and the canonical document."""
    return hashlib.sha256(f"ledger/{tag}/v{version}\n".encode() + canonical(document)).digest()
