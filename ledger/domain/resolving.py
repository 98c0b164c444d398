"""The rules by which evidence resolves a hold: accepted, rejected, seen before, or in conflict with what is known."""

from collections.abc import Mapping
from decimal import Decimal
from typing import Any
from uuid import UUID

from ledger.domain.batch import Outcome
from ledger.domain.commands import FileParked, NoCostProof, Report, Resolve, Usage
from ledger.domain.evidence import (
    Appraisal,
    appraise_proof,
    appraise_usage,
    fact_of,
    is_witness,
    passed_ceilings,
    resolution_digest,
)
from ledger.domain.holds import facts, infer_attempt, wrong_state
from ledger.domain.incidents import open_incident
from ledger.domain.journal import EXPENSE, HELD, PAYABLE, SPENT, UNKNOWN, Move, give, take
from ledger.domain.keeping import keep, receipt_of
from ledger.domain.model import (
    Axis,
    Caller,
    Classification,
    EntryKind,
    Execution,
    Hold,
    Resolution,
    Role,
)
from ledger.domain.money import ZERO, plain
from ledger.domain.needs import card_of, fact_brought, financial_book
from ledger.domain.observations import observe
from ledger.domain.opening import books_beyond, carry_on
from ledger.domain.receipts import bring_receipt
from ledger.domain.refusals import Reason
from ledger.domain.signs import waiting_for
from ledger.domain.states import TERMINAL, HoldState, ResolutionKind
from ledger.domain.work import Work, no_hold, refuse


def resolve(work: Work, command: Resolve) -> Outcome:
    hold = work.loaded.holds.get(command.hold_key)
    if hold is None:
        return no_hold(command)
    evidence = command.evidence
    if not hold.attempt and isinstance(evidence, NoCostProof) and evidence.kind != "REJECTED_BEFORE_EXECUTION":
        return wrong_state(hold, "was never dispatched: its release needs no proof")
    # Evidence for a hold that was never dispatched is about the attempt which it shows to have been made.
    attempt = hold.attempt or 1
    if command.attempt not in (0, attempt):
        # It shows that the call was made: by an earlier attempt, which is said not to have been sent, or one that is not recorded.
        told = appraise(work, command, hold)
        was_made = told.about_this_hold
        is_estimate = was_made and told.kept_as is Classification.ESTIMATE
        classification = Classification.ESTIMATE if is_estimate else Classification.REJECTED
        another = f"attempt {command.attempt} is not the hold's attempt {attempt}"
        return reject(work, command, hold, (another,), was_made, classification)
    known = recognised(work, command, hold)
    if known is not None:
        return corroborate(work, command, hold, known)
    appraisal = appraise(work, command, hold)
    # After the end even who may not settle is heard: whatever is different then, people must look at it.
    is_heard = hold.state in TERMINAL and appraisal.kept_as is Classification.CORROBORATING
    if appraisal.reasons and not is_heard:
        return reject(work, command, hold, appraisal.reasons, appraisal.about_this_hold, appraisal.kept_as)
    lines = tuple(line.to_document() for line in appraisal.lines)
    digest = resolution_digest(hold, appraisal.kind, attempt, appraisal.amount, appraisal.service_tier, lines)
    if hold.state in TERMINAL:
        return _again(work, command, hold, appraisal, digest)
    cost = appraisal.amount
    reasons = overrun(command, hold, cost) or too_much(work, hold, max(cost - hold.amount, ZERO), cost)
    if reasons:
        return reject(work, command, hold, reasons, appraisal.about_this_hold)
    # From here it succeeds.
    return _settle(work, command, hold, appraisal, lines, digest)


def recognised(work: Work, command: Resolve, hold: Hold) -> bytes | None:
    """The digest at which the very same observation resolved the hold before."""
    brought = fact_brought(command, hold)
    seen = None if brought is None else work.loaded.facts.get(brought)
    if seen is None or not is_witness(hold, command.evidence, seen.source, command.caller, work.policy(hold)):
        return None
    return seen.digest


def appraise(work: Work, command: Report, hold: Hold) -> Appraisal:
    """What the evidence comes to, with the card that the hold is pinned to."""
    if isinstance(command.evidence, NoCostProof):
        if any(sign.kind == ResolutionKind.USAGE for sign in waiting_for(work, hold)):
            hold = hold._replace(execution_seen=True, usage_seen=True)
        return appraise_proof(hold, command.evidence, command.caller, work.policy(hold))
    pinned = card_of(command, hold)
    card = None if pinned is None else work.loaded.cards.get(pinned)
    return appraise_usage(hold, command.evidence, card, command.caller, work.policy(hold), work.now)


def overrun(command: Report, hold: Hold, cost: Decimal) -> tuple[str, ...]:
    """Why a cost above hold and tolerance cannot be posted. It is never cut to the hold."""
    most = hold.amount + hold.quote.tolerance
    if cost <= most:
        return ()
    above = f"amount {plain(cost)} is above hold {plain(hold.amount)} and tolerance {plain(hold.quote.tolerance)}"
    if not command.accept_overrun_reason:
        return (above + "; finance may accept it with a reason",)
    if command.caller.role is not Role.FINANCE:
        return (above + "; only finance may accept it",)
    return ()


def too_much(work: Work, hold: Hold, more: Decimal, expense: Decimal) -> tuple[str, ...]:
    """Why `more` cannot be taken from the path and `expense` not be booked: a balance would outgrow NUMERIC(38,18)."""
    books = [work.journal.book(hold.tenant, book_id) for book_id in hold.books]
    full = [book.book.book_id for book in (*books, *books_beyond(work, hold)) if not book.can_hold(more)]
    if expense and not work.journal.peek(financial_book(hold, work.loaded.stripe)).can_expense(expense):
        full.append("of expenses")
    return tuple(f"book {name} would be above what the ledger can hold" for name in full)


def reject(
    work: Work,
    command: Report,
    hold: Hold,
    reasons: tuple[str, ...],
    dispatched: bool,
    classification: Classification = Classification.REJECTED,
) -> Outcome:
    """Keeps the evidence with the reasons. The hold stays as it was, but one that was evidently dispatched is never released,
    usage of it rules out for good that the call was never sent, and of two receipts of a provider the second is a second call.
    """
    evidence_id = keep(work, command, hold, classification, reasons, None)
    bound, incident_id = bring_receipt(work, hold, receipt_of(command) if dispatched else None)
    if dispatched and hold.state in TERMINAL:
        incident_id = _made_after_all(work, command, hold, evidence_id, classification) or incident_id
    elif dispatched:
        changes: dict[str, Any] = {}
        if hold.state is HoldState.RESERVED:
            changes |= infer_attempt(work, hold) | {"state": HoldState.DISPATCHING}
        if isinstance(command.evidence, Usage):
            changes |= _seen(hold, classification)
        if _shows_execution(command, hold, classification):
            detail = {"evidence_id": str(evidence_id)}
            observe(work, command, Axis.EXECUTION, Execution.EXECUTED, command.attempt or hold.attempt or 1, detail)
        if bound != hold.provider_receipt:
            changes["provider_receipt"] = bound
        if changes:
            work.change(hold, **changes)
    return refuse(
        Reason.EVIDENCE_REJECTED,
        "The evidence was kept but does not settle the hold: " + "; ".join(reasons) + ".",
        evidence_id=str(evidence_id),
        classification=classification.value,
        reasons="; ".join(reasons),
        **({} if incident_id is None else {"incident_id": str(incident_id)}),
        **facts(hold),
    )


def _made_after_all(
    work: Work, command: Report, hold: Hold, evidence_id: UUID, classification: Classification
) -> UUID | None:
    """The incident of usage that cannot be booked, of a call that is said to have cost nothing. Who corrects is looking already."""
    is_usage = isinstance(command, Resolve) and isinstance(command.evidence, Usage)
    if not is_usage or classification is Classification.ESTIMATE or hold.resolution_kind is ResolutionKind.USAGE:
        return None
    detail = {"evidence_id": str(evidence_id), "resolution_in_force": str(hold.resolution_kind)}
    return open_incident(work, hold, "RESOLUTION_CONFLICT", fact_of(command.evidence.body()).hex(), detail)


def _seen(hold: Hold, classification: Classification) -> dict[str, bool]:
    """What the hold remembers of usage of its call, and does not yet."""
    is_more = classification is not Classification.ESTIMATE
    shown = {"execution_seen": True} | ({"usage_seen": True} if is_more else {})
    return {name: value for name, value in shown.items() if not getattr(hold, name)}


def _shows_execution(command: Report, hold: Hold, classification: Classification) -> bool:
    """Whether usage of the call is the first of it that is more than an estimate.

    A hold that was made after its evidence is born with `usage_seen`: what is filed then is the first that says so.
    """
    is_first = not hold.usage_seen or isinstance(command, FileParked)
    return isinstance(command.evidence, Usage) and is_first and classification is not Classification.ESTIMATE


def _again(work: Work, command: Resolve, hold: Hold, appraisal: Appraisal, digest: bytes) -> Outcome:
    """A resolved hold: a fact that is in force, or was, is a replay; another one a conflict that people must look at."""
    replaced = any(r.digest == digest for r in work.loaded.resolutions.get(command.hold_key, ()))
    if digest != hold.resolution_digest and not replaced:
        keep(work, command, hold, Classification.CONFLICTING, ("the hold is resolved on other facts",), digest)
        receipts = {"provider_receipt": receipt_of(command), "provider_receipt_in_force": hold.provider_receipt}
        difference = {
            "digest": digest.hex(),
            "digest_in_force": (hold.resolution_digest or b"").hex(),
            "amount": plain(appraisal.amount),
            "amount_in_force": plain(hold.settled or ZERO),
            **{name: receipt for name, receipt in receipts.items() if receipt is not None},
        }
        bring_receipt(work, hold, receipt_of(command))
        incident_id = open_incident(work, hold, "RESOLUTION_CONFLICT", digest.hex(), difference)
        return refuse(
            Reason.RESOLUTION_CONFLICT,
            f"The hold of operation {hold.operation_id!r} is {hold.state} on other facts; the evidence was kept and a case opened."
            " Finance may Correct it.",
            incident_id=str(incident_id),
            **difference,
            **facts(hold),
        )
    return corroborate(work, command, hold, digest)


def corroborate(work: Work, command: Report, hold: Hold, digest: bytes) -> Outcome:
    """Another witness of what resolved the hold, and is in force or has been corrected since. Nothing is posted."""
    keep(work, command, hold, Classification.CORROBORATING, (), digest)
    bound, incident_id = bring_receipt(work, hold, receipt_of(command))
    if bound != hold.provider_receipt:
        hold = work.change(hold, provider_receipt=bound)
    return replayed(hold, digest)._replace(incident_id=incident_id)


def replayed(hold: Hold, digest: bytes) -> Outcome:
    """The answer to a report of what the hold was resolved at before."""
    superseded_by = None if digest == hold.resolution_digest else hold.resolution_digest
    return Outcome(hold=hold, replayed=True, applied=False, superseded_by=superseded_by)


def _settle(
    work: Work,
    command: Resolve,
    hold: Hold,
    appraisal: Appraisal,
    lines: tuple[Mapping[str, str], ...],
    digest: bytes,
) -> Outcome:
    cost, actor = appraisal.amount, command.caller.actor
    evidence_id = keep(work, command, hold, Classification.AUTHORITATIVE, (), digest)
    entry_id = work.journal.post(
        EntryKind.SETTLE,
        _settlement(work, hold, cost),
        tenant=hold.tenant,
        currency=hold.currency,
        actor=actor,
        operation_id=hold.operation_id,
        effective_at=command.evidence.observed_at,
    )
    carry_on(work, hold, hold.amount - cost, actor)
    work.journal.count(hold, -1)
    work.decision.resolutions.append(
        Resolution(
            tenant=hold.tenant,
            operation_id=hold.operation_id,
            revision=1,
            kind=appraisal.kind,
            digest=digest,
            supersedes=None,
            amount=cost,
            currency=hold.currency,
            cost_over_hold=max(cost - hold.amount, ZERO),
            lines=lines,
            passed_ceilings=passed_ceilings(hold.quote, lines),
            evidence_id=evidence_id,
            entry_id=entry_id,
            actor=actor,
            reason=command.accept_overrun_reason or None,
            recorded_at=work.now,
        )
    )
    bound, incident_id = bring_receipt(work, hold, receipt_of(command))
    inferred = infer_attempt(work, hold) if hold.state is HoldState.RESERVED else {}
    settled = work.change(
        hold,
        state=HoldState.SETTLED,
        revision=1,
        resolution_kind=appraisal.kind,
        resolution_digest=digest,
        settled=cost,
        resolved_at=work.now,
        provider_receipt=bound,
        execution_seen=hold.execution_seen or isinstance(command.evidence, Usage),
        usage_seen=hold.usage_seen or isinstance(command.evidence, Usage),
        **inferred,
    )
    return Outcome(hold=settled, incident_id=incident_id)


def may_settle_never_sent(work: Work, hold: Hold) -> bool:
    """Whether the record that nothing was sent settles the hold: nothing rules it out, and its owner is believed."""
    believed = work.policy(hold).standing("NEVER_SENT", Role.GATEWAY) is Classification.AUTHORITATIVE
    return hold.failure is not None and not hold.call_was_seen and believed


def settle_never_sent(work: Work, caller: Caller, hold: Hold) -> Hold:
    """Settles a hold whose latest attempt failed before anything was sent, on the record that its owner made of that.

    It was held against the hold when it was recorded, and nothing has been reported since that rules it out.
    """
    failure = hold.failure
    assert failure is not None, "the failure was recorded"
    proof = NoCostProof("NEVER_SENT", failure["adapter"], failure["adapter_revision"], failure["cause"])
    filed = Resolve(caller, hold.operation_id, hold.operation_id, proof)
    appraisal = Appraisal(ResolutionKind.NO_COST, service_tier=hold.quote.service_tier)
    digest = resolution_digest(hold, appraisal.kind, hold.attempt, ZERO, appraisal.service_tier)
    settled = _settle(work, filed, hold, appraisal, (), digest).hold
    assert settled is not None, "a settlement has its hold"
    return settled


def _settlement(work: Work, hold: Hold, cost: Decimal) -> list[Move]:
    """The lines of a settlement: out of HELD or UNKNOWN into SPENT on every level, the difference given back or taken."""
    account = UNKNOWN if hold.state is HoldState.OUTCOME_UNKNOWN else HELD
    left = hold.amount - cost
    moves: list[Move] = []
    for book_id in hold.books:
        book = work.journal.book(hold.tenant, book_id)
        moves += [(book, account, hold.amount), (book, SPENT, -cost)]
        moves += give(book, left) if left >= 0 else take(book, -left)
    if cost:
        financial = work.journal.open(financial_book(hold, work.loaded.stripe))
        moves += [(financial, EXPENSE, cost), (financial, PAYABLE, -cost)]
    return moves
