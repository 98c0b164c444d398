"""A ledger to tell stories in: real commands, decided and saved in a real database."""

import itertools
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

from ledger.domain.attempt_commands import Cancel, RecordDelivery, RecordFailedBeforeDispatch, RecordReceipt
from ledger.domain.batch import Outcome
from ledger.domain.budget_commands import UpdateBudget
from ledger.domain.cards import PriceCard, Rate
from ledger.domain.commands import (
    BeginDispatch,
    Command,
    Correct,
    CreateBudget,
    Dispatch,
    GrantBudget,
    Lapse,
    MarkOutcomeUnknown,
    NoCostProof,
    Release,
    Reserve,
    Resolve,
    Usage,
)
from ledger.domain.decide import decide
from ledger.domain.document_commands import PutEvidencePolicy, PutPriceCard
from ledger.domain.filing import filing
from ledger.domain.model import Caller, Delivery, Role
from ledger.domain.periods import PeriodKind, Rollover, RolloverKind, Schedule
from ledger.domain.policies import BUILT_IN, EvidencePolicy
from ledger.domain.quotes import QuoteKind, QuoteSpec
from ledger.store.database import Database
from ledger.store.load import load
from ledger.store.read import get_hold, waited
from ledger.store.save import save

ZERO = Decimal(0)
_numbers = itertools.count(1)


def new_id() -> UUID:
    """An id that begins with the time, as the service's do."""
    return UUID(int=(time.time_ns() // 1_000_000 << 80) | (7 << 76) | (2 << 62) | next(_numbers))


@dataclass
class Ledger:
    """One tenant's commands over a database, each in a transaction of its own, each with a new key."""

    database: Database
    tenant: str = "acme"
    stripe: int = 0
    _keys: Iterable[int] = field(default_factory=itertools.count)

    def caller(self, role: Role = Role.GATEWAY) -> Caller:
        return Caller(self.tenant, f"{role.value}-1", role)

    def key(self) -> str:
        return f"key-{next(iter(self._keys))}"

    def do(self, *commands: Command) -> list[Outcome]:
        with self.database.transaction() as connection:
            loaded, _ = load(connection, commands, self.stripe, new_id)
            decision = decide(loaded, commands)
            save(connection, decision, loaded)
            connection.commit()
        return decision.outcomes

    def one(self, command: Command) -> Outcome:
        (outcome,) = self.do(command)
        return outcome

    def budget(
        self, budget_id: str, limit: str | None, parent: str | None = None, currency: str = "USD", **settings: Any
    ) -> Outcome:
        cap = None if limit is None else Decimal(limit)
        caller, key = self.caller(Role.ADMIN), self.key()
        return self.one(CreateBudget(caller, key, budget_id, parent, currency, budget_id.title(), cap, **settings))

    def update(self, budget_id: str, **settings: Any) -> Outcome:
        caller, key = self.caller(Role.ADMIN), self.key()
        return self.one(UpdateBudget(caller, key, budget_id, tuple(sorted(settings)), **settings))

    def grant(self, budget_id: str, amount: str, reference: str) -> Outcome:
        return self.one(
            GrantBudget(self.caller(Role.FINANCE), self.key(), budget_id, Decimal(amount), "USD", reference)
        )

    def card(self, card_id: str = "gpt", provider: str = "openai", price: str = "2", model: str = "gpt-x") -> Outcome:
        """Input at `price` for a million, output at four times as much."""
        rates = (
            Rate("input_tokens", "standard", 0, Decimal(price), 10**6),
            Rate("output_tokens", "standard", 0, 4 * Decimal(price), 10**6),
        )
        card = PriceCard(self.tenant, card_id, 0, provider, model, (), "USD", rates, 10**6, 10**5)
        return self.one(PutPriceCard(self.caller(Role.FINANCE), self.key(), card))

    def policy(self) -> Outcome:
        """About provider psp: what the built-in policy says, as the tenant's own."""
        policy = EvidencePolicy(self.tenant, "psp", 0, BUILT_IN.rules)
        return self.one(PutEvidencePolicy(self.caller(Role.FINANCE), self.key(), policy))

    def reserve(
        self,
        operation: str,
        amount: str,
        *budgets: str,
        dispatch: bool = False,
        tolerance: str = "0",
        group: str | None = None,
        exclusive: str | None = None,
        labels: tuple[tuple[str, str], ...] = (),
        ttl: timedelta = timedelta(minutes=15),
        lease: timedelta = timedelta(minutes=15),
    ) -> Outcome:
        """A FIXED quote at provider psp."""
        spec = QuoteSpec(
            QuoteKind.FIXED, Decimal(tolerance), amount=Decimal(amount), currency="USD", provider="psp", reason="refund"
        )
        return self._reserve(operation, spec, budgets, dispatch, group, exclusive, labels, ttl, lease)

    def reserve_tokens(self, operation: str, inputs: int, outputs: int, *budgets: str, card: str = "gpt") -> Outcome:
        """A METERED quote by the newest version of a card, dispatched at once."""
        ceilings = (("input_tokens", inputs), ("output_tokens", outputs))
        spec = QuoteSpec(QuoteKind.METERED, ZERO, card_id=card, ceilings=ceilings)
        quarter = timedelta(minutes=15)
        return self._reserve(operation, spec, budgets, True, None, None, (), quarter, quarter)

    def _reserve(
        self,
        operation: str,
        spec: QuoteSpec,
        budgets: tuple[str, ...],
        dispatch: bool,
        group: str | None,
        exclusive: str | None,
        labels: tuple[tuple[str, str], ...],
        ttl: timedelta,
        lease: timedelta,
    ) -> Outcome:
        begun = Dispatch("nonce-" + operation, lease, "worker") if dispatch else None
        return self.one(
            Reserve(
                self.caller(),
                self.key(),
                operation,
                budgets,
                spec,
                ttl,
                labels,
                exclusive,
                request_group=group,
                dispatch=begun,
            )
        )

    def dispatch(self, operation: str, lease: timedelta = timedelta(minutes=15)) -> Outcome:
        return self.one(
            BeginDispatch(self.caller(), self.key(), operation, Dispatch("nonce-" + operation, lease, "worker"))
        )

    def failed(self, operation: str) -> Outcome:
        """Nothing was sent, says the process that began the first attempt."""
        caller, nonce = self.caller(), "nonce-" + operation
        return self.one(
            RecordFailedBeforeDispatch(caller, self.key(), operation, nonce, "CONNECTION_REFUSED", "adapter", "1")
        )

    def retry(self, operation: str) -> Outcome:
        """The second attempt."""
        begun = Dispatch("nonce-2-" + operation, timedelta(minutes=15), "other worker")
        return self.one(BeginDispatch(self.caller(), self.key(), operation, begun))

    def cancel(self, operation: str) -> Outcome:
        return self.one(Cancel(self.caller(Role.FINANCE), self.key(), operation, "the customer left"))

    def receipt(self, operation: str, receipt: str) -> Outcome:
        return self.one(RecordReceipt(self.caller(), self.key(), operation, "psp", receipt, 0, "adapter", "1"))

    def delivery(self, operation: str, delivery: Delivery) -> Outcome:
        return self.one(RecordDelivery(self.caller(), self.key(), operation, delivery, 0, "adapter", "1"))

    def unknown(self, operation: str) -> Outcome:
        return self.one(MarkOutcomeUnknown(self.caller(), self.key(), operation, "timeout"))

    def release(self, operation: str) -> Outcome:
        return self.one(Release(self.caller(), self.key(), operation))

    def lapse(self, operation: str) -> Outcome:
        return self.one(Lapse(Caller(self.tenant, "system:expiry", Role.SYSTEM), self.key(), operation))

    def charge(self, operation: str, amount: str, receipt: str | None = None, accept: str = "") -> Outcome:
        """Settles a FIXED hold at what the provider's record says; finance may accept an overrun."""
        usage = Usage(
            "PROVIDER_RECORD", "psp", "", "", "adapter", "1",
            charged=Decimal(amount), charged_currency="USD", provider_receipt=receipt,
        )  # fmt: skip
        role = Role.FINANCE if accept else Role.GATEWAY
        return self.one(Resolve(self.caller(role), self.key(), operation, usage, accept_overrun_reason=accept))

    def tokens(self, operation: str, inputs: int, outputs: int) -> Outcome:
        """Settles a METERED hold on the usage in the provider's response."""
        return self.one(Resolve(self.caller(), self.key(), operation, _tokens(inputs, outputs)))

    def correct(self, operation: str, amount: str, accept: str = "") -> Outcome:
        """Replaces what a FIXED hold is resolved on by what a statement says."""
        usage = Usage(
            "STATEMENT", "psp", "", "", "adapter", "1", charged=Decimal(amount), charged_currency="USD"
        )  # fmt: skip
        return self._correct(operation, usage, accept)

    def recount(self, operation: str, inputs: int, outputs: int) -> Outcome:
        """Replaces what a METERED hold is resolved on by other usage."""
        return self._correct(operation, _tokens(inputs, outputs))

    def _correct(self, operation: str, usage: Usage, accept: str = "") -> Outcome:
        with self.database.read() as connection:
            hold = get_hold(connection, self.tenant, operation)
        assert hold is not None
        digest = hold.resolution_digest or b""
        return self.one(Correct(self.caller(Role.FINANCE), self.key(), operation, digest, usage, "a bill", 0, accept))

    def no_cost(self, operation: str) -> Outcome:
        proof = NoCostProof("NEVER_SENT", "adapter", "1", cause="CONNECTION_REFUSED", nonce="nonce-" + operation)
        return self.one(Resolve(self.caller(), self.key(), operation, proof))

    def file(self, patience: timedelta = timedelta(hours=24)) -> None:
        """What the worker does with what waits."""
        with self.database.read() as connection:
            ready = waited(connection, patience, 100).ready
        for parked in ready:
            self.one(filing(parked, patience))


def tell_of_parking(ledger: Ledger) -> None:
    """Evidence that came before its hold: filed, refused, a case, and waiting still. There is a budget 'key'."""
    stripe, ledger.stripe = ledger.stripe, 0
    ledger.charge("orphan", "1")
    ledger.file(timedelta())
    for operation in ("filed", "misfit"):
        ledger.charge(operation, "2")
    ledger.reserve("filed", "2", "key", dispatch=True)
    ledger.reserve("misfit", "0", "key")
    ledger.file()
    ledger.charge("waiting", "1")
    ledger.stripe = stripe


def _tokens(inputs: int, outputs: int) -> Usage:
    return Usage(
        "PROVIDER_RESPONSE", "openai", "gpt-x", "", "adapter", "1",
        buckets=(("input_tokens", inputs), ("output_tokens", outputs)),
    )  # fmt: skip


def tell_corrections(ledger: Ledger) -> None:
    """Every way in which what was resolved is replaced, on a budget of its own. Told after everything else."""
    ledger.budget("corrected", "20")
    ledger.reserve("billed-late", "3", "corrected")
    ledger.release("billed-late")
    ledger.correct("billed-late", "2.5")
    ledger.reserve("raised", "4", "corrected", dispatch=True)
    ledger.charge("raised", "4")
    ledger.correct("raised", "30", accept="the invoice")  # 13.5 are there: 12.5 of DEFICIT
    ledger.stripe = (ledger.stripe + 1) % 8
    ledger.correct("raised", "1")  # more than its stripe has
    ledger.reserve("not-free", "2", "corrected", dispatch=True)
    ledger.no_cost("not-free")
    ledger.correct("not-free", "2")
    ledger.charge("not-free", "2")  # corroborates
    ledger.reserve_tokens("recounted", 100_000, 10_000, "corrected")
    ledger.tokens("recounted", 4000, 500)
    # 4000 * 3 + 500 * 12 = 2000 * 3 + 1000 * 12 = 18 000, for a million.
    ledger.recount("recounted", 2000, 1000)
    ledger.recount("recounted", 2000, 2000)


SECONDS = Schedule(PeriodKind.FIXED, anchor=datetime(2026, 1, 1, tzinfo=UTC), length=timedelta(seconds=1))


def tell_of_periods(ledger: Ledger) -> None:
    """A budget with periods of a second: a hold that outlives its own, what is carried on, and a limit that changes."""
    ledger.budget("second", "10", schedule=SECONDS, rollover=Rollover(RolloverKind.ALL))
    ledger.reserve("outlives", "4", "second", dispatch=True)
    time.sleep(1.1)
    ledger.reserve("next", "1", "second")
    ledger.charge("outlives", "3")
    ledger.update("second", limit=Decimal(12), credit_line=Decimal(2))


def tell_everything(ledger: Ledger) -> None:
    """One of each: every state, every kind of entry, evidence, resolution and incident."""
    ledger.budget("org", "1000")
    ledger.budget("team", None, "org")
    ledger.budget("key", "10", "team")
    ledger.budget("lab", "5", "org")
    ledger.grant("key", "90", "invoice-7")
    ledger.policy()
    ledger.card()
    ledger.card(price="3")
    ledger.card("claude", "anthropic", "5", "claude-x")
    ledger.reserve("reserved", "1", "key", labels=(("cost_centre", "42"),), group="g", exclusive="order-1")
    ledger.reserve("released", "2", "key", group="g")
    ledger.release("released")
    ledger.reserve("dispatching", "3", "key", dispatch=True)
    ledger.reserve("unknown", "4", "key", dispatch=True)
    ledger.unknown("unknown")
    ledger.reserve("settled", "5", "key", dispatch=True, labels=(("cost_centre", "43"),))
    ledger.charge("settled", "4.5", "r-1")
    ledger.charge("settled", "4.5", "r-2")  # accepted twice
    ledger.charge("settled", "4", "r-1")  # other facts
    ledger.reserve("late", "6", "key", dispatch=True)
    ledger.unknown("late")
    ledger.charge("late", "6.000000000000000001", accept="agreed with the provider")
    ledger.reserve("never-sent", "7", "key", dispatch=True)
    ledger.no_cost("never-sent")
    ledger.reserve("inferred", "8", "key")
    ledger.charge("inferred", "8")
    ledger.reserve("rejected", "1", "key", dispatch=True)
    ledger.charge("rejected", "100")  # above the hold
    ledger.reserve("overrun", "5", "lab", dispatch=True)
    ledger.charge("overrun", "7", accept="agreed")
    ledger.stripe = 3
    ledger.reserve_tokens("tokens", 100_000, 10_000, "key")
    ledger.tokens("tokens", 12_345, 678)
    ledger.reserve_tokens("no-tokens", 100_000, 10_000, "key")
    ledger.tokens("no-tokens", 0, 0)
    ledger.reserve("refused", "1000000", "key")


def tell_attempts(ledger: Ledger) -> None:
    """Attempts that failed before they were sent, were followed by another, cancelled, or accepted by the provider."""
    ledger.stripe = 0
    ledger.budget("tries", None)
    ledger.reserve("failed", "1", "tries", dispatch=True)
    ledger.failed("failed")
    ledger.reserve("retried", "1", "tries", dispatch=True)
    ledger.failed("retried")
    ledger.retry("retried")
    ledger.receipt("retried", "r-10")
    ledger.delivery("retried", Delivery.PARTIAL)
    ledger.reserve("cancelled", "1", "tries", dispatch=True)
    ledger.cancel("cancelled")
    ledger.reserve("recorded", "1", "tries", dispatch=True)
    ledger.receipt("recorded", "r-11")
    ledger.charge("recorded", "1")
