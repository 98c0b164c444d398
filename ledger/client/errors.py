"""What can become of a call, as exceptions.

    LedgerError
    ├── Refused               the ledger said no; the reason is a name of the contract
    │   └── NotPermitted      nobody here may send the call to the provider
    ├── NotDone               nothing was done, and time ran out: may be asked again with the same key
    └── WriteOutcomeUnknown   nobody here knows whether it was done: ask again, with the same key and no other

`Fault` is the value from which they are made: what one try gave, before anybody decided whether there will be another.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any, Final

import grpc
import grpc.aio
from google.rpc import error_details_pb2, status_pb2

from ledger.v1 import error_pb2, hold_pb2

DOMAIN: Final = "ledger.v1"
_DETAILS_KEY: Final = "grpc-status-details-bin"
_PREFIX: Final = "ERROR_REASON_"
_WITHOUT_DENIAL: Final = "Whoever has it says what became of the call; a new intent needs a new operation_id."


class Fate(Enum):
    """What is known of a try that failed."""

    REFUSED = auto()
    """The ledger's answer is no. Asking again gives the same."""
    NOT_DONE = auto()
    """Nothing was done. The same request may be sent again."""
    IN_DOUBT = auto()
    """It may have been done. The same key finds out."""
    FAULT = auto()
    """It may have been done, and asking again at once would meet the same fault."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One try that failed: why, as far as it was told. `reason` is UNSPECIFIED where the network failed, and not the ledger."""

    fate: Fate
    reason: error_pb2.ErrorReason.ValueType
    message: str
    code: grpc.StatusCode
    metadata: Mapping[str, str] = field(default_factory=dict)


class LedgerError(Exception):
    """A call that did not succeed. `reason` is an ErrorReason of the contract, UNSPECIFIED if the ledger gave none."""

    def __init__(self, fault: Fault, idempotency_key: str = "") -> None:
        super().__init__(fault, idempotency_key)
        self.fault = fault
        self.idempotency_key = idempotency_key

    @property
    def reason(self) -> error_pb2.ErrorReason.ValueType:
        return self.fault.reason

    @property
    def metadata(self) -> Mapping[str, str]:
        """Facts for programs, such as `budget_id` and `available` of INSUFFICIENT_BUDGET."""
        return self.fault.metadata

    @property
    def recovery_action(self) -> error_pb2.RecoveryAction.ValueType:
        """What may be done next: RETRY_SAME_KEY, NO_REPLAY (do not call the provider again), or UNSPECIFIED."""
        name = f"RECOVERY_ACTION_{self.metadata.get('recovery_action', '').upper()}"
        return _RECOVERY.get(name, error_pb2.RECOVERY_ACTION_UNSPECIFIED)

    def __str__(self) -> str:
        return f"{reason_name(self.reason) or self.fault.code.name}: {self.fault.message}"


class Refused(LedgerError):
    """The ledger said no, and says why. Nothing was changed, except that refused evidence is kept."""


class NotPermitted(Refused):
    """The permission to send was not given: the call is not to be sent to the provider. `hold` is as it is now.

    `denial` is the ledger's reason and the way out, which the message repeats; its reason is in `metadata` too. It is empty if
    the permission was not asked for, because the answer to the reserve said that it was given before.
    """

    def __init__(self, hold: hold_pb2.Hold, denial: hold_pb2.Denial) -> None:
        state = hold_pb2.HoldState.Name(hold.state).removeprefix("HOLD_STATE_")
        message = (
            f"Operation {hold.operation_id!r} is {state}, and its permission to send is not this caller's: do not send. "
            f"{denial.way_out or _WITHOUT_DENIAL}"
        )
        facts = {"state": state}
        if denial.reason:
            facts["denial"] = hold_pb2.DenialReason.Name(denial.reason).removeprefix("DENIAL_REASON_")
        reason, code = error_pb2.ERROR_REASON_HOLD_STATE, grpc.StatusCode.FAILED_PRECONDITION
        super().__init__(Fault(Fate.REFUSED, reason, message, code, facts))
        self.hold = hold
        self.denial = denial

    def __reduce__(self) -> tuple[Any, ...]:
        # It may have to go from one process of a pool to another.
        return type(self), (self.hold, self.denial)

    @property
    def recovery_action(self) -> error_pb2.RecoveryAction.ValueType:
        return self.hold.recovery_action


class NotDone(LedgerError):
    """Nothing was done, and no time is left to ask again. The same request may be sent later, with the same key."""

    def __str__(self) -> str:
        # Where the ledger gave the reason, its sentence says so already.
        told = "" if self.reason else " Nothing was done: the same request may be sent again, with the same key."
        return super().__str__() + told

    @property
    def recovery_action(self) -> error_pb2.RecoveryAction.ValueType:
        return error_pb2.RECOVERY_ACTION_RETRY_SAME_KEY


class WriteOutcomeUnknown(LedgerError):
    """Nobody here knows whether the write was done. Ask again with `idempotency_key`; with another one it may be done twice."""

    @property
    def recovery_action(self) -> error_pb2.RecoveryAction.ValueType:
        return error_pb2.RECOVERY_ACTION_RETRY_SAME_KEY

    def __str__(self) -> str:
        return f"{super().__str__()} Ask again with the idempotency key {self.idempotency_key!r}."


_C = grpc.StatusCode
_REASONS: Final = dict(error_pb2.ErrorReason.items())
_NAMES: Final = {number: name.removeprefix(_PREFIX) for name, number in _REASONS.items()}
_RECOVERY: Final = dict(error_pb2.RecoveryAction.items())
_UNSPECIFIED: Final = error_pb2.ERROR_REASON_UNSPECIFIED
# Reasons that are not a refusal. Every other one that is known here is.
_FATES: Final = {
    error_pb2.ERROR_REASON_THROTTLED: Fate.NOT_DONE,
    error_pb2.ERROR_REASON_CONTENTION: Fate.NOT_DONE,
    error_pb2.ERROR_REASON_STORE_UNAVAILABLE: Fate.NOT_DONE,
    error_pb2.ERROR_REASON_DEADLINE_PASSED: Fate.NOT_DONE,
    error_pb2.ERROR_REASON_UNKNOWN_WRITE_OUTCOME: Fate.IN_DOUBT,
    error_pb2.ERROR_REASON_INTERNAL: Fate.FAULT,
}
# Said before the ledger looks at the key: they tell nothing of an earlier try.
_BEFORE_KEYS: Final = {
    _UNSPECIFIED,
    error_pb2.ERROR_REASON_UNAUTHENTICATED,
    error_pb2.ERROR_REASON_ROLE_NOT_ALLOWED,
}
# Statuses without a reason that is known here: gRPC's own, those of a proxy, or of a newer ledger. They may follow a commit whose
# answer was lost; RESOURCE_EXHAUSTED one that was too long for somebody on the way.
_UNTOLD: Final = {
    _C.UNAVAILABLE: Fate.IN_DOUBT,
    _C.DEADLINE_EXCEEDED: Fate.IN_DOUBT,
    _C.CANCELLED: Fate.IN_DOUBT,
    _C.ABORTED: Fate.IN_DOUBT,
    _C.UNKNOWN: Fate.IN_DOUBT,
    _C.INTERNAL: Fate.FAULT,
    _C.DATA_LOSS: Fate.FAULT,
    _C.RESOURCE_EXHAUSTED: Fate.FAULT,
}
_CODES: Final = {code.value[0]: code for code in grpc.StatusCode}
OUT_OF_TIME: Final = Fault(Fate.NOT_DONE, _UNSPECIFIED, "No time was left to ask the ledger.", _C.DEADLINE_EXCEEDED)
NO_CONNECTION: Final = Fault(
    Fate.NOT_DONE,
    _UNSPECIFIED,
    "There was no connection to the ledger: is it running, and are its address and certificate right?",
    _C.UNAVAILABLE,
)
CLOSED: Final = Fault(Fate.NOT_DONE, _UNSPECIFIED, "The client was closed before the ledger answered.", _C.CANCELLED)
# The client was closed while the call was on the wire.
CUT_OFF: Final = Fault(Fate.IN_DOUBT, _UNSPECIFIED, CLOSED.message, CLOSED.code)


def reason_name(reason: error_pb2.ErrorReason.ValueType) -> str:
    """INSUFFICIENT_BUDGET for ERROR_REASON_INSUFFICIENT_BUDGET; '' for UNSPECIFIED."""
    return _NAMES.get(reason, "") if reason else ""


def fault_of_call(error: grpc.aio.AioRpcError) -> Fault:
    """What the status of a call says."""
    info = error_info(error)
    code = error.code()
    message = error.details() or "The ledger could not be asked."
    if info is None:
        return Fault(_fate(_UNSPECIFIED, code), _UNSPECIFIED, message, code)
    reason = _REASONS.get(_PREFIX + info.reason, _UNSPECIFIED)
    return Fault(_fate(reason, code), reason, message, code, dict(info.metadata))


def fault_of_command(error: error_pb2.CommandError) -> Fault:
    """What one command of a batch was answered."""
    code = _CODES.get(error.code, _C.UNKNOWN)
    reason = error.reason if error.reason in _NAMES else _UNSPECIFIED
    return Fault(_fate(reason, code), reason, error.message, code, dict(error.metadata))


def _fate(reason: error_pb2.ErrorReason.ValueType, code: grpc.StatusCode) -> Fate:
    """What is known by a reason; by the status, if the reason is none that this client knows."""
    return _FATES.get(reason, Fate.REFUSED) if reason else _UNTOLD.get(code, Fate.REFUSED)


def error_of(fault: Fault, idempotency_key: str = "", *, in_doubt: bool = False) -> LedgerError:
    """The exception for the last fault of a call. `in_doubt`: this try, or one before it, may have been done."""
    if fault.fate is Fate.REFUSED and not (in_doubt and fault.reason in _BEFORE_KEYS):
        return Refused(fault, idempotency_key)
    return (WriteOutcomeUnknown if in_doubt and idempotency_key else NotDone)(fault, idempotency_key)


def error_info(error: BaseException) -> error_details_pb2.ErrorInfo | None:
    """The ErrorInfo of a failed call; None if the ledger gave none (the network's failures, for example)."""
    if not isinstance(error, grpc.aio.AioRpcError | grpc.Call):
        return None
    for key, value in error.trailing_metadata() or ():
        if key == _DETAILS_KEY and isinstance(value, bytes):
            for detail in status_pb2.Status.FromString(value).details:
                info = error_details_pb2.ErrorInfo()
                if detail.Unpack(info) and info.domain == DOMAIN:
                    return info
    return None
