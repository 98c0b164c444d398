"""Claims about writes, the verdict on them, and the invocation log."""

import hashlib
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

from ledger.domain.claims import OK, Claim, Difference
from ledger.domain.commands import COMMANDS, VerifyWrite
from ledger.domain.model import Caller
from ledger.domain.states import HoldState
from ledger.engine.batch import LONGEST
from ledger.service.translate.answers import write_full_hold, write_time
from ledger.service.translate.fields import (
    MAX_BUDGETS,
    STATE_NUMBERS,
    STATES,
    InvalidField,
    digest,
    empty_or_identifier,
    identifier,
    instant,
    money,
    named,
    optional_identifier,
    under,
)
from ledger.service.translate.pages import Place, log_key, place, time_key
from ledger.store import read
from ledger.store.database import SILENCE
from ledger.v1 import error_pb2
from ledger.v1 import write_pb2 as pb

_REASONS = {int(number): name.removeprefix("ERROR_REASON_") for name, number in error_pb2.ErrorReason.items() if number}
_REASON_OF = {name: error_pb2.ErrorReason.Value(f"ERROR_REASON_{name}") for name in _REASONS.values()}
# The deadline is told by the caller's clock and compared with the database's, and a request may be on its way for a while before
# the server counts what is left of its time (seconds).
CLOCKS: Final = 60.0
# The last COMMIT of a batch is begun by LONGEST, and given up for lost after SILENCE.
_SETTLING: Final = timedelta(seconds=LONGEST + SILENCE + CLOCKS)

_MATCH = "Every claim is as the ledger has it."
_MISMATCH = "The ledger has it otherwise: go by the ledger, not by the claim. A case was opened."
_MAY_LAND = (
    "Nothing was committed before as_of. It does not prove that nothing will be: a request under way may land until"
    " may_land_until. Ask again then, or send the same request again with the same key."
)
_UNBOUNDED = (
    "Nothing was committed before as_of. It does not prove that nothing will be: a request under way may still land. Give the"
    " call_deadline to be told until when, or send the same request again with the same key."
)
_FINAL = "It was not written, and a request whose deadline was call_deadline will not write it any more."


class Asked(NamedTuple):
    """What VerifyWrite was asked: about an operation or about a key (actor, command, key)."""

    operation_id: str | None
    key: tuple[str, str, str] | None
    claim: Claim
    call_deadline: datetime | None


def verify_write(request: pb.VerifyWriteRequest, caller: Caller) -> Asked:
    subject = request.WhichOneof("subject")
    if subject is None:
        raise InvalidField("subject", "must be given: operation_id or sent")
    with under("claim"):
        claim = _claim(request.claim)
    deadline = instant(request.call_deadline, "call_deadline") if request.HasField("call_deadline") else None
    if subject == "operation_id":
        if claim.outcome is not None:
            raise InvalidField("claim.claims_outcome", "is about a key: ask by sent")
        return Asked(identifier(request.operation_id, "operation_id"), None, claim, deadline)
    sent = request.sent
    if sent.command not in COMMANDS:
        raise InvalidField("sent.command", f"must be one of {', '.join(COMMANDS)}")
    key = identifier(sent.idempotency_key, "sent.idempotency_key")
    actor = empty_or_identifier(sent.actor, "sent.actor") or caller.actor
    return Asked(claim.operation_id, (actor, sent.command, key), claim, deadline)


def _claim(message: pb.WriteClaim) -> Claim:
    outcome = None
    if message.claims_outcome:
        outcome = named(message.refused, "refused", _REASONS) if message.refused else OK
    elif message.refused:
        raise InvalidField("refused", "is compared only with claims_outcome")
    if len(message.budget_ids) > MAX_BUDGETS:
        raise InvalidField("budget_ids", f"must name at most {MAX_BUDGETS} budgets")
    budget_ids = frozenset(identifier(budget_id, "budget_ids") for budget_id in message.budget_ids)
    return Claim(
        outcome=outcome,
        operation_id=optional_identifier(message.operation_id, "operation_id"),
        state=named(message.state, "state", STATES) if message.state else None,
        amount=money(message.amount, "amount") if message.HasField("amount") else None,
        settled=money(message.settled, "settled") if message.HasField("settled") else None,
        budget_ids=budget_ids or None,
        digest=digest(message.digest, "digest") if message.digest else None,
        provider_receipt=optional_identifier(message.provider_receipt, "provider_receipt"),
    )


def mismatch(asked: Asked, found: read.Written, caller: Caller) -> VerifyWrite:
    """The command that holds the claim against the rows once more, under the lock, and opens the case."""
    resource = asked.operation_id or "" if found.receipt is None else found.receipt.resource
    said = repr((resource, asked.key, sorted(asked.claim.content().items())))
    return VerifyWrite(caller, hashlib.sha256(said.encode()).hexdigest(), resource, asked.claim, found.receipt)


def write_found(
    message: pb.VerifyWriteResponse, found: read.Written, different: Sequence[Difference], incident_id: str
) -> None:
    """The verdict on a claim about what is there."""
    message.verdict = pb.WRITE_VERDICT_MISMATCH if different else pb.WRITE_VERDICT_MATCH
    message.meaning = _MISMATCH if different else _MATCH
    message.incident_id = incident_id
    for difference in different:
        message.differences.add(field=difference.field, claimed=difference.claimed, actual=difference.actual)
    _write_rows(message, found)


def write_not_found(message: pb.VerifyWriteResponse, found: read.Written, call_deadline: datetime | None) -> None:
    """There is nothing, and what that proves."""
    message.verdict = pb.WRITE_VERDICT_NOT_FOUND
    message.meaning = _UNBOUNDED
    if call_deadline is not None:
        lands = call_deadline + _SETTLING
        write_time(message.may_land_until, lands)
        message.final = found.as_of.astimezone(UTC) > lands
        message.meaning = _FINAL if message.final else _MAY_LAND
    _write_rows(message, found)


def _write_rows(message: pb.VerifyWriteResponse, found: read.Written) -> None:
    if found.hold is not None:
        write_full_hold(message.hold, found.hold)
    if found.receipt is not None:
        write_invocation(message.invocation, read.Invocation.of(found.receipt))
    write_time(message.as_of, found.as_of)


def invocations(request: pb.ListInvocationsRequest, caller: Caller) -> tuple[Place, str]:
    resource = identifier(request.resource, "resource")
    size, token = request.page_size, request.page_token
    return place("ListInvocations", caller, size, token, (time_key, log_key), resource=resource), resource


def write_invocation(message: pb.Invocation, line: read.Invocation) -> None:
    message.actor = line.actor
    message.command = line.command
    message.idempotency_key = line.key
    message.fingerprint = line.fingerprint.hex()
    message.resource = line.resource
    if line.outcome != OK:
        message.refused = _REASON_OF[line.outcome]
    message.remembered = line.remembered
    if line.state is not None:
        message.state = STATE_NUMBERS[HoldState(line.state)]
    write_time(message.record_time, line.recorded_at)
