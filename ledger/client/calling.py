"""A ledger that a command line talks to: where it is, whose token is used, and what is said when it cannot be done."""

import argparse
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Final

from ledger.client.errors import LedgerError, Refused, WriteOutcomeUnknown, reason_name
from ledger.client.ledger import Ledger

TOKEN_VARIABLE: Final = "SPEND_LEDGER_TOKEN"  # noqa: S105 - the name of the variable
SERVER_VARIABLE: Final = "SPEND_LEDGER_SERVER"
ROOT_VARIABLE: Final = "SPEND_LEDGER_ROOT_CERTIFICATE"
DEFAULT_SERVER: Final = "127.0.0.1:7443"
# For each call, with all its tries: people wait for it.
PATIENCE: Final = timedelta(seconds=10)


class CannotReach(RuntimeError):
    """The ledger refuses or cannot be reached; the message says what to do. `reason` is the ledger's own, '' if it gave none."""

    def __init__(self, message: str, reason: str = "", details: str = "") -> None:
        super().__init__(message)
        self.reason = reason
        self.details = details


def add_server(parser: argparse.ArgumentParser) -> None:
    """Adds --server, with its default, and what belongs to it."""
    parser.add_argument(
        "--server",
        metavar="HOST:PORT",
        default=os.environ.get(SERVER_VARIABLE) or DEFAULT_SERVER,
        help=f"the ledger ({SERVER_VARIABLE}, or {DEFAULT_SERVER})",
    )
    add_root_certificate(parser)


def add_root_certificate(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--root-certificate",
        type=Path,
        metavar="FILE",
        default=os.environ.get(ROOT_VARIABLE) or None,
        help=f"PEM file: speak TLS, and trust what it signed ({ROOT_VARIABLE}; without it, in clear)",
    )


@asynccontextmanager
async def calling(arguments: argparse.Namespace) -> AsyncIterator[Ledger]:
    """The ledger of the arguments. Raises CannotReach, also for the calls that are made of it."""
    token, server = os.environ.get(TOKEN_VARIABLE, ""), arguments.server
    if not token:
        raise CannotReach(f"Set {TOKEN_VARIABLE} to the token of a caller: spend-ledger token makes one.")
    root = arguments.root_certificate and Path(arguments.root_certificate)
    try:
        found = Ledger.connect(server, token, timeout=PATIENCE, root_certificate=root)
    except ValueError as unfit:
        raise CannotReach(f"--root-certificate: {unfit}") from unfit
    try:
        async with found as ledger:
            yield ledger
    except LedgerError as error:
        raise CannotReach(_told(server, error), reason_name(error.reason), error.fault.message) from error


def _told(server: str, error: LedgerError) -> str:
    if isinstance(error, Refused):
        return f"The ledger at {server} refuses: {error}"
    if isinstance(error, WriteOutcomeUnknown):
        again = "The same command again, with that --key if it takes one, finds out."
        return f"Nobody knows yet whether the ledger at {server} did it: {error} {again}"
    return f"The ledger at {server} could not be asked: {error}"
