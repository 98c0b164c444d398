"""The rule of read-back: a claim that the rows do not bear out opens a case."""

from uuid import UUID

from ledger.domain.batch import Outcome
from ledger.domain.canonical import Document, digest
from ledger.domain.claims import differences
from ledger.domain.commands import ON_HOLDS, VerifyWrite
from ledger.domain.model import Incident
from ledger.domain.work import Work


def verify_write(work: Work, command: VerifyWrite) -> Outcome:
    # The resource of another command is a budget or a price card, and no operation that may be named alike.
    names_hold = command.receipt is None or command.receipt.command in ON_HOLDS
    hold = work.loaded.holds.get(command.hold_key) if names_hold else None
    different = differences(command.claim, hold, command.receipt)
    if not different:
        return Outcome(hold=hold, applied=False, as_of=work.now)
    # From here it succeeds.
    detail = {
        f"{name}_{d.field}": value for d in different for name, value in (("claimed", d.claimed), ("actual", d.actual))
    }
    detail["actor"] = command.caller.actor
    # The same wrong belief about the same rows is the same case, whoever repeats it.
    fact: Document = [[d.field, d.claimed, d.actual] for d in different]
    named: Document = {
        "tenant": command.caller.tenant,
        "resource": command.operation_id,
        "kind": "WRITE_MISMATCH",
        "fact": fact,
    }
    incident_id = UUID(bytes=digest("incident", 1, named)[:16])
    work.decision.incidents.append(
        Incident(command.caller.tenant, incident_id, "WRITE_MISMATCH", command.operation_id, work.now, detail)
    )
    return Outcome(hold=hold, applied=False, as_of=work.now, incident_id=incident_id)
