"""The rules of an attempt: its beginning, heartbeat, failure before anything was sent, cancel, and what time does to it.

A hold that is DISPATCHING has a live attempt, with nonce and lease; or its latest attempt failed before anything was sent. Then it
waits until `retry_until` for the next one, and is settled as never sent if none comes.
"""

from ledger.domain.attempt_commands import Cancel, Heartbeat, RecordFailedBeforeDispatch
from ledger.domain.batch import Outcome
from ledger.domain.commands import BeginDispatch, Lapse
from ledger.domain.holds import become_released, become_unknown, facts, is_being_filed, wrong_state
from ledger.domain.model import Axis, Execution, Hold
from ledger.domain.needs import budget_of
from ledger.domain.observations import observe
from ledger.domain.permission import Denial, Stopped, permit
from ledger.domain.refusals import Reason
from ledger.domain.resolving import may_settle_never_sent, settle_never_sent
from ledger.domain.signs import denied_by_now, waiting_for
from ledger.domain.states import HoldState
from ledger.domain.trees import is_closed
from ledger.domain.work import Work, no_hold, refuse


def begin_dispatch(work: Work, command: BeginDispatch) -> Outcome:
    hold = work.loaded.holds.get(command.hold_key)
    if hold is None:
        return no_hold(command)
    if hold.state is not HoldState.RESERVED:
        # Not an error: the caller learns the state, whether it may send, and what it can do if not.
        denied = denied_by_now(work, hold, command.dispatch)
        # A nonce that had an attempt gets no other: a late repeat of what it asked for then would be taken for the new one's.
        had_one = {hold.owner, *work.loaded.ended.get(command.hold_key, ())}
        if denied is not Denial.ATTEMPT_ENDED or command.dispatch.nonce_hash in had_one:
            return Outcome(hold=hold, applied=False, may_send=denied is None, denial=denied)
    if waiting_for(work, hold):
        return Outcome(hold=hold, applied=False, denial=Denial.CALL_WAS_SEEN)
    closed = next((level for level in map(budget_of, hold.books) if (hold.tenant, level) in work.closed), None)
    if closed is not None:
        return is_closed(closed)
    if hold.quote.valid_until is not None and work.now >= hold.quote.valid_until:
        return refuse(
            Reason.QUOTE_EXPIRED,
            "The quote is no longer valid; free the hold and reserve again.",
            valid_until=hold.quote.valid_until.isoformat(),
        )
    # From here it succeeds.
    attempt = permit(hold.attempt + 1, hold.generation + 1, command.caller.actor, command.dispatch, work.now)
    begun = work.change(hold, state=HoldState.DISPATCHING, failure=None, retry_until=None, **attempt)
    return Outcome(hold=begun, may_send=True)


def heartbeat(work: Work, command: Heartbeat) -> Outcome:
    hold = work.loaded.holds.get(command.hold_key)
    if hold is None:
        return no_hold(command)
    if hold.nonce_hash != command.nonce_hash:
        return _not_current(hold)
    lease = hold.lease_expires_at
    if hold.state is not HoldState.DISPATCHING or lease is None or lease <= work.now:
        return Outcome(hold=hold, applied=False)
    until = work.now + command.lease
    if until <= lease:
        return Outcome(hold=hold, applied=False, may_continue=True)
    # From here it succeeds.
    return Outcome(hold=work.change(hold, lease_expires_at=until), may_continue=True)


def record_failed_before_dispatch(work: Work, command: RecordFailedBeforeDispatch) -> Outcome:
    hold = work.loaded.holds.get(command.hold_key)
    if hold is None:
        return no_hold(command)
    if hold.state is HoldState.RESERVED:
        return wrong_state(hold, "was never dispatched: release it, or begin the dispatch")
    if hold.owner != command.nonce_hash or command.attempt not in (0, hold.attempt):
        return _not_current(hold)
    if hold.failure is not None:
        return Outcome(hold=hold, applied=False)
    if hold.state is not HoldState.DISPATCHING:
        is_unknown = hold.state is HoldState.OUTCOME_UNKNOWN
        return wrong_state(
            hold,
            "needs finance to prove that nothing was sent"
            if is_unknown
            else "is resolved, and has no attempt that runs",
        )
    if hold.call_was_seen:
        return wrong_state(hold, "has usage or a receipt of its call, which rules out that nothing was sent")
    # From here it succeeds.
    record = {
        "attempt": str(hold.attempt),
        "cause": command.cause,
        "adapter": command.adapter,
        "adapter_revision": command.adapter_revision,
        "nonce": command.nonce_hash.hex(),
    }
    said = _ended(hold) | {"cause": command.cause, "nonce": record["nonce"]}
    observe(work, command, Axis.EXECUTION, Execution.NOT_SENT, hold.attempt, said)
    ended = work.change(hold, failure=record, retry_until=hold.lease_expires_at, lease_expires_at=None, nonce_hash=None)
    return Outcome(hold=ended)


def cancel(work: Work, command: Cancel) -> Outcome:
    hold = work.loaded.holds.get(command.hold_key)
    if hold is None:
        return no_hold(command)
    evidence = waiting_for(work, hold)
    if hold.state is HoldState.RESERVED and evidence:
        return is_being_filed(hold)
    if hold.state is HoldState.RESERVED:
        observe(work, command, Axis.EXECUTION, Execution.NOT_SENT, 0, {"because": command.reason})
        return Outcome(hold=become_released(work, hold, command.caller.actor), stopped=Stopped.RESERVATION)
    if hold.state is not HoldState.DISPATCHING:
        return Outcome(hold=hold, applied=False)
    # From here it succeeds.
    if may_settle_never_sent(work, hold) and not evidence:
        # Nothing was sent, as the attempt's owner recorded: there is nothing left to be unknown.
        observe(work, command, Axis.EXECUTION, Execution.NOT_SENT, hold.attempt, {"because": command.reason})
        return Outcome(hold=settle_never_sent(work, command.caller, hold), stopped=Stopped.NEXT_ATTEMPT)
    unknown = become_unknown(
        work, hold, command, command.reason, generation=hold.generation + 1, nonce_hash=None, lease_expires_at=None
    )
    return Outcome(hold=unknown, stopped=Stopped.PERMISSION_TO_SEND)


def lapse(work: Work, command: Lapse) -> Outcome:
    """What time does: a reservation that ran out is released, an attempt whose lease ran out is unknown, one that failed before
    anything was sent and was not followed by another is settled on that record. Else nothing.

    Evidence that waits for the hold is filed first.
    """
    hold = work.loaded.holds.get(command.hold_key)
    if hold is None:
        return no_hold(command)
    if waiting_for(work, hold):
        return Outcome(hold=hold, applied=False)
    if hold.state is HoldState.RESERVED and hold.expire_at <= work.now:
        return Outcome(hold=become_released(work, hold, command.caller.actor))
    due = hold.lease_expires_at or hold.retry_until
    if hold.state is not HoldState.DISPATCHING or due is None or due > work.now:
        return Outcome(hold=hold, applied=False)
    if may_settle_never_sent(work, hold):
        return Outcome(hold=settle_never_sent(work, command.caller, hold))
    return Outcome(hold=become_unknown(work, hold, command, "the lease ran out"))


def _not_current(hold: Hold) -> Outcome:
    return refuse(
        Reason.ATTEMPT_NOT_CURRENT,
        f"The hold of operation {hold.operation_id!r} is {hold.state}, at attempt {hold.attempt}: this nonce is not its owner's"
        " (any more). Do not send, and report what is known of the call as evidence.",
        attempt=str(hold.attempt),
        generation=str(hold.generation),
        **facts(hold),
    )


def _ended(hold: Hold) -> dict[str, str]:
    """What the hold says of its attempt, which the next one will take the place of."""
    assert hold.dispatched_at is not None, "an attempt with an owner was dispatched"
    return {
        "generation": str(hold.generation),
        "executor": hold.executor or "",
        "dispatcher": hold.dispatcher or "",
        "dispatched_at": hold.dispatched_at.isoformat(),
    }
