"""A caller in a process of its own, to be killed: `python -m ledger.exercise.caller`.

It reads its plan from the first line of its standard input, and says what it reaches, line by line, on its standard output.
"""

import asyncio
import sys
from datetime import timedelta

from ledger.client import Client, Ledger, connect
from ledger.exercise.barrier import Barrier, say
from ledger.exercise.boundaries import Boundary
from ledger.exercise.gateway import Gateway
from ledger.exercise.plan import Plan
from ledger.exercise.stream import Stream
from ledger.v1 import hold_pb2 as pb


class LossyLedger(Ledger):
    """A ledger whose answer to the settlement does not arrive, if the caller is to be stopped there."""

    def __init__(self, client: Client, barrier: Barrier) -> None:
        super().__init__(client)
        self._barrier = barrier

    async def execute(self, command: pb.Command, timeout: timedelta | None = None) -> pb.CommandResult:
        result = await super().execute(command, timeout)
        if command.HasField("resolve") and command.resolve.HasField("usage"):
            self._barrier.pass_by(Boundary.FINALISING)
        return result


async def main() -> None:
    # Without a buffer: a line that is in the pipe already must still be there for whoever waits for it.
    with open(sys.stdin.fileno(), "rb", buffering=0, closefd=False) as pipe:
        plan = Plan.from_json(pipe.readline().decode())
    barrier = Barrier(plan.boundary)
    async with LossyLedger(connect(plan.address, plan.token), barrier) as ledger:
        if plan.workers:
            await Stream(ledger, plan).run()
            return
        gateway = Gateway(ledger, plan, barrier)
        await gateway.run()
        say(seen=gateway.seen)


if __name__ == "__main__":
    asyncio.run(main())
