"""What can be asked of the ledger. Every command is validated when it is built by the service, and knows its fingerprint.

The fingerprint is SHA-256 over the canonical content without the key: the same key with another fingerprint is refused.
"""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any, ClassVar, Final, TypeAlias, get_args
from uuid import UUID

from ledger.domain.attempt_commands import (
    Cancel,
    Heartbeat,
    RecordDelivery,
    RecordFailedBeforeDispatch,
    RecordReceipt,
    hash_of,
)
from ledger.domain.budget_commands import CloseBudget, MoveBudget, UpdateBudget
from ledger.domain.claims import Claim
from ledger.domain.document_commands import PutEvidencePolicy, PutPriceCard
from ledger.domain.invocations import Receipt
from ledger.domain.keyed import OnBudget, OnHold
from ledger.domain.money import ZERO, plain
from ledger.domain.periods import NO_PERIODS, NO_ROLLOVER, Rollover, Schedule
from ledger.domain.quotes import QuoteKind, QuoteSpec
from ledger.domain.thresholds import DEFAULT_THRESHOLDS, Thresholds


@dataclass(frozen=True, slots=True)
class Dispatch:
    """Who will send, and for how long the attempt may run. The nonce is kept only as its SHA-256."""

    nonce: str = field(repr=False)
    lease: timedelta
    executor: str

    @property
    def nonce_hash(self) -> bytes:
        return hash_of(self.nonce)


@dataclass(frozen=True, slots=True)
class Reserve(OnHold):
    """Set money aside on every level above the named budgets. With `dispatch` the hold is born DISPATCHING."""

    NAME: ClassVar[str] = "Reserve"

    budget_ids: tuple[str, ...]
    quote: QuoteSpec
    ttl: timedelta
    labels: tuple[tuple[str, str], ...] = ()
    exclusive_key: str | None = None
    request_group: str | None = None
    dispatch: Dispatch | None = None

    def content(self) -> dict[str, Any]:
        q = self.quote
        quoted: list[Any] = [q.kind.value, plain(q.tolerance), q.provider, q.model]
        if q.kind is QuoteKind.FIXED:
            quoted += [plain(q.amount), q.currency, q.reason]
        else:
            quoted += [q.card_id, str(q.card_version), q.service_tier, q.region, q.api_flavor]
            quoted += [[group, str(ceiling)] for group, ceiling in q.ceilings]
            if q.choices != 1:
                quoted.append(str(q.choices))
        return {
            "operation": self.operation_id,
            "budgets": self.budget_ids,
            "quote": quoted,
            "ttl": str(self.ttl),
            "labels": self.labels,
            "exclusive": self.exclusive_key,
            "group": self.request_group,
            # The nonce is compared on its own: the same request from another process is a replay, without the permission to send.
            "dispatch": None if self.dispatch is None else str(self.dispatch.lease),
        }


@dataclass(frozen=True, slots=True)
class BeginDispatch(OnHold):
    """Ask for the permission to send."""

    NAME: ClassVar[str] = "BeginDispatch"

    dispatch: Dispatch

    def content(self) -> dict[str, Any]:
        return {"operation": self.operation_id, "lease": str(self.dispatch.lease)}


@dataclass(frozen=True, slots=True)
class MarkOutcomeUnknown(OnHold):
    """Say that nobody here knows what became of the call."""

    NAME: ClassVar[str] = "MarkOutcomeUnknown"

    observation: str

    def content(self) -> dict[str, Any]:
        return {"operation": self.operation_id, "observation": self.observation}


@dataclass(frozen=True, slots=True)
class Release(OnHold):
    """Give the money back without evidence: only while RESERVED."""

    NAME: ClassVar[str] = "Release"

    def content(self) -> dict[str, Any]:
        return {"operation": self.operation_id}


@dataclass(frozen=True, slots=True)
class Lapse(OnHold):
    """The service's own: what follows when a hold's time or an attempt's lease has run out."""

    NAME: ClassVar[str] = "Lapse"

    def content(self) -> dict[str, Any]:
        return {"operation": self.operation_id}


@dataclass(frozen=True, slots=True)
class VerifyWrite(OnHold):
    """Hold a claim against the hold, or (a receipt never changes) against what a key did. It changes nothing and claims no key."""

    NAME: ClassVar[str] = "VerifyWrite"

    claim: Claim
    receipt: Receipt | None = None

    def content(self) -> dict[str, Any]:
        return {"operation": self.operation_id, "claim": self.claim.content()}


@dataclass(frozen=True, slots=True)
class Usage:
    """Usage as observed, in disjoint buckets, with its provenance.

    `model` and `service_tier` are as the caller stated them, '' if it did not. `document` is the usage object as the provider
    sent it, if it did. Then `buckets`, `read_model` and `read_tier` are what was read from it, and `defects` says what kept it
    from being read in full (a billable field that is absent, a negative bucket). `charged` is the amount, for a FIXED quote.
    `payload_digest` is of the provider's whole answer, which the ledger never sees; it is provenance, and no part of the content.
    """

    source: str
    provider: str
    model: str
    service_tier: str
    adapter: str
    adapter_revision: str
    buckets: tuple[tuple[str, int], ...] = ()
    charged: Decimal | None = None
    charged_currency: str = ""
    document: str = ""
    flavor: str = ""
    defects: tuple[str, ...] = ()
    provider_receipt: str | None = None
    response_id: str = ""
    observed_at: datetime | None = None
    read_model: str = ""
    read_tier: str = ""
    payload_digest: bytes | None = None

    @property
    def served_model(self) -> str:
        return self.model or self.read_model

    @property
    def served_tier(self) -> str:
        return self.service_tier or self.read_tier

    def content(self) -> dict[str, Any]:
        """What the caller said, as JSON; numbers as strings.

        Nothing that was read from a document is part of it: a later release may read more, and a repeat is a repeat. Nor is
        when it was seen, and by which release of whose adapter.
        """
        content: dict[str, Any] = {
            "source": self.source,
            "provider": self.provider,
            "model": self.model,
            "tier": self.service_tier,
        }
        if self.document:
            content["document"] = self.document
            content["flavor"] = self.flavor
        elif self.charged is None:
            content["buckets"] = self._quantities()
        if self.charged is not None:
            content["charged"] = [plain(self.charged), self.charged_currency]
        if self.response_id:
            content["response_id"] = self.response_id
        return content

    def body(self) -> dict[str, Any]:
        """The observation as it is kept: with what was read, so that anyone can price it again."""
        body: dict[str, Any] = {
            "provider": self.provider,
            "model": self.served_model,
            "tier": self.served_tier,
        }
        if self.charged is None:
            body["buckets"] = self._quantities()
        else:
            body["charged"] = [plain(self.charged), self.charged_currency]
        if self.document:
            body["document"] = self.document
            body["flavor"] = self.flavor
            body["stated"] = [self.model, self.service_tier]
        if self.response_id:
            body["response_id"] = self.response_id
        return body

    def _quantities(self) -> dict[str, str]:
        return {bucket: str(quantity) for bucket, quantity in self.buckets}


@dataclass(frozen=True, slots=True)
class NoCostProof:
    """A typed proof that the call cost nothing. kind: NEVER_SENT, REJECTED_BEFORE_EXECUTION, GATEWAY_CACHE_HIT.

    The nonce, empty if it was not given, shows that the attempt is the caller's own. It is no part of the content: only its
    hash is compared, and nothing of it is kept.
    """

    kind: str
    adapter: str
    adapter_revision: str
    cause: str = ""
    provider_status: int = 0
    provider_request_id: str = ""
    observed_at: datetime | None = None
    nonce: str = field(default="", repr=False)
    payload_digest: bytes | None = None

    @property
    def nonce_hash(self) -> bytes:
        return hash_of(self.nonce)

    def content(self) -> dict[str, Any]:
        """What the caller said, as JSON, which is also what is kept."""
        return {
            "kind": self.kind,
            "cause": self.cause,
            "status": str(self.provider_status),
            "request_id": self.provider_request_id,
        }

    def body(self) -> dict[str, Any]:
        return self.content()


@dataclass(frozen=True, slots=True)
class Resolve(OnHold):
    """Settle the hold on evidence. `attempt` 0 is the latest."""

    NAME: ClassVar[str] = "Resolve"

    evidence: Usage | NoCostProof
    attempt: int = 0
    accept_overrun_reason: str = ""

    def content(self) -> dict[str, Any]:
        return {
            "operation": self.operation_id,
            "attempt": str(self.attempt),
            "receipt": self.evidence.provider_receipt if isinstance(self.evidence, Usage) else None,
            "evidence": self.evidence.content(),
            "accept_overrun": self.accept_overrun_reason,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class FileParked(Resolve):
    """The service's own: file parked evidence in the name of who brought it, or open a case if its hold did not come in time.

    `evidence_id` is that of the parked evidence, `patience` how long it waits for a hold.
    """

    NAME: ClassVar[str] = "FileParked"

    evidence_id: UUID
    patience: timedelta

    @property
    def parked_key(self) -> tuple[str, str, UUID]:
        return (self.caller.tenant, self.operation_id, self.evidence_id)


@dataclass(frozen=True, slots=True)
class Correct(OnHold):
    """Replace the resolution in force of a hold that has ended by one on other evidence."""

    NAME: ClassVar[str] = "Correct"

    digest_in_force: bytes
    evidence: Usage | NoCostProof
    reason: str
    attempt: int = 0
    accept_overrun_reason: str = ""

    def content(self) -> dict[str, Any]:
        return {
            "operation": self.operation_id,
            "in_force": self.digest_in_force.hex(),
            "attempt": str(self.attempt),
            "receipt": self.evidence.provider_receipt if isinstance(self.evidence, Usage) else None,
            "evidence": self.evidence.content(),
            "reason": self.reason,
            "accept_overrun": self.accept_overrun_reason,
        }


@dataclass(frozen=True, slots=True)
class CreateBudget(OnBudget):
    """Add a node to the tree. Its fields are named, and mean, what those of Budget do."""

    NAME: ClassVar[str] = "CreateBudget"

    parent_id: str | None
    currency: str
    display_name: str
    limit: Decimal | None
    max_hold: Decimal | None = None
    max_open_holds: int | None = None
    credit_line: Decimal = ZERO
    schedule: Schedule = NO_PERIODS
    rollover: Rollover = NO_ROLLOVER
    thresholds: Thresholds = DEFAULT_THRESHOLDS

    def content(self) -> dict[str, Any]:
        content: dict[str, Any] = {
            "budget": self.budget_id,
            "parent": self.parent_id,
            "currency": self.currency,
            "name": self.display_name,
            "limit": None if self.limit is None else plain(self.limit),
        }
        if self.max_hold is not None:
            content["max_hold"] = plain(self.max_hold)
        if self.max_open_holds is not None:
            content["max_open_holds"] = str(self.max_open_holds)
        if self.credit_line:
            content["credit_line"] = plain(self.credit_line)
        if self.schedule != NO_PERIODS:
            content["schedule"] = self.schedule.content()
        if self.rollover != NO_ROLLOVER:
            content["rollover"] = self.rollover.content()
        if self.thresholds != DEFAULT_THRESHOLDS:
            content["thresholds"] = self.thresholds.content()
        return content


@dataclass(frozen=True, slots=True)
class GrantBudget(OnBudget):
    """Add money to a budget, once per reference."""

    NAME: ClassVar[str] = "GrantBudget"

    amount: Decimal
    currency: str
    reference: str

    def content(self) -> dict[str, Any]:
        return {
            "budget": self.budget_id,
            "amount": plain(self.amount),
            "currency": self.currency,
            "reference": self.reference,
        }


Report: TypeAlias = Resolve | Correct
HoldCommand: TypeAlias = (
    Reserve
    | BeginDispatch
    | MarkOutcomeUnknown
    | Release
    | Resolve
    | FileParked
    | Correct
    | Lapse
    | Heartbeat
    | RecordFailedBeforeDispatch
    | Cancel
    | RecordReceipt
    | RecordDelivery
    | VerifyWrite
)
BudgetCommand: TypeAlias = CreateBudget | GrantBudget | UpdateBudget | CloseBudget | MoveBudget
Command: TypeAlias = HoldCommand | BudgetCommand | PutPriceCard | PutEvidencePolicy
# Those about one hold, and those that claim keys, by name.
ON_HOLDS: Final = frozenset(c.NAME for c in get_args(HoldCommand))
COMMANDS: Final = tuple(sorted(c.NAME for c in get_args(Command) if c.NAME != VerifyWrite.NAME))
