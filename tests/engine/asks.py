"""Commands of the simplest kind: fixed amounts in USD, one tenant."""

from datetime import timedelta
from decimal import Decimal

from ledger.domain.commands import (
    BeginDispatch,
    Command,
    CreateBudget,
    Dispatch,
    MarkOutcomeUnknown,
    Release,
    Reserve,
    Resolve,
    Usage,
)
from ledger.domain.model import Caller, Role
from ledger.domain.money import ZERO
from ledger.domain.quotes import QuoteKind, QuoteSpec
from ledger.engine.batch import Runner

TENANT = "acme"
GATEWAY = Caller(TENANT, "gateway", Role.GATEWAY)
ADMIN = Caller(TENANT, "admin", Role.ADMIN)
NONCE = "0123456789abcdef"


def budget(budget_id: str, limit: str | None, parent: str | None = None) -> CreateBudget:
    bound = None if limit is None else Decimal(limit)
    return CreateBudget(ADMIN, f"create-{budget_id}", budget_id, parent, "USD", budget_id, bound)


def reserve(
    operation_id: str, amount: str, *, budget_id: str = "team", key: str | None = None, dispatch: bool = False
) -> Reserve:
    spec = QuoteSpec(QuoteKind.FIXED, ZERO, amount=Decimal(amount), currency="USD", provider="openai", reason="agreed")
    minutes = timedelta(minutes=15)
    sending = Dispatch(NONCE, minutes, "worker-1") if dispatch else None
    return Reserve(GATEWAY, key or f"r-{operation_id}", operation_id, (budget_id,), spec, minutes, dispatch=sending)


def begin(operation_id: str) -> BeginDispatch:
    return BeginDispatch(GATEWAY, f"b-{operation_id}", operation_id, Dispatch(NONCE, timedelta(minutes=15), "worker-1"))


def unknown(operation_id: str) -> MarkOutcomeUnknown:
    return MarkOutcomeUnknown(GATEWAY, f"u-{operation_id}", operation_id, "timeout")


def release(operation_id: str) -> Release:
    return Release(GATEWAY, f"x-{operation_id}", operation_id)


def resolve(operation_id: str, amount: str, *, key: str | None = None) -> Resolve:
    usage = Usage(
        "PROVIDER_RESPONSE", "openai", "", "standard", "adapter", "1", charged=Decimal(amount), charged_currency="USD"
    )
    return Resolve(GATEWAY, key or f"s-{operation_id}", operation_id, usage)


def told(runner: Runner, *commands: Command) -> list[str]:
    """The outcomes in a word each: the reason of a refusal, or the state of the hold, or 'done'."""
    words = []
    for outcome in runner.execute(commands):
        if outcome.refusal is not None:
            words.append(outcome.refusal.reason.value)
        else:
            words.append("done" if outcome.hold is None else outcome.hold.state.value)
    return words
