"""Holds and the outcomes of commands, to the contract's messages.

Written into the message that is sent, field by field: half the cost of building parts and copying them in.
"""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Final

from google.protobuf.timestamp_pb2 import Timestamp

from ledger.domain.batch import Outcome
from ledger.domain.model import Hold, Incident, Resolution
from ledger.domain.money import plain
from ledger.domain.permission import WAY_OUT, Denial, Stopped
from ledger.domain.quotes import Quote, QuoteKind
from ledger.domain.refusals import Reason, Refusal
from ledger.domain.states import TERMINAL, HoldState, ResolutionKind
from ledger.service.errors import Refused, command_error
from ledger.service.translate.fields import STATE_NUMBERS
from ledger.v1 import error_pb2, money_pb2
from ledger.v1 import hold_pb2 as pb

# Of one answer. Clients take 4 MiB unless they are told otherwise.
MOST_BYTES = 3_500_000
# What protobuf writes around a result, at most.
_FRAME_BYTES = 16
_NO_ROOM = Refusal(
    Reason.UNKNOWN_WRITE_OUTCOME,
    "The answer had no room for this result: ask again with the same key, in a smaller batch.",
    {"recovery_action": "retry_same_key"},
)

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
KIND_NUMBERS = {kind: pb.ResolutionKind.Value(f"RESOLUTION_KIND_{kind}") for kind in ResolutionKind}
_QUOTES = {kind: pb.QuoteKind.Value(f"QUOTE_KIND_{kind}") for kind in QuoteKind}
_DENIALS = {denial: pb.DenialReason.Value(f"DENIAL_REASON_{denial}") for denial in Denial}
_STOPPED = {stopped: pb.Stopped.Value(f"STOPPED_{stopped}") for stopped in Stopped}
_INCIDENTS = {name.removeprefix("INCIDENT_KIND_"): value for name, value in pb.IncidentKind.items() if value}


def reserve(message: pb.ReserveResponse, outcome: Outcome) -> None:
    write_hold(message.hold, _hold(outcome))
    message.replayed = outcome.replayed
    message.matched_by_operation = outcome.matched_by_operation
    message.may_send = outcome.may_send
    if outcome.denial is not None:
        _write_denial(message.denial, outcome.denial)


def begin_dispatch(message: pb.BeginDispatchResponse, outcome: Outcome) -> None:
    write_hold(message.hold, _hold(outcome))
    message.replayed = outcome.replayed
    message.may_send = outcome.may_send
    if outcome.denial is not None:
        _write_denial(message.denial, outcome.denial)


def heartbeat(message: pb.HeartbeatResponse, outcome: Outcome) -> None:
    hold = _hold(outcome)
    message.state = STATE_NUMBERS[hold.state]
    message.applied = outcome.applied
    message.may_continue = outcome.may_continue
    message.attempt = hold.attempt
    if hold.lease_expires_at is not None:
        write_time(message.lease_expire_time, hold.lease_expires_at)
    if hold.state is HoldState.OUTCOME_UNKNOWN:
        message.recovery_action = error_pb2.RECOVERY_ACTION_NO_REPLAY


def record_failed_before_dispatch(message: pb.RecordFailedBeforeDispatchResponse, outcome: Outcome) -> None:
    write_hold(message.hold, _hold(outcome))
    message.replayed = outcome.replayed
    message.applied = outcome.applied


def cancel(message: pb.CancelResponse, outcome: Outcome) -> None:
    hold = _hold(outcome)
    write_hold(message.hold, hold)
    message.replayed = outcome.replayed
    message.applied = outcome.applied
    if outcome.stopped is not None:
        message.stopped = _STOPPED[outcome.stopped]
    if hold.state not in TERMINAL:
        write_money(message.unsettled, hold.amount, hold.currency)


def record_receipt(message: pb.RecordReceiptResponse, outcome: Outcome) -> None:
    write_hold(message.hold, _hold(outcome))
    message.replayed = outcome.replayed
    message.applied = outcome.applied
    if outcome.incident_id is not None:
        message.incident_id = str(outcome.incident_id)


def record_delivery(message: pb.RecordDeliveryResponse, outcome: Outcome) -> None:
    write_hold(message.hold, _hold(outcome))
    message.replayed = outcome.replayed


def mark_outcome_unknown(message: pb.MarkOutcomeUnknownResponse, outcome: Outcome) -> None:
    write_hold(message.hold, _hold(outcome))
    message.replayed = outcome.replayed
    message.applied = outcome.applied


def release(message: pb.ReleaseResponse, outcome: Outcome) -> None:
    write_hold(message.hold, _hold(outcome))
    message.replayed = outcome.replayed


def resolve(message: pb.ResolveResponse, outcome: Outcome) -> None:
    _write_reported(message, outcome)


def correct(message: pb.CorrectResponse, outcome: Outcome) -> None:
    _write_reported(message, outcome)


def _write_reported(message: pb.ResolveResponse | pb.CorrectResponse, outcome: Outcome) -> None:
    if outcome.parked:
        assert isinstance(message, pb.ResolveResponse), "what has no hold cannot be corrected"
        message.parked = True
    else:
        write_hold(message.hold, _hold(outcome))
    message.replayed = outcome.replayed
    if outcome.incident_id is not None:
        message.incident_id = str(outcome.incident_id)
    if outcome.superseded_by is not None:
        message.superseded_by = outcome.superseded_by.hex()


_WRITERS: Final[dict[str, Callable[[Any, Outcome], None]]] = {
    "reserve": reserve,
    "begin_dispatch": begin_dispatch,
    "mark_outcome_unknown": mark_outcome_unknown,
    "release": release,
    "resolve": resolve,
    "correct": correct,
    "heartbeat": heartbeat,
    "record_failed_before_dispatch": record_failed_before_dispatch,
    "cancel": cancel,
    "record_receipt": record_receipt,
    "record_delivery": record_delivery,
}


def batch(names: Sequence[str], answers: Sequence[Outcome | Refusal]) -> pb.BatchExecuteResponse:
    """One result for each command, in their order; `names` are the commands' names in the oneof.

    What was done is not lost because the answer would be too long for its reader: a result without room is told as one that the
    same key gives again.
    """
    response = pb.BatchExecuteResponse()
    add = response.results.add
    for name, answer in zip(names, answers, strict=True):
        refusal = answer if isinstance(answer, Refusal) else answer.refusal
        if refusal is not None:
            add().error.CopyFrom(command_error(refusal))
        else:
            assert isinstance(answer, Outcome)
            _WRITERS[name](getattr(add(), name), answer)
    if response.ByteSize() > MOST_BYTES:
        _shorten(response)
    return response


def _shorten(response: pb.BatchExecuteResponse) -> None:
    """Keeps every refusal, and as many of the results as there is room for, the first ones."""
    no_room = command_error(_NO_ROOM)
    refused = sum(result.ByteSize() for result in response.results if result.HasField("error"))
    room = MOST_BYTES - refused - len(response.results) * (no_room.ByteSize() + _FRAME_BYTES)
    for result in response.results:
        if not result.HasField("error"):
            room -= result.ByteSize()
            if room < 0:
                result.error.CopyFrom(no_room)


def write_hold(message: pb.Hold, hold: Hold) -> None:
    """Everything but the quote."""
    state = hold.state
    message.operation_id = hold.operation_id
    message.state = STATE_NUMBERS[state]
    write_money(message.amount, hold.amount, hold.currency)
    message.budget_ids.extend(hold.budget_ids)
    message.book_ids.extend(hold.books)
    message.actor = hold.actor
    if hold.exclusive_key is not None:
        message.exclusive_key = hold.exclusive_key
    if hold.request_group is not None:
        message.request_group = hold.request_group
    if hold.labels:
        labels = message.labels
        for key, value in hold.labels.items():
            labels[key] = value
    write_time(message.create_time, hold.created_at)
    write_time(message.expire_time, hold.expire_at)
    write_time(message.update_time, hold.updated_at)
    if hold.attempt:
        _write_attempt(message.attempt, hold)
    if hold.revision:
        _write_resolution(message.resolution, hold)
    message.version = hold.version
    if state is HoldState.OUTCOME_UNKNOWN:
        message.recovery_action = error_pb2.RECOVERY_ACTION_NO_REPLAY


def write_full_hold(message: pb.Hold, hold: Hold) -> None:
    write_hold(message, hold)
    write_quote(message.quote, hold.quote)


def write_revision(message: pb.Resolution, resolution: Resolution) -> None:
    """A revision with all that is known of it."""
    message.kind = KIND_NUMBERS[resolution.kind]
    message.revision = resolution.revision
    message.digest = resolution.digest.hex()
    write_money(message.amount, resolution.amount, resolution.currency)
    if resolution.cost_over_hold:
        write_money(message.cost_over_hold, resolution.cost_over_hold, resolution.currency)
    write_time(message.resolve_time, resolution.recorded_at)
    message.supersedes = (resolution.supersedes or b"").hex()
    message.evidence_id = str(resolution.evidence_id or "")
    message.entry_id = str(resolution.entry_id or "")
    message.actor = resolution.actor
    message.reason = resolution.reason or ""
    message.passed_ceilings.extend(resolution.passed_ceilings)
    for line in resolution.lines:
        quantity, per = int(line["quantity"]), int(line["per"])
        message.lines.add(bucket=line["bucket"], quantity=quantity, rate=line["rate"], per=per, amount=line["amount"])


def write_incident(message: pb.Incident, incident: Incident) -> None:
    message.incident_id = str(incident.incident_id)
    message.kind = _INCIDENTS[incident.kind]
    message.operation_id = incident.operation_id
    write_time(message.open_time, incident.opened_at)
    message.detail.update(incident.detail)


def write_money(message: money_pb2.Money, amount: Decimal, currency: str) -> None:
    message.amount = plain(amount)
    message.currency = currency


def write_time(message: Timestamp, at: datetime) -> None:
    since = at - _EPOCH
    message.seconds = since.days * 86_400 + since.seconds
    message.nanos = since.microseconds * 1000


def _hold(outcome: Outcome) -> Hold:
    """The hold of a command that was not refused."""
    if outcome.refusal is not None:
        raise Refused(outcome.refusal)
    assert outcome.hold is not None, "a command on a hold is refused or gives the hold"
    return outcome.hold


def _write_attempt(message: pb.Attempt, hold: Hold) -> None:
    message.number = hold.attempt
    message.generation = hold.generation
    if hold.executor:
        message.executor = hold.executor
    if hold.dispatched_at is not None:
        write_time(message.dispatch_time, hold.dispatched_at)
    if hold.lease_expires_at is not None:
        write_time(message.lease_expire_time, hold.lease_expires_at)
    if hold.provider_receipt is not None:
        message.provider_receipt = hold.provider_receipt
    if hold.inferred:
        message.inferred = True
    if hold.dispatcher is not None:
        message.actor = hold.dispatcher
    if hold.failure is not None:
        message.failed_before_dispatch = pb.NeverSentCause.Value(f"NEVER_SENT_CAUSE_{hold.failure['cause']}")
    if hold.retry_until is not None:
        write_time(message.retry_until_time, hold.retry_until)


def _write_denial(message: pb.Denial, denial: Denial) -> None:
    message.reason = _DENIALS[denial]
    message.way_out = WAY_OUT[denial]


def _write_resolution(message: pb.Resolution, hold: Hold) -> None:
    kind, digest, settled, resolved_at = hold.resolution_kind, hold.resolution_digest, hold.settled, hold.resolved_at
    assert kind is not None, "a revision has a kind"
    assert digest is not None, "a revision has a digest"
    assert settled is not None, "a revision has an amount"
    assert resolved_at is not None, "a revision has a time"
    message.kind = KIND_NUMBERS[kind]
    message.revision = hold.revision
    message.digest = digest.hex()
    write_money(message.amount, settled, hold.currency)
    if settled > hold.amount:
        write_money(message.cost_over_hold, settled - hold.amount, hold.currency)
    write_time(message.resolve_time, resolved_at)


def write_quote(message: pb.Quote, quote: Quote) -> None:
    message.kind = _QUOTES[quote.kind]
    write_money(message.amount, quote.amount, quote.currency)
    message.tolerance = plain(quote.tolerance)
    message.provider = quote.provider
    message.model = quote.model
    message.digest = quote.digest.hex()
    if quote.kind is QuoteKind.FIXED:
        message.reason = quote.reason
        return
    message.card_id = quote.card_id
    message.card_version = quote.card_version
    message.card_digest = quote.card_digest
    message.service_tier = quote.service_tier
    message.region = quote.region
    message.api_flavor = quote.api_flavor
    for line in quote.lines:
        message.lines.add(
            group=line.group, quantity=line.quantity, rate=plain(line.rate), per=line.per, amount=plain(line.amount)
        )
    message.clamped_groups.extend(quote.clamped)
    if quote.valid_until is not None:
        write_time(message.valid_until, quote.valid_until)
