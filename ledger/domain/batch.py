"""What a batch of commands is decided on, and what it decides."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, tzinfo
from typing import Any, NamedTuple
from uuid import UUID

from ledger.domain.cards import PriceCard
from ledger.domain.invocations import Receipt, RefusedCommand
from ledger.domain.model import (
    Book,
    Budget,
    Entry,
    Evidence,
    Grant,
    Hold,
    Incident,
    Observation,
    Posting,
    Resolution,
    SeenFact,
)
from ledger.domain.permission import Denial, Stopped
from ledger.domain.policies import EvidencePolicy
from ledger.domain.refusals import Refusal
from ledger.domain.thresholds import Crossing
from ledger.domain.waiting import Parked, Sign


class StaleRows(Exception):
    """The rows were read before another transaction committed what a receipt read after it speaks of: load them again."""


class NotLoaded(Exception):
    """An earlier command of the batch changed the tree, and a later one needs a book of the new path: decide them apart."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """The rows that a batch of commands needs, as they stand under the locks.

    `holds` and `books` are locked. `budgets` holds every budget of every named chain, and all that is below a budget which is to
    be moved, keyed (tenant, budget_id), as they are under the locks of their books. `newest` names by the same key the book of the
    period that is open, of each of the budgets and of those whose period a hold outlived: of those that are locked it is so under
    the locks, of the others as far as the process knew.
    `zones` are the clocks of the time zones that budgets and commands name. `closed_budgets` are those on the paths of
    holds to be dispatched that are closed (a dispatch posts nothing, and locks no book). `cards` is keyed by
    (tenant, card_id, version), with version 0 for the newest. `exclusive` says which open hold has an exclusive key.
    `policies` are the newest about evidence, keyed (tenant, provider); a provider without one has the built-in policy.
    `bound` says which operation has a provider's receipt, by (tenant, provider, receipt). `facts` are those that commands bring
    again to holds which were reported before, keyed (tenant, operation_id, fact). `stripe` chooses the stripe of the financial
    book. `ended` has the hashes of the nonces of attempts that failed, of holds that have more than one and may begin the next.
    `resolutions` has all revisions of a hold, the first one first, where needs.needs_resolutions says so. `signs` are those
    of operations that are about to be reserved, sent, freed or reported without a hold; `parked` is the evidence that is to be
    filed, locked; `waiting` is how much evidence is parked of each tenant that parks.
    """

    now: datetime
    new_id: Callable[[], UUID]
    stripe: int = 0
    holds: Mapping[tuple[str, str], Hold] = field(default_factory=dict)
    books: Mapping[tuple[str, str], Book] = field(default_factory=dict)
    closed_budgets: frozenset[tuple[str, str]] = frozenset()
    budgets: Mapping[tuple[str, str], Budget] = field(default_factory=dict)
    newest: Mapping[tuple[str, str], str] = field(default_factory=dict)
    zones: Mapping[str, tzinfo] = field(default_factory=dict)
    cards: Mapping[tuple[str, str, int], PriceCard] = field(default_factory=dict)
    receipts: Mapping[tuple[str, str, str, str], Receipt] = field(default_factory=dict)
    exclusive: Mapping[tuple[str, str], str] = field(default_factory=dict)
    grants: Mapping[tuple[str, str, str], Grant] = field(default_factory=dict)
    bound: Mapping[tuple[str, str, str], str] = field(default_factory=dict)
    ended: Mapping[tuple[str, str], Collection[bytes]] = field(default_factory=dict)
    resolutions: Mapping[tuple[str, str], Sequence[Resolution]] = field(default_factory=dict)
    policies: Mapping[tuple[str, str], EvidencePolicy] = field(default_factory=dict)
    facts: Mapping[tuple[str, str, bytes], SeenFact] = field(default_factory=dict)
    signs: Mapping[tuple[str, str], Sequence[Sign]] = field(default_factory=dict)
    parked: Mapping[tuple[str, str, UUID], Parked] = field(default_factory=dict)
    waiting: Mapping[str, int] = field(default_factory=dict)


class Outcome(NamedTuple):
    """The answer to one command: a refusal, or the resource as it is now. `book` is as it was at `as_of`.

    `parked`: there is no hold yet, and the evidence is kept for it.
    `denial` says why the permission to send was asked for and not given, `stopped` what a Cancel ended, `may_continue` that the
    attempt which sent a heartbeat may go on.
    `superseded_by` is the digest in force, if what the command says was in force once and is no longer.
    """

    refusal: Refusal | None = None
    hold: Hold | None = None
    budget: Budget | None = None
    book: Book | None = None
    as_of: datetime | None = None
    card: PriceCard | None = None
    policy: EvidencePolicy | None = None
    replayed: bool = False
    applied: bool = True
    may_send: bool = False
    matched_by_operation: bool = False
    incident_id: UUID | None = None
    parked: bool = False
    denial: Denial | None = None
    stopped: Stopped | None = None
    may_continue: bool = False
    superseded_by: bytes | None = None


@dataclass(slots=True)
class Decision:
    """One outcome per command, in their order, and the rows to write. Holds, books and budgets are given as they are afterwards.

    `unparked` are the keys of what waits no longer.
    `events` says what changed, by tenant (ledger.domain.events).
    """

    outcomes: list[Outcome] = field(default_factory=list)
    holds: dict[tuple[str, str], Hold] = field(default_factory=dict)
    books: dict[tuple[str, str], Book] = field(default_factory=dict)
    entries: list[Entry] = field(default_factory=list)
    postings: list[Posting] = field(default_factory=list)
    receipts: list[Receipt] = field(default_factory=list)
    refused: list[RefusedCommand] = field(default_factory=list)
    evidence: list[Evidence] = field(default_factory=list)
    observations: list[Observation] = field(default_factory=list)
    resolutions: list[Resolution] = field(default_factory=list)
    incidents: list[Incident] = field(default_factory=list)
    budgets: dict[tuple[str, str], Budget] = field(default_factory=dict)
    grants: list[Grant] = field(default_factory=list)
    cards: list[PriceCard] = field(default_factory=list)
    policies: list[EvidencePolicy] = field(default_factory=list)
    parked: list[Parked] = field(default_factory=list)
    unparked: list[tuple[str, str, UUID]] = field(default_factory=list)
    crossings: list[Crossing] = field(default_factory=list)
    events: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
