"""The rows of the ledger, as the rules see them."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from enum import StrEnum
from typing import Any, NamedTuple
from uuid import UUID

from ledger.domain.money import ZERO
from ledger.domain.periods import NO_PERIODS, NO_ROLLOVER, Rollover, Schedule
from ledger.domain.quotes import Quote
from ledger.domain.states import HoldState, ResolutionKind
from ledger.domain.thresholds import DEFAULT_THRESHOLDS, NO_THRESHOLDS, Thresholds


class Role(StrEnum):
    """What a caller may do. SYSTEM is the service's own background work and cannot be given to a token."""

    GATEWAY = "gateway"
    FINANCE = "finance"
    AUDITOR = "auditor"
    ADMIN = "admin"
    SYSTEM = "system"


class Account(StrEnum):
    """The accounts of a book. The first six are a budget's, the last two the financial book's."""

    AUTHORITY = "AUTHORITY"
    AVAILABLE = "AVAILABLE"
    HELD = "HELD"
    UNKNOWN = "UNKNOWN"
    SPENT = "SPENT"
    DEFICIT = "DEFICIT"
    EXPENSE = "EXPENSE"
    PAYABLE = "PAYABLE"


DEBIT_NORMAL = frozenset({Account.AUTHORITY, Account.DEFICIT, Account.EXPENSE})


class EntryKind(StrEnum):
    OPEN = "OPEN"
    GRANT = "GRANT"
    RESERVE = "RESERVE"
    RELEASE = "RELEASE"
    OUTCOME_UNKNOWN = "OUTCOME_UNKNOWN"
    SETTLE = "SETTLE"
    CORRECT = "CORRECT"
    LIMIT = "LIMIT"
    ROLLOVER = "ROLLOVER"


class Classification(StrEnum):
    """What became of an observation.

    AUTHORITATIVE resolved the hold; CORROBORATING says again what is known, or may not settle by the policy; ESTIMATE is a
    gateway's own count; REJECTED cannot be right or is not about this call; CONFLICTING came after the end with other facts;
    PARKED came before there was a hold, and is kept again with what became of it.
    """

    AUTHORITATIVE = "AUTHORITATIVE"
    CORROBORATING = "CORROBORATING"
    ESTIMATE = "ESTIMATE"
    REJECTED = "REJECTED"
    CONFLICTING = "CONFLICTING"
    PARKED = "PARKED"


class Caller(NamedTuple):
    """Who asks: a service principal of one tenant."""

    tenant: str
    actor: str
    role: Role


@dataclass(frozen=True, slots=True)
class Budget:
    """A node of the tree. `path` is the chain from the root to this budget, both included.

    `limit` is per period; None is unlimited, 0 is nothing. `credit_line` is how far below zero AVAILABLE may go. `schedule` says
    where the period that is running ends only if it was in force when that was opened. `max_hold` is the most that one hold may
    set aside, `max_open_holds` how many may be open at a time; None is no cap. A budget with `closed_at` is closed for good.
    `version` grows by one with each change.
    """

    tenant: str
    budget_id: str
    path: tuple[str, ...]
    currency: str
    display_name: str
    limit: Decimal | None
    created_at: datetime
    max_hold: Decimal | None = None
    max_open_holds: int | None = None
    closed_at: datetime | None = None
    version: int = 1
    credit_line: Decimal = ZERO
    schedule: Schedule = NO_PERIODS
    rollover: Rollover = NO_ROLLOVER
    thresholds: Thresholds = DEFAULT_THRESHOLDS

    @property
    def parent_id(self) -> str | None:
        return self.path[-2] if len(self.path) > 1 else None

    @property
    def floor(self) -> Decimal | None:
        """How low AVAILABLE may go, None without a bound."""
        if self.limit is None:
            return None
        return -self.credit_line if self.credit_line else ZERO


@dataclass(frozen=True, slots=True)
class Book:
    """The balances of one budget and period, or of one stripe of the financial book, each on its normal side.

    `version` is the number of postings; `floor` is how low AVAILABLE may go, None without a bound; `open_holds` counts the holds
    that have the book on their path and are not terminal, those of amount 0 among them.
    authority + deficit = available + held + unknown + spent, and expense = payable. A budget's book has a `budget_id`, a
    stripe of the financial book has `provider` and `model`.

    `closed` says that the period is over and a later one open: of a budget's books one is not closed. `rollover` of that one is
    the budget's, for commands that do not know the budget; `carried` is what was carried into the period, `carried_on` what has
    been carried on out of it since it ended. Each is below zero if it was missing.
    `thresholds` of that one are the budget's too; `crossed` are the percents that were crossed in the period, in their order.
    """

    tenant: str
    book_id: str
    budget_id: str | None
    currency: str
    floor: Decimal | None
    provider: str | None = None
    model: str | None = None
    closed: bool = False
    version: int = 0
    open_holds: int = 0
    authority: Decimal = ZERO
    available: Decimal = ZERO
    held: Decimal = ZERO
    unknown: Decimal = ZERO
    spent: Decimal = ZERO
    deficit: Decimal = ZERO
    expense: Decimal = ZERO
    payable: Decimal = ZERO
    period_start: datetime | None = None
    period_end: datetime | None = None
    rollover: Rollover = NO_ROLLOVER
    carried: Decimal = ZERO
    carried_on: Decimal = ZERO
    thresholds: Thresholds = NO_THRESHOLDS
    crossed: tuple[int, ...] = ()

    @property
    def allowance(self) -> Decimal:
        """What the period had to spend: AUTHORITY, and what has been carried on since."""
        return self.authority + self.carried_on

    def is_over(self, now: datetime) -> bool:
        """Whether the period has ended, although no later one may be open yet."""
        return self.period_end is not None and self.period_end <= now


class Hold(NamedTuple):
    """Money set aside for one operation, its latest attempt, and its resolution in force.

    `books` is the path: one book per level, resolved once at the reserve. `attempt` 0 means never dispatched. `inferred` says
    that no dispatch was recorded, `execution_seen` that usage of this call came in, whether or not it could settle the hold,
    `usage_seen` that it was more than a gateway's own count.
    A live attempt has nonce and lease. `failure` says how the latest attempt failed before anything was sent (its keys: attempt,
    cause, adapter, adapter_revision, and nonce, the hash of the ended permission); `retry_until` is how long its lease would
    have run. `dispatcher` is the actor who was given the permission.
    """

    tenant: str
    operation_id: str
    state: HoldState
    currency: str
    amount: Decimal
    quote: Quote
    budget_ids: tuple[str, ...]
    books: tuple[str, ...]
    labels: Mapping[str, str]
    actor: str
    fingerprint: bytes
    fingerprint_version: int
    created_at: datetime
    expire_at: datetime
    updated_at: datetime
    exclusive_key: str | None = None
    request_group: str | None = None
    attempt: int = 0
    generation: int = 0
    executor: str | None = None
    dispatcher: str | None = None
    nonce_hash: bytes | None = None
    dispatched_at: datetime | None = None
    lease_expires_at: datetime | None = None
    failure: Mapping[str, str] | None = None
    retry_until: datetime | None = None
    inferred: bool = False
    execution_seen: bool = False
    usage_seen: bool = False
    provider_receipt: str | None = None
    revision: int = 0
    resolution_kind: ResolutionKind | None = None
    resolution_digest: bytes | None = None
    settled: Decimal | None = None
    resolved_at: datetime | None = None
    version: int = 1

    @property
    def owner(self) -> bytes | None:
        """The hash of the nonce whose attempt this is or was, until it was cancelled."""
        return self.nonce_hash if self.failure is None else bytes.fromhex(self.failure["nonce"])

    @property
    def call_was_seen(self) -> bool:
        """Whether somebody reported usage or a receipt of the call: then it was sent, whatever else is said."""
        return self.execution_seen or self.provider_receipt is not None


class Entry(NamedTuple):
    """One journal entry; its labels are the hold's.

    `corrects` links a CORRECT entry to that of the latest earlier revision which posted one.
    """

    tenant: str
    entry_id: UUID
    kind: EntryKind
    currency: str
    recorded_at: datetime
    effective_at: datetime
    accounting_date: date
    operation_id: str | None
    actor: str
    corrects: UUID | None = None


class Posting(NamedTuple):
    """One line of an entry: debits positive, credits negative. `version` numbers the lines of a book without a gap."""

    tenant: str
    book_id: str
    version: int
    entry_id: UUID
    account: Account
    amount: Decimal


class Evidence(NamedTuple):
    """An observation with its provenance. Kept whether it settled the hold or not; `reasons` says why not.

    `policy` names the revision of the policy by which it was classified. `fact` is the identity of what was observed (see
    ledger.domain.evidence.fact_of), whatever can be read from it; `digest` is that of the resolution which it comes to, if it
    comes to one; `payload_digest` that of the answer in which it came. `body` is None where the hold has evidence with the same
    fact already, whose body it is; never of evidence that is AUTHORITATIVE.
    """

    tenant: str
    operation_id: str
    evidence_id: UUID
    attempt: int
    kind: ResolutionKind
    classification: Classification
    reasons: tuple[str, ...]
    source: str
    actor: str
    adapter: str
    adapter_revision: str
    policy: str
    observed_at: datetime | None
    received_at: datetime
    provider_receipt: str | None
    digest: bytes | None
    fact: bytes
    payload_digest: bytes | None
    body: Mapping[str, Any] | None


class SeenFact(NamedTuple):
    """A fact that was observed of a hold before: by whom first told, and the digest at which it resolved the hold, if it did."""

    source: str
    digest: bytes | None


class Axis(StrEnum):
    """What can be observed of a call beside its settlement. Neither says the other."""

    DELIVERY = "DELIVERY"
    EXECUTION = "EXECUTION"


class Delivery(StrEnum):
    """What the client received."""

    NOTHING = "NOTHING"
    PARTIAL = "PARTIAL"
    COMPLETE = "COMPLETE"
    UNKNOWN = "UNKNOWN"


class Execution(StrEnum):
    """What is established of the call at the provider."""

    NOT_SENT = "NOT_SENT"
    REJECTED = "REJECTED"
    ACCEPTED = "ACCEPTED"
    EXECUTED = "EXECUTED"
    UNKNOWN = "UNKNOWN"


class Observation(NamedTuple):
    """Something that was said of a call, and by whom. Moves no money; evidence and resolutions have rows of their own.

    `value` is a Delivery or an Execution. `source` is the command that brought it. A provider's receipt has `provider` too.
    """

    tenant: str
    operation_id: str
    observation_id: UUID
    axis: Axis
    value: str
    attempt: int
    source: str
    actor: str
    adapter: str
    adapter_revision: str
    observed_at: datetime | None
    received_at: datetime
    provider: str | None
    provider_receipt: str | None
    detail: Mapping[str, str]


class Resolution(NamedTuple):
    """A terminal fact. Revision 1 resolves the hold; a later one corrects it and names the digest that it replaces.

    `passed_ceilings` are the groups in which more was used than was quoted, within the amount. A flag, and no part of the digest.
    """

    tenant: str
    operation_id: str
    revision: int
    kind: ResolutionKind
    digest: bytes
    supersedes: bytes | None
    amount: Decimal
    currency: str
    cost_over_hold: Decimal
    lines: tuple[Mapping[str, str], ...]
    passed_ceilings: tuple[str, ...]
    evidence_id: UUID | None
    entry_id: UUID | None
    actor: str
    reason: str | None
    recorded_at: datetime


class Incident(NamedTuple):
    """Something that people must look at. kind: one of the contract's IncidentKind."""

    tenant: str
    incident_id: UUID
    kind: str
    operation_id: str
    opened_at: datetime
    detail: Mapping[str, str]


class Grant(NamedTuple):
    """Money added to a budget; unique by its reference."""

    tenant: str
    budget_id: str
    reference: str
    amount: Decimal
    entry_id: UUID
    actor: str
    recorded_at: datetime
