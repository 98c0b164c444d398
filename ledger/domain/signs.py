"""Signs that a call was made before its hold was there: what they mean for who may send, and for what may be freed.

Parked evidence waits until a worker files it. In between it already counts: no permission to send is given past it, and no money
is freed past it.
"""

from collections.abc import Sequence
from typing import Any

from ledger.domain.attempt_commands import Cancel
from ledger.domain.commands import (
    BeginDispatch,
    Command,
    Dispatch,
    FileParked,
    Lapse,
    NoCostProof,
    Release,
    Reserve,
    Resolve,
)
from ledger.domain.model import Hold
from ledger.domain.permission import Denial, denial
from ledger.domain.states import TERMINAL, HoldState, ResolutionKind
from ledger.domain.waiting import Sign
from ledger.domain.work import Work

ORPHAN = "ORPHAN_EVIDENCE"
_SEND_OR_FREE = (BeginDispatch, Release, Cancel, Lapse)
_MAY_BE_SENT_OR_FREED = frozenset({HoldState.RESERVED, HoldState.DISPATCHING})


def can_wait(evidence: object) -> bool:
    """Whether evidence says something of a call without knowing its hold.

    Where there is no hold, that nothing was sent frees nothing.
    """
    return not isinstance(evidence, NoCostProof) or evidence.kind == "REJECTED_BEFORE_EXECUTION"


def signs_matter(command: Command, hold: Hold | None) -> bool:
    """Whether the command is decided on the signs of its operation."""
    if isinstance(command, Reserve):
        return hold is None or (command.dispatch is not None and hold.state is HoldState.DISPATCHING)
    if isinstance(command, Resolve):
        if hold is None:
            return not isinstance(command, FileParked) and can_wait(command.evidence)
        return isinstance(command.evidence, NoCostProof) and hold.state not in TERMINAL
    return isinstance(command, _SEND_OR_FREE) and hold is not None and hold.state in _MAY_BE_SENT_OR_FREED


def signs_of(work: Work, key: tuple[str, str]) -> Sequence[Sign]:
    """Everything that says that the operation's call was made: evidence that waits, and cases about what waited in vain."""
    return work.loaded.signs.get(key, ())


def waiting_for(work: Work, hold: Hold) -> tuple[Sign, ...]:
    """The evidence that waits to be filed for a hold."""
    return tuple(sign for sign in signs_of(work, (hold.tenant, hold.operation_id)) if sign.identity is not None)


def denied_by_now(work: Work, hold: Hold, dispatch: Dispatch) -> Denial | None:
    """Why this nonce may not send, None if it may. What waits to be filed for an attempt counts as if it were filed."""
    if hold.state is HoldState.DISPATCHING and waiting_for(work, hold):
        return Denial.CALL_WAS_SEEN
    return denial(hold, dispatch, work.now)


def shown(signs: Sequence[Sign]) -> dict[str, Any]:
    """What signs say of the hold: when its call was made at the latest, and whether it was executed."""
    is_usage = any(sign.kind == ResolutionKind.USAGE for sign in signs)
    return {"dispatched_at": min(sign.at for sign in signs), "execution_seen": is_usage, "usage_seen": is_usage}
