"""What a caller is told to do. It goes to the child on its standard input, because it holds a token."""

import json
from dataclasses import asdict, dataclass, field
from typing import Final

from ledger.exercise.boundaries import Boundary, Modes, Style

LEASE_SECONDS: Final = 1.0


@dataclass(frozen=True, slots=True)
class Plan:
    """One process of a caller. `boundary` None: it is not stopped anywhere. `recovers`: another process was there before it."""

    address: str
    token: str
    provider_url: str
    closed_url: str
    budget_id: str
    operation_id: str
    style: Style
    boundary: Boundary | None = None
    recovers: bool = False
    modes: Modes = field(default_factory=Modes)
    workers: int = 0
    """Above 0: a stream of guarded operations, so many at a time, until it is told to stop."""

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> "Plan":
        read = json.loads(text)
        boundary = read["boundary"] and Boundary(read["boundary"])
        return cls(**{**read, "style": Style(read["style"]), "boundary": boundary, "modes": Modes(**read["modes"])})
