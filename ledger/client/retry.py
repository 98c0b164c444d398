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

from ledger.client.errors import OUT_OF_TIME, Fate, Fault, error_of, fault_of_call

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
    rpc: Callable[..., Awaitable[Any]], request: Any, *, ends: float, backoff: Backoff, idempotency_key: str = ""
) -> Any:
    """The answer of a single RPC, which is a question or has an idempotency key. `ends` is on the loop's clock.

    Raises Refused, NotDone or WriteOutcomeUnknown.
    """
    loop = asyncio.get_running_loop()
    fault: Fault = OUT_OF_TIME
    tries, in_doubt = 0, False
    while (left := ends - loop.time()) > 0:
        try:
            return await rpc(request, timeout=min(left, backoff.one_try.total_seconds()))
        except grpc.aio.AioRpcError as error:
            fault = fault_of_call(error)
        tries += 1
        in_doubt = in_doubt or fault.fate in DOUBTFUL
        wait = backoff.seconds(tries)
        if fault.fate not in AGAIN or loop.time() + wait >= ends:
            break
        await asyncio.sleep(wait)
    raise error_of(fault, idempotency_key, in_doubt=in_doubt)
