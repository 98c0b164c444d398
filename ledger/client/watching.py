"""The change feed as one stream that does not break: a connection or a server that goes away is followed by another try."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import suppress
from datetime import timedelta
from typing import Any, Final

import grpc
import grpc.aio

from ledger.client.connection import Client
from ledger.client.errors import CLOSED, Fate, Fault, error_of, fault_of_call
from ledger.client.retry import AGAIN, Backoff
from ledger.v1 import error_pb2
from ledger.v1 import feed_pb2 as pb

_SILENT: Final = Fault(
    Fate.NOT_DONE,
    error_pb2.ERROR_REASON_UNSPECIFIED,
    "The feed told nothing for longer than the reader's patience; resume_token says where to go on.",
    grpc.StatusCode.DEADLINE_EXCEEDED,
)


async def watch(
    client: Client,
    request: pb.WatchRequest,
    *,
    patience: timedelta | None = None,
    backoff: Backoff = Backoff(),  # noqa: B008 - frozen
) -> AsyncGenerator[pb.WatchResponse, None]:
    """The responses of a Watch, heartbeats among them, for ever.

    A try begins after the last response that the caller came back from, so one may be given again (its events keep their ids), and
    none is left out. To go on after a restart, keep the `resume_token` of each response with what was made of it.
    `patience` is how long nothing may come before it is given up; None is for ever. A ledger that has nothing to tell sends
    heartbeats, so patience is to be longer than the time between two of them.
    Raises Refused (a token that is not this ledger's, a role that may not read) or, out of patience or closed, NotDone.
    """
    asked = pb.WatchRequest()
    asked.CopyFrom(request)
    loop = asyncio.get_running_loop()
    tries, heard = 0, loop.time()

    def gives_up() -> float | None:
        return None if patience is None else heard + patience.total_seconds()

    while not client.closed:
        call = client.feed.Watch(asked)
        fault = _SILENT
        try:
            while (response := await _next(call, gives_up())) is not None:
                yield response
                tries, heard = 0, loop.time()
                asked.resume_token = response.resume_token
                asked.from_now = False
        except grpc.aio.AioRpcError as error:
            fault = fault_of_call(error)
            if fault.fate not in AGAIN:
                raise error_of(fault) from error
        except TimeoutError:
            raise error_of(fault) from None
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if not client.closed or (task is not None and task.cancelling()):
                raise
        finally:
            # The caller may have left in the middle of a response.
            with suppress(asyncio.InvalidStateError):
                call.cancel()
        tries += 1
        wait = backoff.seconds(tries)
        ends = gives_up()
        if ends is not None and loop.time() + wait > ends:
            raise error_of(fault)
        await asyncio.sleep(wait)
    raise error_of(CLOSED)


async def _next(call: Any, gives_up: float | None) -> pb.WatchResponse | None:
    """The next response; None if the stream has ended. Raises TimeoutError if there is none at that time of the loop's clock."""
    async with asyncio.timeout_at(gives_up):
        response = await call.read()
    return None if response is grpc.aio.EOF else response
