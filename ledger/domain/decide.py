"""The one place where commands become decisions.

`decide` takes the commands of a batch in their order over the rows that were loaded under locks. A single request is a batch of
one. Nothing here can be undone half way: each rule is a flat list of guards that refuse, then a line "From here it succeeds",
then what is written. One refusal never touches a neighbour.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from decimal import localcontext
from typing import Any

from ledger.domain.attempt_commands import Cancel, Heartbeat, RecordDelivery, RecordFailedBeforeDispatch, RecordReceipt
from ledger.domain.attempts import begin_dispatch, cancel, heartbeat, lapse, record_failed_before_dispatch
from ledger.domain.batch import Decision, Loaded, Outcome, StaleRows
from ledger.domain.budget_commands import CloseBudget, MoveBudget, UpdateBudget
from ledger.domain.budgets import create_budget, grant_budget, put_evidence_policy, put_price_card
from ledger.domain.claims import OK
from ledger.domain.commands import (
    BeginDispatch,
    Command,
    Correct,
    CreateBudget,
    FileParked,
    GrantBudget,
    HoldCommand,
    Lapse,
    MarkOutcomeUnknown,
    Release,
    Reserve,
    Resolve,
    VerifyWrite,
)
from ledger.domain.correcting import correct
from ledger.domain.crossing import cross
from ledger.domain.document_commands import PutEvidencePolicy, PutPriceCard
from ledger.domain.events import derive
from ledger.domain.holds import mark_outcome_unknown, release, reserve
from ledger.domain.invocations import Receipt, RefusedCommand
from ledger.domain.keyed import FINGERPRINT_VERSION, FINGERPRINTS, OnBudget
from ledger.domain.limits import update_budget
from ledger.domain.model import Hold
from ledger.domain.money import CONTEXT
from ledger.domain.parking import file_parked, parked_before, report
from ledger.domain.refusals import Reason, Refusal
from ledger.domain.reports import record_delivery, record_receipt
from ledger.domain.signs import denied_by_now
from ledger.domain.trees import close_budget, move_budget, standing
from ledger.domain.verifying import verify_write
from ledger.domain.work import Work, of_newer_version, refuse

_RULES: Mapping[type[Command], Callable[[Work, Any], Outcome]] = {
    Reserve: reserve,
    BeginDispatch: begin_dispatch,
    MarkOutcomeUnknown: mark_outcome_unknown,
    Release: release,
    Resolve: report,
    FileParked: file_parked,
    Correct: correct,
    Lapse: lapse,
    Heartbeat: heartbeat,
    RecordFailedBeforeDispatch: record_failed_before_dispatch,
    Cancel: cancel,
    RecordReceipt: record_receipt,
    RecordDelivery: record_delivery,
    VerifyWrite: verify_write,
    CreateBudget: create_budget,
    GrantBudget: grant_budget,
    UpdateBudget: update_budget,
    CloseBudget: close_budget,
    MoveBudget: move_budget,
    PutPriceCard: put_price_card,
    PutEvidencePolicy: put_evidence_policy,
}

# A refusal of permission is an answer, and the key remembers it. A refused report is not: the same report may be right later.
_ASKS_PERMISSION = (Reserve, BeginDispatch, Correct, GrantBudget, UpdateBudget)
# The service's own commands come again and again; a key is claimed by what they do to a hold.
_OWN = (Lapse, FileParked, VerifyWrite)
_NOT_REMEMBERED = frozenset({Reason.NOT_FOUND, Reason.INVALID_FIELD, Reason.UNKNOWN_WRITE_OUTCOME})


def decide(loaded: Loaded, commands: Sequence[Command]) -> Decision:
    """Decides a batch in which each hold and each idempotency key is named at most once.

    Raises StaleRows if a receipt speaks of a hold or budget that is not there yet in what was loaded, or a period was opened after
    the newest was looked for; and NotLoaded if a command needs a book of a path that only the batch itself made.
    """
    work = Work(loaded)
    outcomes = work.decision.outcomes
    with localcontext(CONTEXT):
        for command in commands:
            receipt = loaded.receipts.get(command.receipt_key)
            outcome = _RULES[type(command)](work, command) if receipt is None else _replay(work, command, receipt)
            if receipt is None and _claims_key(command, outcome):
                work.decision.receipts.append(_receipt(work, command, outcome))
            elif outcome.refusal is not None and not outcome.replayed:
                work.decision.refused.append(_refused(work, command, outcome.refusal))
            outcomes.append(outcome)
        work.journal.close()
        cross(work.decision)
        derive(loaded, work.decision)
    return work.decision


def _claims_key(command: Command, outcome: Outcome) -> bool:
    if outcome.refusal is not None:
        return isinstance(command, _ASKS_PERMISSION) and outcome.refusal.reason not in _NOT_REMEMBERED
    if isinstance(command, Heartbeat):
        return False
    return not isinstance(command, _OWN) or (outcome.hold is not None and (outcome.applied or outcome.replayed))


def _receipt(work: Work, command: Command, outcome: Outcome) -> Receipt:
    refusal, versioned = outcome.refusal, outcome.card or outcome.policy
    return Receipt(
        tenant=command.caller.tenant,
        actor=command.caller.actor,
        command=command.NAME,
        key=command.key,
        fingerprint=command.fingerprint,
        fingerprint_version=FINGERPRINT_VERSION,
        # The key of a price card or policy stands for the version that it gave.
        resource=command.resource if versioned is None else f"{command.resource}#{versioned.version}",
        outcome=OK if refusal is None else refusal.reason.value,
        refusal=None if refusal is None else {"message": refusal.message, "metadata": dict(refusal.metadata)},
        state=None if outcome.hold is None else outcome.hold.state.value,
        recorded_at=work.now,
    )


def _refused(work: Work, command: Command, refusal: Refusal) -> RefusedCommand:
    """The log of a refusal that claims no key."""
    key = getattr(command, "hold_key", None)
    hold = None if key is None else work.decision.holds.get(key) or work.loaded.holds.get(key)
    return RefusedCommand(
        tenant=command.caller.tenant,
        refused_id=work.loaded.new_id(),
        actor=command.caller.actor,
        command=command.NAME,
        key=command.key,
        fingerprint=command.fingerprint,
        resource=command.resource,
        reason=refusal.reason.value,
        state=None if hold is None else hold.state.value,
        recorded_at=work.now,
    )


def _replay(work: Work, command: Command, receipt: Receipt) -> Outcome:
    """The answer to a key that was used before: the resource as it is now, or the refusal that was remembered."""
    fingerprint = FINGERPRINTS.get(receipt.fingerprint_version)
    if fingerprint is None:
        return of_newer_version(
            f"The key {command.key!r} was used",
            receipt.fingerprint_version,
            idempotency_key=command.key,
            resource=receipt.resource,
        )
    if receipt.fingerprint != fingerprint(command):
        return refuse(
            Reason.IDEMPOTENCY_MISMATCH,
            f"The key {command.key!r} was used for another {command.NAME}; a new intent needs a new key.",
            idempotency_key=command.key,
            resource=receipt.resource,
        )
    if receipt.refusal is not None:
        refusal = Refusal(Reason(receipt.outcome), receipt.refusal["message"], receipt.refusal["metadata"])
        return Outcome(refusal=refusal, replayed=True, applied=False)
    if isinstance(command, PutPriceCard):
        version = int(receipt.resource.rpartition("#")[2])
        return Outcome(card=replace(command.card, version=version), replayed=True, applied=False)
    if isinstance(command, PutEvidencePolicy):
        version = int(receipt.resource.rpartition("#")[2])
        return Outcome(policy=replace(command.policy, version=version), replayed=True, applied=False)
    if isinstance(command, OnBudget):
        budget = work.budgets.get(command.budget_key)
        if budget is None:
            raise StaleRows(command.budget_id)
        return standing(work, budget)
    return _replay_on_hold(work, command, receipt)


def _replay_on_hold(work: Work, command: HoldCommand, receipt: Receipt) -> Outcome:
    if isinstance(command, Resolve) and receipt.state is None:
        return parked_before(work, command)
    hold = work.loaded.holds.get(command.hold_key)
    if hold is None:
        raise StaleRows(command.operation_id)
    dispatch = command.dispatch if isinstance(command, (Reserve, BeginDispatch)) else None
    superseded_by = _superseded_since(work, hold, receipt)
    if dispatch is None:
        return Outcome(hold=hold, replayed=True, applied=False, superseded_by=superseded_by)
    denied = denied_by_now(work, hold, dispatch)
    return Outcome(
        hold=hold,
        replayed=True,
        applied=False,
        may_send=denied is None,
        denial=denied,
        superseded_by=superseded_by,
    )


def _superseded_since(work: Work, hold: Hold, receipt: Receipt) -> bytes | None:
    """The digest in force, if another was in force when the key acted. Of commands without revisions loaded: None."""
    revisions = work.loaded.resolutions.get((hold.tenant, hold.operation_id), ())
    left = [r.digest for r in revisions if r.recorded_at <= receipt.recorded_at]
    return hold.resolution_digest if left and left[-1] != hold.resolution_digest else None
