"""The rules of a hold before its resolution: reserve, unknown, release. Those of its attempts are in ledger.domain.attempts."""

from datetime import datetime
from typing import Any
from uuid import UUID

from ledger.domain.admission import cannot_take
from ledger.domain.batch import Outcome
from ledger.domain.commands import HoldCommand, MarkOutcomeUnknown, Release, Reserve
from ledger.domain.evidence import resolution_digest
from ledger.domain.journal import AVAILABLE, HELD, UNKNOWN, Move, OpenBook, give
from ledger.domain.keyed import FINGERPRINT_VERSION, FINGERPRINTS
from ledger.domain.model import Axis, EntryKind, Execution, Hold, Resolution
from ledger.domain.money import ZERO
from ledger.domain.needs import path_of
from ledger.domain.observations import observe
from ledger.domain.opening import carry_on, current_book
from ledger.domain.permission import denial, permit
from ledger.domain.quotes import Quote, QuoteKind, quote
from ledger.domain.refusals import Reason, Refusal
from ledger.domain.signs import denied_by_now, shown, signs_of, waiting_for
from ledger.domain.states import HoldState, ResolutionKind
from ledger.domain.work import Work, no_hold, of_newer_version, refuse


def reserve(work: Work, command: Reserve) -> Outcome:
    hold = work.loaded.holds.get(command.hold_key)
    if hold is not None:
        return _existing(work, hold, command)
    for budget_id in command.budget_ids:
        if (command.caller.tenant, budget_id) not in work.budgets:
            return refuse(
                Reason.NOT_FOUND, f"There is no budget {budget_id!r}.", field="budget_ids", budget_id=budget_id
            )
    spec, tenant = command.quote, command.caller.tenant
    card = work.cards.get((tenant, spec.card_id, spec.card_version)) if spec.kind is QuoteKind.METERED else None
    quoted = quote(spec, card, work.now)
    if isinstance(quoted, Refusal):
        return Outcome(refusal=quoted, applied=False)
    levels = path_of(tenant, command.budget_ids, work.budgets)
    budgets = [work.budgets[(tenant, level)] for level in levels]
    books = [current_book(work, budget, command.caller.actor) for budget in budgets]
    for budget, book in zip(budgets, books, strict=True):
        refusal = cannot_take(budget, book, quoted)
        if refusal is not None:
            return refusal
    if command.exclusive_key is not None:
        holder = work.exclusive.setdefault((tenant, command.exclusive_key), command.operation_id)
        if holder != command.operation_id:
            return refuse(
                Reason.EXCLUSIVE_HOLD,
                f"Operation {holder!r} has an open hold with this exclusive key; resolve it first.",
                exclusive_key=command.exclusive_key,
                operation_id=holder,
            )
    # From here it succeeds.
    return _open(work, command, quoted, books)


def _existing(work: Work, hold: Hold, command: Reserve) -> Outcome:
    """Another key with the operation of a hold: the hold if the content is the same, else a refusal that names a difference."""
    fingerprint = FINGERPRINTS.get(hold.fingerprint_version)
    if fingerprint is None:
        return of_newer_version(
            f"The hold of operation {hold.operation_id!r} was made", hold.fingerprint_version, **facts(hold)
        )
    if hold.fingerprint == fingerprint(command):
        if command.dispatch is None:
            return Outcome(hold=hold, applied=False, matched_by_operation=True)
        denied = denied_by_now(work, hold, command.dispatch)
        return Outcome(hold=hold, applied=False, matched_by_operation=True, may_send=denied is None, denial=denied)
    asked = {
        "budget_ids": (hold.budget_ids, command.budget_ids),
        "quote.kind": (hold.quote.kind, command.quote.kind),
        "ttl": (hold.expire_at - hold.created_at, command.ttl),
        "labels": (dict(hold.labels), dict(command.labels)),
        "exclusive_key": (hold.exclusive_key, command.exclusive_key),
        "request_group": (hold.request_group, command.request_group),
    }
    different = next((name for name, (before, now_asked) in asked.items() if before != now_asked), "quote")
    return refuse(
        Reason.OPERATION_EXISTS,
        f"Operation {hold.operation_id!r} has a hold already, with another {different}; a new intent needs a new operation_id.",
        field=different,
        **facts(hold),
    )


def _open(work: Work, command: Reserve, quoted: Quote, books: list[OpenBook]) -> Outcome:
    caller, now, dispatch = command.caller, work.now, command.dispatch
    signs = signs_of(work, command.hold_key)
    attempt: dict[str, Any] = {}
    if signs:
        # The call was made before its hold was there: nobody is told to make it again.
        attempt = _inferred(0, 0, now) | shown(signs)
    elif dispatch is not None:
        attempt = permit(1, 1, caller.actor, dispatch, now)
    hold = Hold(
        tenant=caller.tenant,
        operation_id=command.operation_id,
        state=HoldState.DISPATCHING if attempt else HoldState.RESERVED,
        currency=quoted.currency,
        amount=quoted.amount,
        quote=quoted,
        budget_ids=command.budget_ids,
        books=tuple(book.book.book_id for book in books),
        labels=dict(command.labels),
        actor=caller.actor,
        fingerprint=command.fingerprint,
        fingerprint_version=FINGERPRINT_VERSION,
        created_at=now,
        expire_at=now + command.ttl,
        updated_at=now,
        exclusive_key=command.exclusive_key,
        request_group=command.request_group,
        **attempt,
    )
    work.decision.holds[command.hold_key] = hold
    taken, held = hold.amount, -hold.amount
    moves = [m for b in books for m in ((b, AVAILABLE, taken), (b, HELD, held))]
    _post(work, hold, EntryKind.RESERVE, moves, caller.actor)
    work.journal.count(hold, 1)
    if command.dispatch is None:
        return Outcome(hold=hold)
    denied = denial(hold, command.dispatch, now)
    return Outcome(hold=hold, may_send=denied is None, denial=denied)


def mark_outcome_unknown(work: Work, command: MarkOutcomeUnknown) -> Outcome:
    hold = work.loaded.holds.get(command.hold_key)
    if hold is None:
        return no_hold(command)
    if hold.state is HoldState.RESERVED:
        return wrong_state(hold, "was never dispatched: begin the dispatch before the call, or release the hold")
    if hold.state is not HoldState.DISPATCHING:
        return Outcome(hold=hold, applied=False)
    # From here it succeeds.
    return Outcome(hold=become_unknown(work, hold, command, command.observation))


def release(work: Work, command: Release) -> Outcome:
    hold = work.loaded.holds.get(command.hold_key)
    if hold is None:
        return no_hold(command)
    if hold.state is HoldState.RELEASED:
        return Outcome(hold=hold, replayed=True, applied=False)
    if hold.state is not HoldState.RESERVED:
        return wrong_state(hold, "was dispatched: only evidence (final usage, or a proof of no cost) frees its money")
    if waiting_for(work, hold):
        return is_being_filed(hold)
    # From here it succeeds.
    return Outcome(hold=become_released(work, hold, command.caller.actor))


def wrong_state(hold: Hold, because: str) -> Outcome:
    """The refusal HOLD_STATE."""
    return refuse(
        Reason.HOLD_STATE, f"The hold of operation {hold.operation_id!r} is {hold.state}: it {because}.", **facts(hold)
    )


def is_being_filed(hold: Hold) -> Outcome:
    """The refusal to free a hold whose call was made, by evidence that came before it."""
    return wrong_state(hold, "was evidently dispatched: evidence of the call came before the hold, and is being filed")


def facts(hold: Hold) -> dict[str, str]:
    """What every refusal about a hold says of it; of an unknown outcome, that the call must not be made again."""
    known = {"operation_id": hold.operation_id, "state": hold.state.value}
    return known | {"recovery_action": "no_replay"} if hold.state is HoldState.OUTCOME_UNKNOWN else known


def infer_attempt(work: Work, hold: Hold) -> dict[str, Any]:
    """The attempt that evidence shows to have been made although no dispatch was recorded. Nobody may send on it."""
    return _inferred(hold.attempt, hold.generation, work.now)


def _inferred(attempt: int, generation: int, now: datetime) -> dict[str, Any]:
    return {
        "attempt": attempt + 1,
        "generation": generation + 1,
        "inferred": True,
        "dispatched_at": now,
        "lease_expires_at": now,
    }


def become_released(work: Work, hold: Hold, actor: str) -> Hold:
    """Gives the money of a RESERVED hold back."""
    moves = [m for b in _books(work, hold) for m in ((b, HELD, hold.amount), *give(b, hold.amount))]
    entry_id = _post(work, hold, EntryKind.RELEASE, moves, actor)
    carry_on(work, hold, hold.amount, actor)
    work.journal.count(hold, -1)
    kind = ResolutionKind.NEVER_DISPATCHED
    digest = resolution_digest(hold, kind, hold.attempt, ZERO)
    work.decision.resolutions.append(
        Resolution(
            hold.tenant, hold.operation_id, 1, kind, digest, None, ZERO, hold.currency, ZERO, (), (), None, entry_id, actor, None,
            work.now,
        )
    )  # fmt: skip
    return work.change(
        hold,
        state=HoldState.RELEASED,
        revision=1,
        resolution_kind=kind,
        resolution_digest=digest,
        settled=ZERO,
        resolved_at=work.now,
    )


def become_unknown(work: Work, hold: Hold, command: HoldCommand, because: str, **changes: Any) -> Hold:
    """Moves the money of a dispatched hold from HELD to UNKNOWN, and keeps who said why."""
    moves = [m for b in _books(work, hold) for m in ((b, HELD, hold.amount), (b, UNKNOWN, -hold.amount))]
    _post(work, hold, EntryKind.OUTCOME_UNKNOWN, moves, command.caller.actor)
    observe(work, command, Axis.EXECUTION, Execution.UNKNOWN, hold.attempt, detail={"because": because})
    return work.change(hold, state=HoldState.OUTCOME_UNKNOWN, **changes)


def _books(work: Work, hold: Hold) -> list[OpenBook]:
    return [work.journal.book(hold.tenant, book_id) for book_id in hold.books]


def _post(work: Work, hold: Hold, kind: EntryKind, moves: list[Move], actor: str) -> UUID | None:
    return work.journal.post(
        kind, moves, tenant=hold.tenant, currency=hold.currency, actor=actor, operation_id=hold.operation_id
    )
