"""When a call is tried again, and how long to wait before that.

Only what is safe with the same key: nothing was done (throttled, contention, the store or the server away), or nobody knows
whether it was (a lost answer, an unknown write). A refusal and a fault of the server are final. The request that is sent again is
the same message with the same key and the same nonce, and only the caller's deadline ends the tries.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

import grpc.aio

from ledger.client.connection import Client
from ledger.client.errors import CLOSED, CUT_OFF, NO_CONNECTION, OUT_OF_TIME, Fate, Fault, error_of, fault_of_call

AGAIN: Final = frozenset({Fate.NOT_DONE, Fate.IN_DOUBT})
DOUBTFUL: Final = frozenset({Fate.IN_DOUBT, Fate.FAULT})


@dataclass(frozen=True, slots=True)
class Backoff:
    """Exponential, with full jitter and a cap: before try n + 1 a time from 0 to min(longest, first x 2^(n - 1))."""

    first: timedelta = timedelta(milliseconds=50)
    longest: timedelta = timedelta(seconds=2)
    # One try that is not answered by then is given up, and asked again: a lost packet must not cost the whole deadline.
    one_try: timedelta = timedelta(seconds=5)

    def seconds(self, tries: int, draw: Callable[[], float] = random.random) -> float:
        """How long to wait after so many tries. `draw` gives numbers of [0, 1)."""
        # 2^30 times the least first wait is above any cap, and 2^tries would overflow a float in the end.
        most = min(self.longest.total_seconds(), self.first.total_seconds() * 2.0 ** min(tries - 1, 30))
        return most * draw()


async def until_answered(
    client: Client,
    rpc: Callable[..., Awaitable[Any]],
    request: Any,
    *,
    ends: float,
    backoff: Backoff,
    idempotency_key: str = "",
) -> Any:
    """The answer of a single RPC of the client, which is a question or has an idempotency key. `ends` is on the loop's clock.

    Raises Refused, NotDone or WriteOutcomeUnknown, the latter two also when the client is closed meanwhile.
    """
    loop = asyncio.get_running_loop()
    fault: Fault = OUT_OF_TIME
    tries, in_doubt = 0, False
    while loop.time() < ends:
        if not await client.connected(lambda: ends if loop.time() < ends else None):
            fault = CLOSED if client.closed else fault if tries else NO_CONNECTION
            break
        try:
            # At least the time of a turn: what was waited for may have come at the last moment.
            return await rpc(request, timeout=max(min(ends - loop.time(), backoff.one_try.total_seconds()), 0.001))
        except grpc.aio.AioRpcError as error:
            fault = fault_of_call(error)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if not client.closed or (task is not None and task.cancelling()):
                raise
            # gRPC tells a call whose channel is closed in the way in which a task is told that it is cancelled.
            fault = CUT_OFF
        tries += 1
        in_doubt = in_doubt or fault.fate in DOUBTFUL
        wait = backoff.seconds(tries)
        if fault.fate not in AGAIN or client.closed or loop.time() + wait >= ends:
            break
        await asyncio.sleep(wait)
    raise error_of(fault, idempotency_key, in_doubt=in_doubt)
