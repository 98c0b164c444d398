"""Evidence that comes before its hold: parked within bounds, filed once the hold is there, a case if it does not come.

    Resolve ── no hold ──▶ parked ── hold is there ──▶ filed: Resolve decides, as if it came now
                             │ the time is over
                             ▼
                           ORPHAN_EVIDENCE

The record of what was observed stays for ever; what is parked is a place in a queue, and goes with what became of it.
"""

from dataclasses import replace
from typing import Final
from uuid import UUID

from ledger.domain.batch import Outcome, StaleRows
from ledger.domain.commands import FileParked, Resolve
from ledger.domain.filing import identity_of, to_document
from ledger.domain.incidents import incident_id, open_case
from ledger.domain.keeping import kind_of, record, source_of
from ledger.domain.model import Classification, Role
from ledger.domain.policies import BUILT_IN_NAME
from ledger.domain.refusals import Reason
from ledger.domain.resolving import recognised, replayed, resolve
from ledger.domain.signs import ORPHAN, can_wait, signs_of
from ledger.domain.waiting import Parked
from ledger.domain.work import Work, refuse

# Different reports of one operation that has no hold, and parked reports of a tenant. Two servers at once may go above by one
# each: what the bounds are for is that it does not grow without end.
MOST_FACTS: Final = 16
MOST_PARKED: Final = 10_000


def report(work: Work, command: Resolve) -> Outcome:
    """The rule of Resolve: evidence of a hold resolves it, evidence without one is parked."""
    if command.hold_key in work.loaded.holds or not can_wait(command.evidence):
        return resolve(work, command)
    known = _reported(work, command)
    if known is not None:
        return known
    tenant, signs = command.caller.tenant, signs_of(work, command.hold_key)
    if sum(sign.identity is not None for sign in signs) >= MOST_FACTS:
        return _full(work, command, f"{MOST_FACTS} different reports wait for it already")
    if work.waiting[tenant] >= MOST_PARKED:
        return _full(work, command, f"{MOST_PARKED} reports of the tenant wait already", of_tenant=True)
    # From here it succeeds.
    work.waiting[tenant] += 1
    _park(work, command)
    return Outcome(parked=True)


def _reported(work: Work, command: Resolve) -> Outcome | None:
    """The answer to a report that waits already, or waited in vain; None if it does neither."""
    identity, orphan = identity_of(command), orphan_case(command)
    for sign in signs_of(work, command.hold_key):
        if sign.identity == identity:
            return Outcome(applied=False, parked=True)
        if sign.incident_id == orphan:
            return Outcome(applied=False, parked=True, incident_id=orphan)
    return None


def orphan_case(command: Resolve) -> UUID:
    """The case that a report becomes if no hold comes for it."""
    return incident_id(command.caller.tenant, command.operation_id, ORPHAN, identity_of(command).hex())


def parked_before(work: Work, command: Resolve) -> Outcome:
    """The answer to the key of a report that was parked. Once the hold is there it is what came of the report: that it resolved
    the hold, or else what a report under a new key comes to. To be parked was no answer that its key could keep.

    Raises StaleRows if there is no hold, and the report waits no longer and is no case either: the hold has come.
    """
    hold = work.loaded.holds.get(command.hold_key)
    if hold is not None:
        known = recognised(work, command, hold)
        return resolve(work, command) if known is None else replayed(hold, known)
    # Under its key it is the report that was parked then, also if its actor has another role by now.
    for role in Role:
        reported = _reported(work, replace(command, caller=command.caller._replace(role=role)))
        if reported is not None:
            return reported._replace(replayed=True)
    raise StaleRows(command.operation_id)


def file_parked(work: Work, command: FileParked) -> Outcome:
    """The rule of FileParked: what waits is decided on as any other evidence, or given up if its time is over."""
    parked = work.loaded.parked.get(command.parked_key)
    hold = work.loaded.holds.get(command.hold_key)
    if parked is None or (hold is None and work.now < parked.parked_at + command.patience):
        return Outcome(hold=hold, applied=False)
    # From here it succeeds: whatever is decided, the evidence is kept with its reasons.
    work.decision.unparked.append(command.parked_key)
    if hold is not None:
        return resolve(work, command)
    detail = {
        "evidence_id": str(parked.evidence_id),
        "kind": parked.kind.value,
        "source": parked.source,
        "actor": parked.actor,
        "parked_at": parked.parked_at.isoformat(),
        "because": "no hold came",
    }
    opened = open_case(work, parked.tenant, parked.operation_id, ORPHAN, parked.identity.hex(), detail)
    return Outcome(incident_id=opened, parked=True)


def _park(work: Work, command: Resolve) -> None:
    caller, evidence = command.caller, command.evidence
    evidence_id = record(work, command, 1, Classification.PARKED, BUILT_IN_NAME)
    work.decision.parked.append(
        Parked(
            tenant=caller.tenant,
            operation_id=command.operation_id,
            evidence_id=evidence_id,
            identity=identity_of(command),
            kind=kind_of(evidence),
            source=source_of(evidence),
            actor=caller.actor,
            role=caller.role,
            attempt=command.attempt,
            report=to_document(command),
            parked_at=work.now,
        )
    )


def _full(work: Work, command: Resolve, because: str, *, of_tenant: bool = False) -> Outcome:
    """Nothing is kept but the case: one for the operation, or one a day for the tenant, however often it is tried."""
    fact = f"full on {work.now:%Y-%m-%d}" if of_tenant else "full"
    detail = {
        "kind": kind_of(command.evidence).value,
        "source": source_of(command.evidence),
        "actor": command.caller.actor,
        "because": because,
    }
    tenant, operation_id = command.hold_key
    opened = open_case(work, tenant, operation_id, ORPHAN, fact, detail, of_tenant=of_tenant)
    return refuse(
        Reason.EVIDENCE_NOT_PARKED,
        f"Operation {operation_id!r} has no hold, and {because}: keep the evidence, and report it again after the reserve.",
        operation_id=operation_id,
        incident_id=str(opened),
    )
