"""The rules of what is reported of a call without settling it: the provider's receipt, and what the client received."""

from typing import Any

from ledger.domain.attempt_commands import RecordDelivery, RecordReceipt
from ledger.domain.batch import Outcome
from ledger.domain.holds import facts, infer_attempt
from ledger.domain.incidents import open_incident
from ledger.domain.model import Axis, Execution, Hold
from ledger.domain.observations import observe
from ledger.domain.receipts import accepted_twice, bound_elsewhere, holder_of
from ledger.domain.refusals import Reason
from ledger.domain.states import TERMINAL, HoldState, ResolutionKind
from ledger.domain.work import Work, no_hold, refuse


def record_receipt(work: Work, command: RecordReceipt) -> Outcome:
    """Binds a receipt once each way. A second one for the same hold is kept, and an incident; so is one that another has."""
    hold = work.loaded.holds.get(command.hold_key)
    if hold is None:
        return no_hold(command)
    if command.provider != hold.quote.provider:
        return refuse(
            Reason.INVALID_FIELD,
            f"The receipt is of provider {command.provider!r}, quoted was {hold.quote.provider!r}.",
            field="provider",
            **facts(hold),
        )
    # A receipt for a hold that was never dispatched is of the attempt which it shows to have been made.
    attempt = command.attempt or hold.attempt or 1
    if attempt > (hold.attempt or 1):
        return _no_attempt(hold, attempt)
    if hold.provider_receipt == command.provider_receipt:
        return Outcome(hold=hold, applied=False)
    holder = holder_of(work, hold, command.provider_receipt)
    if holder != hold.operation_id:
        return _bound_elsewhere(work, command, hold, holder)
    if command.receipt_bound in work.loaded.bound:
        # A second receipt of this hold, which was kept before.
        return Outcome(hold=hold, applied=False)
    # From here it succeeds.
    observe(
        work, command, Axis.EXECUTION, Execution.ACCEPTED, attempt,
        provider=command.provider, provider_receipt=command.provider_receipt,
    )  # fmt: skip
    if hold.provider_receipt is not None:
        work.bind(hold, command.provider_receipt)
        return Outcome(
            hold=hold, incident_id=accepted_twice(work, hold, hold.provider_receipt, command.provider_receipt)
        )
    incident_id = None
    if hold.state in TERMINAL and hold.resolution_kind is not ResolutionKind.USAGE:
        kind = str(hold.resolution_kind)
        detail = {"provider_receipt": command.provider_receipt, "resolution_in_force": kind}
        incident_id = open_incident(work, hold, "RESOLUTION_CONFLICT", command.provider_receipt, detail)
    changes: dict[str, Any] = {"provider_receipt": command.provider_receipt}
    if hold.state is HoldState.RESERVED:
        changes |= infer_attempt(work, hold) | {"state": HoldState.DISPATCHING}
    return Outcome(hold=work.change(hold, **changes), incident_id=incident_id)


def record_delivery(work: Work, command: RecordDelivery) -> Outcome:
    """Keeps what the client received. It says nothing of what the provider did, so the hold stays as it is."""
    hold = work.loaded.holds.get(command.hold_key)
    if hold is None:
        return no_hold(command)
    if command.attempt > hold.attempt:
        return _no_attempt(hold, command.attempt)
    # From here it succeeds.
    observe(work, command, Axis.DELIVERY, command.delivery, command.attempt or hold.attempt)
    return Outcome(hold=hold)


def _no_attempt(hold: Hold, attempt: int) -> Outcome:
    return refuse(
        Reason.ATTEMPT_NOT_CURRENT,
        f"The hold of operation {hold.operation_id!r} has no attempt {attempt}: its latest is {hold.attempt}.",
        attempt=str(hold.attempt),
        **facts(hold),
    )


def _bound_elsewhere(work: Work, command: RecordReceipt, hold: Hold, holder: str) -> Outcome:
    incident_id = bound_elsewhere(work, hold, command.provider_receipt, holder)
    return refuse(
        Reason.EVIDENCE_REJECTED,
        f"Operation {holder!r} has this receipt: of the two at most one is right. A case was opened; ask the provider which call"
        " the receipt is of.",
        incident_id=str(incident_id),
        provider_receipt=command.provider_receipt,
        bound_to=holder,
        **facts(hold),
    )
