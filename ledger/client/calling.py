"""A ledger that a command line talks to, with the token of the environment."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import grpc.aio

from ledger.client.connection import Client, connect, error_reason

TOKEN_VARIABLE = "SPEND_LEDGER_TOKEN"  # noqa: S105 - the name of the variable


class CannotReach(RuntimeError):
    """The ledger refuses or cannot be reached; the message says what to do. `reason` is the ledger's own, '' if it gave none."""

    def __init__(self, message: str, reason: str = "", details: str = "") -> None:
        super().__init__(message)
        self.reason = reason
        self.details = details


@asynccontextmanager
async def calling(server: str) -> AsyncIterator[Client]:
    """A client of the server at `host:port`. Raises CannotReach, also for the calls that are made of it."""
    token = os.environ.get(TOKEN_VARIABLE, "")
    if not token:
        raise CannotReach(f"Set {TOKEN_VARIABLE} to the token of a caller: spend-ledger token makes one.")
    try:
        async with connect(server, token) as client:
            yield client
    except grpc.aio.AioRpcError as error:
        refused = error_reason(error)
        details = error.details() or ""
        message = f"The ledger at {server} answers {error.code().name}: {details}"
        raise CannotReach(message, "" if refused is None else refused.reason, details) from error
