"""What is done for an operation whose caller left it open. It can neither dispatch, nor release what may have been sent."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from ledger.client.commands import release_command, resolve_command, unknown_command
from ledger.client.errors import LedgerError, Refused
from ledger.v1 import error_pb2
from ledger.v1 import hold_pb2 as pb

_NOT_SENT: Final = pb.NoCostProof(
    kind=pb.NO_COST_KIND_NEVER_SENT,
    cause=pb.NEVER_SENT_CAUSE_NOT_ATTEMPTED,
    adapter="ledger.client",
    adapter_revision="1",
)
# Refusals that say that there is nothing left to end: no hold, or one in a state that only evidence changes.
_NOTHING_TO_END: Final = frozenset({error_pb2.ERROR_REASON_NOT_FOUND, error_pb2.ERROR_REASON_HOLD_STATE})


@dataclass(frozen=True, slots=True)
class Leaving:
    """`report` is what the caller had said and was not acknowledged. `not_sent`: the permission did not reach him.

    `nonces`: those of the attempts that he had asked for, the newest first: a dispatch with one of them may be recorded.
    """

    execute: Callable[[pb.Command, timedelta | None], Awaitable[pb.CommandResult]]
    operation_id: str
    report: pb.Command | None
    not_sent: bool
    nonces: tuple[str, ...]
    observation: str

    async def run(self, seconds: float) -> LedgerError | None:
        """Ends the operation as far as that can be done in so many seconds. Gives the error if it could not."""
        ends = asyncio.get_running_loop().time() + seconds
        try:
            if self.report is None or not await self._accepted(self.report, ends):
                await (self._withdraw(ends) if self.not_sent else self._say_unknown(ends))
        except LedgerError as error:
            return error
        return None

    async def _accepted(self, command: pb.Command, ends: float) -> bool:
        try:
            await self._tell(command, ends)
        except Refused:
            return False
        return True

    async def _say_unknown(self, ends: float) -> None:
        await self._tell(unknown_command(self.operation_id, self.observation), ends)

    async def _withdraw(self, ends: float) -> None:
        """Nothing was sent. If the dispatch was recorded all the same, whoever holds its nonce proves that it led nowhere."""
        try:
            await self._tell(release_command(self.operation_id), ends)
        except Refused as refused:
            if refused.reason not in _NOTHING_TO_END:
                raise
            if refused.metadata.get("state") == "DISPATCHING":
                await self._prove_unsent(ends)

    async def _prove_unsent(self, ends: float) -> None:
        for nonce in self.nonces:
            proof = pb.NoCostProof(nonce=nonce)
            proof.MergeFrom(_NOT_SENT)
            if nonce == self.nonces[-1]:
                await self._tell(resolve_command(self.operation_id, proof), ends)
            elif await self._accepted(resolve_command(self.operation_id, proof), ends):
                return

    async def _tell(self, command: pb.Command, ends: float) -> None:
        left = ends - asyncio.get_running_loop().time()
        await self.execute(command, timedelta(seconds=max(left, 0)))
