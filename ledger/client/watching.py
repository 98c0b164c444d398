"""The change feed as one stream that does not break: a connection or a server that goes away is followed by another try."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from datetime import timedelta

import grpc.aio

from ledger.client.connection import Client
from ledger.client.errors import OUT_OF_TIME, error_of, fault_of_call
from ledger.client.retry import AGAIN, Backoff
from ledger.v1 import feed_pb2 as pb


async def watch(
    client: Client,
    request: pb.WatchRequest,
    *,
    patience: timedelta | None = None,
    backoff: Backoff = Backoff(),  # noqa: B008 - frozen
) -> AsyncIterator[pb.WatchResponse]:
    """The responses of a Watch, heartbeats among them, for ever.

    A try begins after the last response that the caller came back from, so one may be given again (its events keep their ids), and
    none is left out. To go on after a restart, keep the `resume_token` of each response with what was made of it.
    `patience` is how long nothing may come before it is given up; None is for ever.
    Raises Refused (a token that is not this ledger's, a role that may not read) or, out of patience, NotDone.
    """
    asked = pb.WatchRequest()
    asked.CopyFrom(request)
    loop = asyncio.get_running_loop()
    tries, heard = 0, loop.time()
    while True:
        call = client.feed.Watch(asked)
        fault = OUT_OF_TIME
        try:
            async for response in call:
                yield response
                tries, heard = 0, loop.time()
                asked.resume_token = response.resume_token
                asked.from_now = False
        except grpc.aio.AioRpcError as error:
            fault = fault_of_call(error)
            if fault.fate not in AGAIN:
                raise error_of(fault, "", in_doubt=False) from error
        finally:
            # The caller may have left in the middle of a response.
            with suppress(asyncio.InvalidStateError):
                call.cancel()
        tries += 1
        wait = backoff.seconds(tries)
        if patience is not None and loop.time() + wait - heard > patience.total_seconds():
            raise error_of(fault, "", in_doubt=False)
        await asyncio.sleep(wait)
