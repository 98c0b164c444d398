"""What a caller believes of a write, and where the rows differ from it. The claim has no authority, the row has."""

from collections.abc import Iterator
from decimal import Decimal
from typing import Any, NamedTuple

from ledger.domain.invocations import Receipt
from ledger.domain.model import Hold
from ledger.domain.money import plain

NOTHING = "nothing"
OK = "OK"


class Claim(NamedTuple):
    """Beliefs about a hold, and about what a key did. None: nothing is claimed.

    `outcome` is OK or the reason of a refusal; `amount` and `settled` are (amount, currency); `digest` is of the resolution in
    force.
    """

    outcome: str | None = None
    operation_id: str | None = None
    state: str | None = None
    amount: tuple[Decimal, str] | None = None
    settled: tuple[Decimal, str] | None = None
    budget_ids: frozenset[str] | None = None
    digest: bytes | None = None
    provider_receipt: str | None = None

    def content(self) -> dict[str, Any]:
        """The claim as JSON of texts."""
        return {name: _text(value) for name, value in self._asdict().items() if value is not None}


class Difference(NamedTuple):
    """A field in which a claim is not as the rows are: both in words."""

    field: str
    claimed: str
    actual: str


def differences(claim: Claim, hold: Hold | None, receipt: Receipt | None) -> tuple[Difference, ...]:
    """Where the claim is wrong. `receipt` is that of the key that it is about, None if it is about none."""
    return tuple(
        Difference(name, _text(claimed), NOTHING if actual is None else _text(actual))
        for name, claimed, actual in _compared(claim, hold, receipt)
        if claimed is not None and claimed != actual
    )


def _compared(claim: Claim, hold: Hold | None, receipt: Receipt | None) -> Iterator[tuple[str, Any, Any]]:
    yield "outcome", claim.outcome, None if receipt is None else receipt.outcome
    yield "operation_id", claim.operation_id, hold.operation_id if hold is not None else None
    yield "state", claim.state, None if hold is None else hold.state.value
    yield "amount", claim.amount, None if hold is None else (hold.amount, hold.currency)
    settled = None if hold is None or hold.settled is None else (hold.settled, hold.currency)
    yield "settled", claim.settled, settled
    yield "budget_ids", claim.budget_ids, None if hold is None else frozenset(hold.budget_ids)
    yield "digest", claim.digest, None if hold is None else hold.resolution_digest
    yield "provider_receipt", claim.provider_receipt, None if hold is None else hold.provider_receipt


def _text(value: Any) -> str:
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, frozenset):
        return ", ".join(sorted(value))
    if isinstance(value, tuple):
        amount, currency = value
        return f"{plain(amount)} {currency}"
    return str(value)
