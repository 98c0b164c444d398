"""How a refusal is told: one catalogue from reason to gRPC status and public sentence.

The status carries google.rpc.ErrorInfo; in a batch the same catalogue fills a CommandError.
"""

from typing import NamedTuple, NoReturn

import grpc
import grpc.aio
from google.protobuf import any_pb2
from google.rpc import error_details_pb2, status_pb2

from ledger.domain.refusals import Reason, Refusal
from ledger.v1 import error_pb2

DOMAIN = "ledger.v1"
_LONGEST = 600
DETAILS_KEY = "grpc-status-details-bin"


class Told(NamedTuple):
    """The status of a reason, and the sentence for a refusal that brings none of its own."""

    code: grpc.StatusCode
    sentence: str


_C = grpc.StatusCode
CATALOGUE: dict[Reason, Told] = {
    Reason.INVALID_FIELD: Told(_C.INVALID_ARGUMENT, "A field is malformed."),
    Reason.UNAUTHENTICATED: Told(
        _C.UNAUTHENTICATED, "Send a known token in the metadata: authorization: Bearer <token>."
    ),
    Reason.ROLE_NOT_ALLOWED: Told(_C.PERMISSION_DENIED, "The caller's role may not make this call."),
    Reason.NOT_FOUND: Told(_C.NOT_FOUND, "There is no such resource for this tenant."),
    Reason.INSUFFICIENT_BUDGET: Told(_C.FAILED_PRECONDITION, "A budget on the path has too little available."),
    Reason.HOLD_STATE: Told(_C.FAILED_PRECONDITION, "The hold is in a state that does not allow this."),
    Reason.EVIDENCE_REJECTED: Told(_C.FAILED_PRECONDITION, "The evidence does not fit the hold; it was kept."),
    Reason.RESOLUTION_CONFLICT: Told(_C.FAILED_PRECONDITION, "The hold is resolved already, on other facts."),
    Reason.DIGEST_NOT_IN_FORCE: Told(_C.FAILED_PRECONDITION, "Another resolution of the hold is in force."),
    Reason.EVIDENCE_NOT_PARKED: Told(_C.FAILED_PRECONDITION, "There is no hold, and too much evidence waits already."),
    Reason.UNQUOTABLE: Told(_C.FAILED_PRECONDITION, "No finite price can be put on the call."),
    Reason.BUDGET_CLOSED: Told(_C.FAILED_PRECONDITION, "A budget on the path is closed."),
    Reason.QUOTE_EXPIRED: Told(_C.FAILED_PRECONDITION, "The quote is no longer valid: reserve again."),
    Reason.CURRENCY_MISMATCH: Told(_C.FAILED_PRECONDITION, "Hold, budgets and price card must have one currency."),
    Reason.IDEMPOTENCY_MISMATCH: Told(_C.ALREADY_EXISTS, "The idempotency key was used for another content."),
    Reason.OPERATION_EXISTS: Told(_C.ALREADY_EXISTS, "The operation has a hold of another content."),
    Reason.EXCLUSIVE_HOLD: Told(_C.ALREADY_EXISTS, "Another open hold has this exclusive key."),
    Reason.RESOURCE_EXISTS: Told(_C.ALREADY_EXISTS, "The name is taken, with another content."),
    Reason.THROTTLED: Told(_C.RESOURCE_EXHAUSTED, "Too many requests at once; nothing was done."),
    Reason.CONTENTION: Told(_C.ABORTED, "The request collided with others too often; nothing was done."),
    Reason.UNKNOWN_WRITE_OUTCOME: Told(_C.UNKNOWN, "The commit's fate is not known: ask again with the same key."),
    Reason.STORE_UNAVAILABLE: Told(_C.UNAVAILABLE, "The database cannot take writes; nothing was done."),
    Reason.DEADLINE_PASSED: Told(_C.DEADLINE_EXCEEDED, "The deadline passed before the request was begun."),
    Reason.INTERNAL: Told(_C.INTERNAL, "A fault of the server; nothing was done."),
    Reason.HOLD_TOO_LARGE: Told(_C.FAILED_PRECONDITION, "The hold is above the cap of a budget on the path."),
    Reason.TOO_MANY_HOLDS: Told(_C.FAILED_PRECONDITION, "A budget on the path has too many open holds."),
    Reason.ATTEMPT_NOT_CURRENT: Told(_C.FAILED_PRECONDITION, "The caller does not own the hold's current attempt."),
}

_NUMBER = {reason: error_pb2.ErrorReason.Value(f"ERROR_REASON_{reason}") for reason in Reason}
_CODE = {reason: int(told.code.value[0]) for reason, told in CATALOGUE.items()}


class Refused(Exception):
    """The call is answered by a refusal instead of a response."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.reason)
        self.refusal = refusal


def sentence(refusal: Refusal) -> str:
    return _short(refusal.message or CATALOGUE[refusal.reason].sentence)


def command_error(refusal: Refusal) -> error_pb2.CommandError:
    """A refusal as the result of one command of a batch."""
    return error_pb2.CommandError(
        code=_CODE[refusal.reason],
        reason=_NUMBER[refusal.reason],
        message=sentence(refusal),
        metadata=_facts(refusal),
    )


def status_of(refusal: Refusal) -> status_pb2.Status:
    """A refusal as google.rpc.Status with one ErrorInfo."""
    info = error_details_pb2.ErrorInfo(reason=refusal.reason.value, domain=DOMAIN, metadata=_facts(refusal))
    packed = any_pb2.Any()
    packed.Pack(info)
    return status_pb2.Status(code=_CODE[refusal.reason], message=sentence(refusal), details=[packed])


def _facts(refusal: Refusal) -> dict[str, str]:
    return {key: _short(value) for key, value in refusal.metadata.items()}


def _short(text: str) -> str:
    """Clients take about 8 KiB of trailers, and lose the whole status if there is more."""
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


async def abort(context: "grpc.aio.ServicerContext[object, object]", refusal: Refusal) -> NoReturn:
    """Ends the call with the refusal's status."""
    status = status_of(refusal)
    await context.abort(CATALOGUE[refusal.reason].code, status.message, ((DETAILS_KEY, status.SerializeToString()),))
