"""The commands on a hold, one method for each. They go together with whatever else is asked for at the same time."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from datetime import timedelta

from ledger.client.commands import (
    begin_command,
    cancel_command,
    correct_command,
    delivery_command,
    failed_command,
    receipt_command,
    release_command,
    reserve_request,
    resolve_command,
    unknown_command,
)
from ledger.client.messages import Evidence
from ledger.v1 import hold_pb2 as pb


class Operations:
    """What a program that does not use a guard asks for itself; and what finance does about the holds of others.

    `key` is the idempotency key, derived if it is not given (see `ledger.client.keys`); `timeout` the whole time for all tries.
    All of them raise Refused, NotDone or WriteOutcomeUnknown.
    """

    @abstractmethod
    async def execute(self, command: pb.Command, timeout: timedelta | None = None) -> pb.CommandResult:
        """The result of any command on a hold."""

    async def reserve(
        self,
        operation_id: str,
        *,
        budgets: Sequence[str],
        quote: pb.QuoteSpec,
        key: str | None = None,
        ttl: timedelta | None = None,
        exclusive_key: str = "",
        request_group: str = "",
        labels: Mapping[str, str] | None = None,
        dispatch: pb.Dispatch | None = None,
        timeout: timedelta | None = None,
    ) -> pb.ReserveResponse:
        """Sets money aside on every budget of the path, or raises Refused. With `dispatch` it asks for the permission to send, too.

        A refusal is remembered under its key: after a top-up ask with another `key`.
        """
        request = reserve_request(
            operation_id, budgets, quote, key=key, ttl=ttl, exclusive_key=exclusive_key, request_group=request_group, labels=labels
        )  # fmt: skip
        if dispatch is not None:
            request.begin_dispatch = True
            request.dispatch.CopyFrom(dispatch)
        return (await self.execute(pb.Command(reserve=request), timeout)).reserve

    async def begin_dispatch(
        self,
        operation_id: str,
        dispatch: pb.Dispatch,
        *,
        attempt: int = 1,
        key: str | None = None,
        timeout: timedelta | None = None,
    ) -> pb.BeginDispatchResponse:
        """Asks for the permission to send: send if, and only if, `may_send` of the answer is true.

        It is also true where a lost answer was asked for again, because the nonce is the same. The next `attempt`, after
        `record_failed_before_dispatch`, needs another nonce.
        """
        command = begin_command(operation_id, dispatch, attempt=attempt, key=key)
        return (await self.execute(command, timeout)).begin_dispatch

    async def record_failed_before_dispatch(
        self,
        operation_id: str,
        nonce: str,
        cause: pb.NeverSentCause.ValueType,
        *,
        attempt: int,
        adapter: str = "",
        adapter_revision: str = "",
        key: str | None = None,
        timeout: timedelta | None = None,
    ) -> pb.RecordFailedBeforeDispatchResponse:
        """Says that the attempt failed before anything was sent, as only who has its `nonce` knows: the next one may be begun.

        `attempt` is its number, which the answer to its BeginDispatch has.
        """
        command = failed_command(
            operation_id, nonce, cause, attempt=attempt, adapter=adapter, adapter_revision=adapter_revision, key=key
        )
        return (await self.execute(command, timeout)).record_failed_before_dispatch

    async def record_receipt(
        self,
        operation_id: str,
        provider: str,
        receipt: str,
        *,
        attempt: int = 0,
        adapter: str = "",
        adapter_revision: str = "",
        key: str | None = None,
        timeout: timedelta | None = None,
    ) -> pb.RecordReceiptResponse:
        """Binds the provider's id of an accepted call to the attempt (0: the latest). A second is an incident, both are kept."""
        command = receipt_command(
            operation_id, provider, receipt, attempt=attempt, adapter=adapter, adapter_revision=adapter_revision, key=key
        )  # fmt: skip
        return (await self.execute(command, timeout)).record_receipt

    async def record_delivery(
        self,
        operation_id: str,
        delivery: pb.Delivery.ValueType,
        *,
        attempt: int = 0,
        adapter: str = "",
        adapter_revision: str = "",
        key: str | None = None,
        timeout: timedelta | None = None,
    ) -> pb.RecordDeliveryResponse:
        """Says what the client received. It says nothing of the provider, and moves no money."""
        command = delivery_command(
            operation_id, delivery, attempt=attempt, adapter=adapter, adapter_revision=adapter_revision, key=key
        )
        return (await self.execute(command, timeout)).record_delivery

    async def resolve(
        self,
        operation_id: str,
        evidence: Evidence,
        *,
        attempt: int = 0,
        accept_overrun_reason: str = "",
        key: str | None = None,
        timeout: timedelta | None = None,
    ) -> pb.ResolveResponse:
        """Settles the hold on evidence: usage (`usage_evidence`), or a proof that there was no cost.

        If the hold is not there yet, the evidence is kept for it: the answer is `parked`, and has no hold.
        """
        command = resolve_command(
            operation_id, evidence, attempt=attempt, accept_overrun_reason=accept_overrun_reason, key=key
        )
        return (await self.execute(command, timeout)).resolve

    async def correct(
        self,
        operation_id: str,
        evidence: Evidence,
        *,
        digest_in_force: str,
        reason: str,
        attempt: int = 0,
        accept_overrun_reason: str = "",
        key: str | None = None,
        timeout: timedelta | None = None,
    ) -> pb.CorrectResponse:
        """Finance only: replaces the resolution in force, which its digest names, by one on other evidence.

        Refused with DIGEST_NOT_IN_FORCE if another is in force by now: look at that one first.
        """
        command = correct_command(
            operation_id,
            evidence,
            digest_in_force,
            reason,
            attempt=attempt,
            accept_overrun_reason=accept_overrun_reason,
            key=key,
        )
        return (await self.execute(command, timeout)).correct

    async def mark_outcome_unknown(
        self, operation_id: str, observation: str = "", *, key: str | None = None, timeout: timedelta | None = None
    ) -> pb.MarkOutcomeUnknownResponse:
        """Says that nobody here knows what became of the call. The money stays held until there is evidence."""
        command = unknown_command(operation_id, observation, key=key)
        return (await self.execute(command, timeout)).mark_outcome_unknown

    async def cancel(
        self, operation_id: str, reason: str, *, key: str | None = None, timeout: timedelta | None = None
    ) -> pb.CancelResponse:
        """Takes the permission to send away. The answer says what stopped, and what remains unsettled until there is evidence."""
        return (await self.execute(cancel_command(operation_id, reason, key=key), timeout)).cancel

    async def release(
        self, operation_id: str, *, key: str | None = None, timeout: timedelta | None = None
    ) -> pb.ReleaseResponse:
        """Gives the money back, without evidence: only before the dispatch."""
        return (await self.execute(release_command(operation_id, key=key), timeout)).release
