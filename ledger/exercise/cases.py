"""What is played, and what must come of it: worked out by hand from the boundaries, the usage and the card.

1 600 x 2.5 + 2 400 x 1.25 + 500 x 10 = 12 000 per million: an executed call costs 0.012. 8 000 x 2.5 + 1 000 x 10 = 30 000 per
million: 0.03 is set aside for each.
"""

from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from typing import Final

from ledger.exercise.boundaries import Boundary, Modes, Style

COST, SET_ASIDE = Decimal("0.012"), Decimal("0.03")


class Outcome(StrEnum):
    """What became of the intent."""

    ONCE = "charged once"
    NOT_CHARGED = "not charged"
    UNKNOWN = "unknown, still held"
    TWICE_AND_A_CASE = "CHARGED TWICE, a case for people"
    TWICE_AND_BOOKED = "CHARGED TWICE, both booked"
    UNSEEN = "CHARGED, AND NOT IN THE BOOKS"


@dataclass(frozen=True, slots=True)
class Expected:
    """`accepted` is what the provider executed; `holds` the state of each hold, with the amount that it settled at."""

    outcome: Outcome
    accepted: int
    holds: tuple[str, ...]
    incidents: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Case:
    """One call, broken once. `killed`: by kill -9 of its process; else the caller's code raises, and its process goes on."""

    boundary: Boundary
    style: Style
    killed: bool
    modes: Modes
    expected: Expected

    @property
    def elsewhere(self) -> bool:
        """Whether it is about the kind of provider more than about the boundary."""
        return self.modes != Modes()

    @property
    def name(self) -> str:
        how = f"{self.boundary}, {self.style}, {'killed' if self.killed else 'raised'}"
        return f"{how} ({self.modes})" if str(self.modes) else how


_SETTLED = f"SETTLED {COST}"
_ONCE: Final = Expected(Outcome.ONCE, 1, (_SETTLED,))
_RELEASED_THEN_ONCE: Final = Expected(Outcome.ONCE, 1, ("RELEASED", _SETTLED))
_PROVED_THEN_ONCE: Final = Expected(Outcome.ONCE, 1, ("SETTLED 0", _SETTLED))
_NEVER_SENT: Final = Expected(Outcome.UNKNOWN, 0, ("OUTCOME_UNKNOWN",))
_NOT_FOUND_OUT: Final = Expected(Outcome.UNKNOWN, 1, ("OUTCOME_UNKNOWN",))
_TWICE: Final = Expected(Outcome.TWICE_AND_A_CASE, 2, (_SETTLED,), ("DOUBLE_ACCEPTANCE",))
_TWO_OPERATIONS: Final = Expected(Outcome.TWICE_AND_BOOKED, 2, (_SETTLED, _SETTLED))

_B, _S = Boundary, Style
# boundary | guarded: raised, killed | blind resend: raised, killed. At a provider with a look-up and without idempotency.
_EVERYWHERE: Final = (
    (_B.BEFORE_DISPATCH, _RELEASED_THEN_ONCE, _ONCE, _ONCE, _ONCE),
    (_B.AFTER_DISPATCH, _NEVER_SENT, _NEVER_SENT, _ONCE, _ONCE),
    (_B.AFTER_ACCEPTANCE, _ONCE, _ONCE, _TWICE, _TWICE),
    (_B.AFTER_RECEIPT, _ONCE, _ONCE, _TWICE, _TWICE),
    (_B.FINALISING, _ONCE, _ONCE, _TWICE, _TWICE),
    (_B.PROVED_UNSENT, _PROVED_THEN_ONCE, _PROVED_THEN_ONCE, _ONCE, _ONCE),
)
_IDEMPOTENT: Final = Modes(idempotent=True)
_TAKES_ITS_TIME: Final = Modes(usage_seconds=1.5)
_SILENT: Final = Modes(look_up=False)
_WEBHOOK: Final = Modes(look_up=False, webhooks=1)
_WEBHOOK_TWICE: Final = Modes(look_up=False, webhooks=2)
_EARLY: Final = Modes(look_up=False, webhooks=2, early=True)
# boundary, style, killed, the provider's modes, what must come of it.
_AT_OTHER_PROVIDERS: Final = (
    (_B.AFTER_ACCEPTANCE, _S.GUARDED, True, _IDEMPOTENT, _ONCE),
    (_B.AFTER_ACCEPTANCE, _S.RESENDS, False, _IDEMPOTENT, _ONCE),
    (_B.AFTER_ACCEPTANCE, _S.RESENDS, True, _IDEMPOTENT, _ONCE),
    (_B.FINALISING, _S.RESENDS, True, _IDEMPOTENT, _ONCE),
    # Idempotency knows a request by its key: another operation is another request.
    (_B.AFTER_ACCEPTANCE, _S.ANEW, True, _IDEMPOTENT, _TWO_OPERATIONS),
    (_B.AFTER_ACCEPTANCE, _S.ANEW, False, _IDEMPOTENT, _TWO_OPERATIONS),
    # Without a key that it knows, a look-up or a webhook, nothing but people find out. The money stays held.
    (_B.AFTER_ACCEPTANCE, _S.GUARDED, False, _SILENT, _NOT_FOUND_OUT),
    (_B.AFTER_ACCEPTANCE, _S.GUARDED, True, _SILENT, _NOT_FOUND_OUT),
    (_B.AFTER_ACCEPTANCE, _S.GUARDED, True, _TAKES_ITS_TIME, _ONCE),
    (_B.AFTER_RECEIPT, _S.GUARDED, False, _TAKES_ITS_TIME, _ONCE),
    (_B.AFTER_ACCEPTANCE, _S.GUARDED, True, _WEBHOOK, _ONCE),
    (_B.AFTER_ACCEPTANCE, _S.GUARDED, False, _WEBHOOK_TWICE, _ONCE),
    (_B.AFTER_RECEIPT, _S.GUARDED, True, _EARLY, _ONCE),
    # Its webhook is there before any dispatch was recorded.
    (_B.BEFORE_DISPATCH, _S.RESENDS, True, _EARLY, _ONCE),
    # Its webhook is there before the hold is: it waits for it, and whoever asks then is not permitted to send.
    (_B.AFTER_ACCEPTANCE, _S.SENDS_FIRST, False, _EARLY, _ONCE),
    (_B.AFTER_ACCEPTANCE, _S.SENDS_FIRST, True, _EARLY, _ONCE),
    (_B.AFTER_ACCEPTANCE, _S.RESENDS, True, _WEBHOOK_TWICE, _TWICE),
)


def cases() -> tuple[Case, ...]:
    """Every case, boundary by boundary, and then those at other providers."""
    everywhere = [
        Case(boundary, style, killed, Modes(), expected)
        for boundary, *of_each in _EVERYWHERE
        for (style, killed), expected in zip(
            ((_S.GUARDED, False), (_S.GUARDED, True), (_S.RESENDS, False), (_S.RESENDS, True)), of_each, strict=True
        )
    ]
    return (*everywhere, *(Case(*given) for given in _AT_OTHER_PROVIDERS))
