"""The rule by which finance replaces what a hold was resolved on: a next revision, and a linked entry of the difference.

The terminal state stays, and so does every earlier revision. What is corrected is named by its digest, so that of two
corrections of one fact the second learns of the first.
"""

from decimal import Decimal
from typing import Any

from ledger.domain.batch import Outcome
from ledger.domain.commands import Correct, NoCostProof, Usage
from ledger.domain.evidence import Appraisal, passed_ceilings, resolution_digest
from ledger.domain.holds import facts, infer_attempt, wrong_state
from ledger.domain.journal import EXPENSE, PAYABLE, SPENT, Move, give, take
from ledger.domain.keeping import keep, receipt_of
from ledger.domain.model import Classification, EntryKind, Hold, Resolution
from ledger.domain.money import ZERO
from ledger.domain.needs import financial_book
from ledger.domain.opening import carry_on
from ledger.domain.receipts import bring_receipt
from ledger.domain.refusals import Reason
from ledger.domain.resolving import appraise, corroborate, overrun, reject, too_much
from ledger.domain.states import TERMINAL, HoldState
from ledger.domain.work import Work, no_hold, refuse


def correct(work: Work, command: Correct) -> Outcome:
    hold = work.loaded.holds.get(command.hold_key)
    if hold is None:
        return no_hold(command)
    if hold.state not in TERMINAL:
        return wrong_state(hold, "has no resolution to be corrected: Resolve it")
    in_force = hold.resolution_digest
    assert in_force is not None, "a terminal hold has a resolution"
    if command.digest_in_force != in_force:
        return refuse(
            Reason.DIGEST_NOT_IN_FORCE,
            f"Another resolution of operation {hold.operation_id!r} is in force: look at it, and correct that one if it is wrong.",
            digest=command.digest_in_force.hex(),
            digest_in_force=in_force.hex(),
            **facts(hold),
        )
    evidence = command.evidence
    if not hold.attempt and isinstance(evidence, NoCostProof) and evidence.kind != "REJECTED_BEFORE_EXECUTION":
        return wrong_state(hold, "was never dispatched: that it cost nothing needs no proof")
    # What rules out a proof while the outcome is unknown (a receipt, usage that was seen) rules it out as a correction.
    appraisal = appraise(work, command, hold._replace(state=HoldState.OUTCOME_UNKNOWN))
    attempt = hold.attempt or 1
    if command.attempt not in (0, attempt):
        return reject(work, command, hold, (f"attempt {command.attempt} is not the hold's attempt {attempt}",), False)
    if appraisal.reasons:
        return reject(work, command, hold, appraisal.reasons, appraisal.about_this_hold, appraisal.kept_as)
    lines = tuple(line.to_document() for line in appraisal.lines)
    digest = resolution_digest(hold, appraisal.kind, attempt, appraisal.amount, appraisal.service_tier, lines)
    if digest == in_force:
        return corroborate(work, command, hold, digest)
    cost = appraisal.amount
    difference = cost - (hold.settled or ZERO)
    reasons = overrun(command, hold, cost) or too_much(work, hold, max(difference, ZERO), difference)
    if reasons:
        return reject(work, command, hold, reasons, appraisal.about_this_hold)
    # From here it succeeds.
    return _replace(work, command, hold, appraisal, lines, digest, difference)


def _replace(
    work: Work,
    command: Correct,
    hold: Hold,
    appraisal: Appraisal,
    lines: tuple[dict[str, str], ...],
    digest: bytes,
    difference: Decimal,
) -> Outcome:
    evidence_id = keep(work, command, hold, Classification.AUTHORITATIVE, (), digest)
    revisions = work.loaded.resolutions[command.hold_key]
    entry_id = work.journal.post(
        EntryKind.CORRECT,
        _difference(work, hold, difference),
        tenant=hold.tenant,
        currency=hold.currency,
        actor=command.caller.actor,
        operation_id=hold.operation_id,
        effective_at=command.evidence.observed_at,
        corrects=next((r.entry_id for r in reversed(revisions) if r.entry_id is not None), None),
    )
    carry_on(work, hold, -difference, command.caller.actor)
    why = (command.reason, command.accept_overrun_reason)
    work.decision.resolutions.append(
        Resolution(
            tenant=hold.tenant,
            operation_id=hold.operation_id,
            revision=hold.revision + 1,
            kind=appraisal.kind,
            digest=digest,
            supersedes=hold.resolution_digest,
            amount=appraisal.amount,
            currency=hold.currency,
            cost_over_hold=max(appraisal.amount - hold.amount, ZERO),
            lines=lines,
            passed_ceilings=passed_ceilings(hold.quote, lines),
            evidence_id=evidence_id,
            entry_id=entry_id,
            actor=command.caller.actor,
            reason="; ".join(text for text in why if text),
            recorded_at=work.now,
        )
    )
    bound, incident_id = bring_receipt(work, hold, receipt_of(command))
    # A hold that was released stays so; the call that was made all the same is an attempt on which nobody may send.
    inferred: dict[str, Any] = {} if hold.attempt else infer_attempt(work, hold)
    corrected = work.change(
        hold,
        revision=hold.revision + 1,
        resolution_kind=appraisal.kind,
        resolution_digest=digest,
        settled=appraisal.amount,
        resolved_at=work.now,
        provider_receipt=bound,
        execution_seen=hold.execution_seen or isinstance(command.evidence, Usage),
        usage_seen=hold.usage_seen or isinstance(command.evidence, Usage),
        **inferred,
    )
    return Outcome(hold=corrected, incident_id=incident_id)


def _difference(work: Work, hold: Hold, difference: Decimal) -> list[Move]:
    """The lines of a correction: SPENT on every level, and EXPENSE and PAYABLE, up or down by the difference."""
    if not difference:
        return []
    moves: list[Move] = []
    for book_id in hold.books:
        book = work.journal.book(hold.tenant, book_id)
        moves.append((book, SPENT, -difference))
        moves += take(book, difference) if difference > 0 else give(book, -difference)
    financial = work.journal.open(financial_book(hold, work.loaded.stripe))
    return [*moves, (financial, EXPENSE, difference), (financial, PAYABLE, -difference)]
