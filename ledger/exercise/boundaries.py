"""Where a call is broken, who makes it, and how its provider behaves."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Boundary(StrEnum):
    """A step of a call. A caller that is stopped there has done all that is before it, and nothing after it."""

    BEFORE_DISPATCH = "before dispatch"
    AFTER_DISPATCH = "after dispatch"
    AFTER_ACCEPTANCE = "after acceptance"
    AFTER_RECEIPT = "after the receipt"
    FINALISING = "during finalisation"
    PROVED_UNSENT = "control: nothing was sent"


# What is true when a caller stops there, and what therefore must be true in the end.
MEANING: Final = {
    Boundary.BEFORE_DISPATCH: "Money is set aside, nobody may send yet: free to begin again.",
    Boundary.AFTER_DISPATCH: "The dispatch is durable, nothing was sent. Nobody else can know that: not free.",
    Boundary.AFTER_ACCEPTANCE: "The provider has accepted and charges. The caller has seen a status, and no id.",
    Boundary.AFTER_RECEIPT: "The provider's id of the call is recorded, its usage was not read.",
    Boundary.FINALISING: "The settlement is durable, and its answer is lost on the way to the caller.",
    Boundary.PROVED_UNSENT: "The connection was refused, which the caller knows: free to begin again.",
}


class Style(StrEnum):
    """What a caller does after a fault."""

    GUARDED = "guarded"
    """Asks the ledger whether it may send, looks for evidence if it may not, and never sends again."""
    RESENDS = "blind resend"
    """Sends again, whatever the ledger would say."""
    ANEW = "blind, new name"
    """Sends again as another operation, under a hold of its own."""
    SENDS_FIRST = "sends, then asks"
    """Sends before it has told the ledger anything, and is guarded from then on."""


@dataclass(frozen=True, slots=True)
class Modes:
    """How a provider behaves."""

    idempotent: bool = False
    """A second request with the same key is answered with the first one, and not executed."""
    look_up: bool = True
    """It tells which requests of a key it accepted."""
    usage_seconds: float = 0.0
    """How long after the acceptance the usage is there, in the answer or in a look-up."""
    webhooks: int = 0
    """How often it sends the webhook of one acceptance."""
    early: bool = False
    """Its webhooks come before its answer."""
    loses: int = 0
    """Every so many-th answer is lost: the connection is closed in its place. 0: none."""

    def __str__(self) -> str:
        words = [
            "idempotency" if self.idempotent else "",
            "" if self.look_up else "no look-up",
            "usage comes later" if self.usage_seconds else "",
            {0: "", 1: "webhook"}.get(self.webhooks, f"webhook x{self.webhooks}"),
            "early" if self.early else "",
        ]
        return ", ".join(filter(None, words))
