"""The desk on which a batch is decided: what was loaded, what is decided so far, and the journal between them."""

from dataclasses import replace
from datetime import UTC, datetime, tzinfo
from typing import Any

from ledger.domain.batch import Decision, Loaded, Outcome
from ledger.domain.cards import PriceCard
from ledger.domain.commands import Command
from ledger.domain.journal import Journal
from ledger.domain.model import Budget, Grant, Hold
from ledger.domain.periods import Schedule
from ledger.domain.policies import BUILT_IN, EvidencePolicy
from ledger.domain.refusals import Reason, Refusal


class Work:
    """One batch. What an earlier command of the batch created is there for a later one."""

    def __init__(self, loaded: Loaded) -> None:
        self.loaded = loaded
        self.decision = Decision()
        self.journal = Journal(loaded, self.decision)
        self.budgets: dict[tuple[str, str], Budget] = dict(loaded.budgets)
        self.newest: dict[tuple[str, str], str] = dict(loaded.newest)
        self.closed: set[tuple[str, str]] = set(loaded.closed_budgets)
        self.cards: dict[tuple[str, str, int], PriceCard] = dict(loaded.cards)
        self.policies: dict[tuple[str, str], EvidencePolicy] = dict(loaded.policies)
        self.exclusive: dict[tuple[str, str], str] = dict(loaded.exclusive)
        self.grants: dict[tuple[str, str, str], Grant] = dict(loaded.grants)
        self.waiting: dict[str, int] = dict(loaded.waiting)
        self.bound: dict[tuple[str, str, str], str] = dict(loaded.bound)

    def policy(self, hold: Hold) -> EvidencePolicy:
        """The newest policy about evidence of calls to the hold's provider."""
        return self.policies.get((hold.tenant, hold.quote.provider), BUILT_IN)

    @property
    def now(self) -> datetime:
        return self.loaded.now

    def clocks(self, schedule: Schedule) -> tzinfo:
        """The clocks by which a schedule goes."""
        return self.loaded.zones[schedule.zone] if schedule.zone else UTC

    def change(self, hold: Hold, **changes: Any) -> Hold:
        """The hold with the changes, one version on, to be written."""
        changed = hold._replace(updated_at=self.now, version=hold.version + 1, **changes)
        if changed.provider_receipt is not None:
            self.bind(changed, changed.provider_receipt)
        self.decision.holds[(hold.tenant, hold.operation_id)] = changed
        return changed

    def bind(self, hold: Hold, receipt: str) -> None:
        """What a later command of the batch is told: the hold's operation has this receipt of its provider."""
        self.bound[(hold.tenant, hold.quote.provider, receipt)] = hold.operation_id

    def put(self, budget: Budget) -> Budget:
        """A budget as it is now, to be written."""
        key = (budget.tenant, budget.budget_id)
        self.budgets[key] = self.decision.budgets[key] = budget
        return budget

    def change_budget(self, budget: Budget, **changes: Any) -> Budget:
        """The budget with the changes, one version on, to be written."""
        # One that the batch itself changed before is written once, and is one version on from what was loaded.
        loaded = self.loaded.budgets.get((budget.tenant, budget.budget_id))
        version = 1 if loaded is None else loaded.version + 1
        return self.put(replace(budget, version=version, **changes))


def refuse(reason: Reason, message: str, **metadata: str) -> Outcome:
    """An outcome that refuses."""
    return Outcome(refusal=Refusal(reason, message, metadata), applied=False)


def of_newer_version(used: str, version: int, **metadata: str) -> Outcome:
    """The refusal to compare with a request whose fingerprint a newer server made; a mismatch would invite a new intent."""
    return refuse(
        Reason.UNKNOWN_WRITE_OUTCOME,
        f"{used} by a newer version of the service, and this one cannot tell for which request: ask again with the same key, at a"
        " server of the newer version.",
        **metadata,
        fingerprint_version=str(version),
        recovery_action="retry_same_key",
    )


def no_hold(command: Command) -> Outcome:
    operation_id = getattr(command, "operation_id", "")
    return refuse(
        Reason.NOT_FOUND,
        f"There is no hold for operation {operation_id!r}.",
        field="operation_id",
        operation_id=operation_id,
    )
