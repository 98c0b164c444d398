"""The files that the commands read, with an error that says which one is wrong."""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

from ledger.usage.catalogue import Catalogue, CatalogueError, read_catalogue
from ledger.usage.imports import Entry, genai_entries
from ledger.usage.litellm import litellm_entries, read_litellm


class UnfitFile(ValueError):
    """A file is not in the form that the command reads; the message names it."""


def catalogue(path: Path) -> Catalogue:
    """A catalogue in the JSON form of genai-prices. Raises UnfitFile, OSError."""
    try:
        return read_catalogue(path.read_text())
    except (CatalogueError, UnicodeDecodeError) as error:
        raise UnfitFile(f"{path}: {error}") from error


def entries(form: str, path: Path, at: datetime) -> list[Entry]:
    """The entries of a file to import: "litellm" or "genai-prices", the latter as priced at a time. Raises UnfitFile, OSError."""
    try:
        text = path.read_text()
        return list(litellm_entries(read_litellm(text)) if form == "litellm" else genai_entries(text, at))
    except (CatalogueError, UnicodeDecodeError) as error:
        raise UnfitFile(f"{path}: {error}") from error


def usages(path: Path) -> Sequence[Mapping[str, Any]]:
    """Rows of recorded responses; numbers keep their decimals. Raises UnfitFile, OSError."""
    try:
        rows = json.loads(path.read_text(), parse_float=Decimal)
    except (ValueError, RecursionError) as error:
        raise UnfitFile(f"{path} is not JSON: {error}") from error
    if not isinstance(rows, list):
        raise UnfitFile(f"{path} is not a list of rows")
    return rows
