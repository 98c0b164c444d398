"""The rule of read-back: a claim that the rows do not bear out opens a case."""

from ledger.domain.batch import Outcome
from ledger.domain.canonical import Document, digest
from ledger.domain.claims import differences
from ledger.domain.commands import ON_HOLDS, VerifyWrite
from ledger.domain.incidents import open_case
from ledger.domain.work import Work


def verify_write(work: Work, command: VerifyWrite) -> Outcome:
    # What a budget or a price card is named may also be the name of an operation.
    is_about_hold = command.receipt is None or command.receipt.command in ON_HOLDS
    hold = work.loaded.holds.get(command.hold_key) if is_about_hold else None
    different = differences(command.claim, hold, command.receipt)
    if not different:
        return Outcome(hold=hold, applied=False, as_of=work.now)
    # From here it succeeds.
    detail = {
        f"{name}_{d.field}": value for d in different for name, value in (("claimed", d.claimed), ("actual", d.actual))
    }
    detail["actor"] = command.caller.actor
    # The same wrong belief about the same rows is the same case, whoever repeats it.
    beliefs: Document = [[d.field, d.claimed, d.actual] for d in different]
    fact = digest("claim", 1, beliefs).hex()
    opened = open_case(work, command.caller.tenant, command.operation_id, "WRITE_MISMATCH", fact, detail)
    return Outcome(hold=hold, applied=False, as_of=work.now, incident_id=opened)
