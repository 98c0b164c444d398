"""What the tests of the client share: quick clients, quotes, and a look at what became of an operation."""

from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from ledger.client import Ledger, LedgerError, Refused, fixed_quote
from ledger.domain.model import Role
from ledger.v1 import error_pb2, hold_pb2
from tests.service.harness import Ledger as Served

TEN = fixed_quote(Decimal(10), "USD", provider="openai", reason="agreed")
SEVEN = (Decimal(7), "USD")


def seconds(value: float) -> timedelta:
    return timedelta(seconds=value)


def sdk(served: Served, role: Role = Role.GATEWAY, address: str = "", **options: Any) -> Ledger:
    """A client of the tenant 'acme', as a gateway unless it is said otherwise."""
    return Ledger.connect(address or served.address, served.token("acme", role), **options)


def state(hold: hold_pb2.Hold) -> str:
    return hold_pb2.HoldState.Name(hold.state).removeprefix("HOLD_STATE_")


def reason(error: LedgerError) -> str:
    return error_pb2.ErrorReason.Name(error.reason).removeprefix("ERROR_REASON_")


async def state_of(ledger: Ledger, operation_id: str) -> str:
    """The state of an operation's hold; '' if it has none."""
    try:
        return state(await ledger.get_hold(operation_id))
    except Refused as refused:
        if refused.reason != error_pb2.ERROR_REASON_NOT_FOUND:
            raise
        return ""


async def refusal(call: Any) -> str:
    """The reason for which a call is refused."""
    with pytest.raises(Refused) as caught:
        await call
    return reason(caught.value)
