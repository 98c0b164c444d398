"""A naive model of budgets and holds.

It knows only sums: what is used of a budget is what is held for open holds and what was spent on settled ones. Available is what
the limit leaves, deficit what it does not.
"""

from dataclasses import dataclass, field
from decimal import Decimal

from hypothesis import strategies as st

from ledger.v1 import hold_pb2

OPEN = {"RESERVED", "DISPATCHING", "OUTCOME_UNKNOWN"}
BUDGETS = {"org": None, "team": "org", "user": "team", "free": None}
CHAINS = {"org": {"org"}, "team": {"org", "team"}, "user": {"org", "team", "user"}, "free": {"free"}}


@dataclass
class ModelHold:
    amount: Decimal
    tolerance: Decimal
    levels: set[str]
    request: hold_pb2.ReserveRequest
    state: str = "RESERVED"
    nonce: str = ""
    settled: Decimal = Decimal(0)
    kind: str = ""
    receipt: str = ""
    executed: bool = False
    attempted: bool = False
    # What it was resolved on before, as (kind, amount): an end that was corrected.
    facts: list[tuple[str, Decimal]] = field(default_factory=list)
    # Attempts that were given the permission to send; whether the latest failed before anything was sent; the keys that asked.
    attempts: int = 0
    failed: bool = False
    keys: set[str] = field(default_factory=set)

    @property
    def seen(self) -> bool:
        """Whether somebody reported that the call was made."""
        return self.executed or self.receipt != ""


class NaiveModel:
    """What is expected of the ledger."""

    def __init__(self) -> None:
        super().__init__()
        self.limits: dict[str, Decimal | None] = {}
        self.holds: dict[str, ModelHold] = {}
        self.incidents: set[tuple[str, str]] = set()
        # Which hold has a receipt that was recorded.
        self.bound: dict[str, str] = {}
        # Evidence that waits for its hold: what it cost, and the provider's receipt. And all operations that began so.
        self.parked: dict[str, tuple[Decimal, str]] = {}
        self.early: list[str] = []

    def used(self, level: str) -> Decimal:
        mine = [h for h in self.holds.values() if level in h.levels]
        return sum((h.amount for h in mine if h.state in OPEN), Decimal(0)) + sum((h.settled for h in mine), Decimal(0))

    def room(self, level: str) -> Decimal | None:
        limit = self.limits[level]
        return None if limit is None else max(limit - self.used(level), Decimal(0))

    def some_hold(self, data: st.DataObject, *states: str) -> str:
        """One of the holds in these states; of all holds an open one more often, for a closed one has little left to live."""
        names = [name for name, h in self.holds.items() if not states or h.state in states]
        alive = [name for name in names if self.holds[name].state in OPEN]
        prefer_alive: bool = data.draw(st.sampled_from([True, True, True, False]))
        name: str = data.draw(st.sampled_from(alive if alive and prefer_alive else names))
        return name

    def superseded(self, name: str, kind: str, amount: Decimal) -> bool:
        """Whether this was what the hold had been resolved on, before a correction."""
        hold = self.holds[name]
        return (kind, amount) != (hold.kind, hold.settled) and (kind, amount) in hold.facts

    def accepted_twice(self, name: str, receipt: str) -> bool:
        """Whether this receipt is a second one, which is an incident."""
        twice = receipt != "" and self.holds[name].receipt not in {"", receipt}
        self.incidents |= {(name, receipt)} if twice else set()
        return twice

    def brings(self, name: str, receipt: str, *, kept: bool = True) -> bool:
        """Whether the receipt of evidence is an incident: a second one, or one that another hold has. Else it is the hold's."""
        hold = self.holds[name]
        if receipt in {"", hold.receipt}:
            return False
        owner = self.bound.get(receipt) or next((n for n, h in self.holds.items() if h.receipt == receipt), name)
        if owner != name:
            self.incidents.add((name, f"receipt {receipt} of another"))
            return True
        twice = self.accepted_twice(name, receipt)
        if kept and not twice:
            hold.receipt = receipt
        return twice
