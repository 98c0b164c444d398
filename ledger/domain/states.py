"""The states of a hold, and the only ways between them.

RESERVED ── release, expiry ──▶ RELEASED
   │ begin dispatch
   ▼
DISPATCHING ── usage, no-cost proof ──▶ SETTLED
   │ mark unknown, lease ran out            ▲
   ▼                                        │ usage, no-cost proof
OUTCOME_UNKNOWN ────────────────────────────┘

RESERVED → SETTLED exists for one case: evidence shows that the call was made although no dispatch was recorded. The hold then
carries an inferred attempt. Nothing leads from DISPATCHING or OUTCOME_UNKNOWN to RELEASED.
"""

from enum import StrEnum


class HoldState(StrEnum):
    RESERVED = "RESERVED"
    DISPATCHING = "DISPATCHING"
    OUTCOME_UNKNOWN = "OUTCOME_UNKNOWN"
    SETTLED = "SETTLED"
    RELEASED = "RELEASED"


BIRTHS = frozenset({HoldState.RESERVED, HoldState.DISPATCHING})
TERMINAL = frozenset({HoldState.SETTLED, HoldState.RELEASED})
TRANSITIONS = frozenset(
    {
        (HoldState.RESERVED, HoldState.RELEASED),
        (HoldState.RESERVED, HoldState.DISPATCHING),
        (HoldState.RESERVED, HoldState.SETTLED),
        (HoldState.DISPATCHING, HoldState.OUTCOME_UNKNOWN),
        (HoldState.DISPATCHING, HoldState.SETTLED),
        (HoldState.OUTCOME_UNKNOWN, HoldState.SETTLED),
    }
)


class ResolutionKind(StrEnum):
    USAGE = "USAGE"
    NO_COST = "NO_COST"
    NEVER_DISPATCHED = "NEVER_DISPATCHED"
