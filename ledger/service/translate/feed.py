"""Events as they are stored, to the contract's messages, and the tokens by which a reader goes on.

A token names the last batch that was told, when that was recorded, and how many of its events were. It is not a secret and not
trusted: it is bound to its tenant, and its batch must be there.
"""

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple

from ledger.domain.canonical import canonical
from ledger.domain.model import Caller, Delivery, Execution
from ledger.domain.refusals import Reason, Refusal
from ledger.domain.states import HoldState
from ledger.domain.thresholds import Basis
from ledger.service.errors import Refused
from ledger.service.translate.answers import write_time
from ledger.service.translate.fields import STATE_NUMBERS, InvalidField, duration, named, optional_identifier
from ledger.service.translate.opaque import opened, sealed
from ledger.service.translate.standings import DELIVERY_NUMBERS, EXECUTION_NUMBERS
from ledger.service.translate.thresholds import BASES
from ledger.store.feed import Batch, Place
from ledger.v1 import feed_pb2 as pb
from ledger.v1 import hold_pb2, journal_pb2

MOST_EVENTS: Final = 500
MOST_BYTES: Final = 900_000
DEFAULT_HEARTBEAT: Final = timedelta(seconds=10)
_HEARTBEATS = (timedelta(seconds=1), timedelta(seconds=60))
_TOKEN_VERSION = "1"  # noqa: S105 - the number of a form
_LONGEST_TOKEN = 512
_LARGEST = 2**63 - 1
_TYPES = {int(number): name.removeprefix("EVENT_TYPE_") for name, number in pb.EventType.items() if number}
_NEWER = Refusal(
    Reason.STORE_UNAVAILABLE,
    "A newer version of the service wrote the next event, and this one cannot tell it: ask a server of the newer version.",
)


class Position(NamedTuple):
    """After `told` events of the batch at `place`, or after all of them if `told` is 0. `recorded_at` tells it from any other."""

    place: Place
    recorded_at: datetime
    told: int = 0


class Watching(NamedTuple):
    """What a reader asks for. `after` None: from the first event, or from now on."""

    tenant: str
    after: Position | None
    from_now: bool
    heartbeat: timedelta
    types: frozenset[str]
    operation_id: str | None

    def wants(self, event: Mapping[str, Any]) -> bool:
        """Whether the event passes the filter."""
        if self.types and event["type"] not in self.types:
            return False
        return self.operation_id is None or event.get("operation_id") == self.operation_id


def read_watch(request: pb.WatchRequest, caller: Caller) -> Watching:
    """Raises InvalidField."""
    after = read_token(request.resume_token, caller.tenant) if request.resume_token else None
    if request.from_now and request.resume_token:
        raise InvalidField("from_now", "is not for a resume_token: leave one of them out")
    heartbeat = DEFAULT_HEARTBEAT
    if request.HasField("heartbeat"):
        heartbeat = duration(request.heartbeat, "heartbeat", *_HEARTBEATS)
    types = frozenset(named(number, f"types[{i}]", _TYPES) for i, number in enumerate(request.types))
    operation = optional_identifier(request.operation_id, "operation_id")
    return Watching(caller.tenant, after, request.from_now, heartbeat, types, operation)


def token(position: Position | None, tenant: str) -> str:
    """The token after a position; None is before the first event."""
    place: tuple[str, ...] = ()
    if position is not None:
        at = position.recorded_at.astimezone(UTC).isoformat()
        place = (*map(str, position.place), at, str(position.told))
    return sealed({"v": _TOKEN_VERSION, "s": _scope(tenant, place), "p": place})


def read_token(text: str, tenant: str) -> Position | None:
    """The position that a token names. Raises InvalidField for one that this service did not give to this tenant."""
    try:
        body = opened(text, _LONGEST_TOKEN)
        version, scope, place = body["v"], body["s"], tuple(body["p"])
        if version != _TOKEN_VERSION or scope != _scope(tenant, place):
            raise ValueError(text)
        if not place:
            return None
        *numbers, at, told = place
        counts = [int(number) for number in (*numbers, told)]
        if not all(0 <= count <= _LARGEST for count in counts):
            raise ValueError(text)
        return Position(Place(*counts[:-1]), datetime.fromisoformat(at), counts[-1])
    except (ValueError, KeyError, TypeError, RecursionError):
        raise InvalidField("resume_token", "must be a resume_token that a Watch of this tenant gave") from None


def not_there() -> InvalidField:
    """The token is one of ours, and its batch is not in this ledger."""
    return InvalidField(
        "resume_token",
        "names an event that this ledger does not have: it is another ledger's, or was lost when this one was restored."
        " Begin again without a token",
    )


def _scope(tenant: str, place: tuple[str, ...]) -> str:
    return hashlib.sha256(b"ledger/feed/v1\n" + canonical({"tenant": tenant, "place": place})).hexdigest()[:32]


def responses(
    batches: Sequence[Batch], watching: Watching, told: int = 0
) -> Iterator[tuple[Position, pb.WatchResponse]]:
    """The batches as bounded responses, each with the position after it; `told` events of the first were told before.

    The last response may be without events. Raises Refused for an event of a newer version.
    """
    response, size = pb.WatchResponse(), 0
    position: Position | None = None
    for batch in batches:
        for index, event in enumerate(batch.events):
            if index < told or not watching.wants(event):
                continue
            if len(response.events) == MOST_EVENTS or size > MOST_BYTES:
                before = Position(batch.place, batch.recorded_at, index) if index else position
                assert before is not None, "a full response has events"
                yield before, response
                response, size = pb.WatchResponse(), 0
            message = response.events.add()
            _write(message, batch, index, event)
            size += message.ByteSize()
        position, told = Position(batch.place, batch.recorded_at), 0
    if position is not None:
        yield position, response


def _write(message: pb.Event, batch: Batch, index: int, event: Mapping[str, Any]) -> None:
    message.event_id = f"{batch.place.epoch}-{batch.place.xid}-{index}"
    write_time(message.record_time, batch.recorded_at)
    try:
        _WRITERS[event["type"]](message, event)
    except (KeyError, ValueError):
        raise Refused(_NEWER) from None


def _hold(message: pb.Event, event: Mapping[str, Any]) -> None:
    hold = message.hold
    hold.operation_id = event["operation_id"]
    hold.version = event["version"]
    if "from" in event:
        setattr(hold, "from", STATE_NUMBERS[HoldState(event["from"])])
    hold.to = STATE_NUMBERS[HoldState(event["to"])]
    hold.attempt = event["attempt"]
    hold.amount.amount = event["amount"]
    hold.amount.currency = event["currency"]
    if "revision" in event:
        hold.resolution.kind = hold_pb2.ResolutionKind.Value(f"RESOLUTION_KIND_{event['kind']}")
        hold.resolution.revision = event["revision"]
        hold.resolution.digest = event["digest"]
        hold.resolution.settled = event["settled"]
    for entry in event.get("entries", ()):
        hold.entries.add(entry_id=entry["id"], kind=_entry_kind(entry))


def _budget(message: pb.Event, event: Mapping[str, Any]) -> None:
    budget = message.budget
    budget.budget_id = event["budget_id"]
    budget.version = event["version"]
    budget.parent_id = event.get("parent_id", "")
    budget.currency = event["currency"]
    if "limit" in event:
        budget.limit = event["limit"]
    budget.closed = event["closed"]


def _grant(message: pb.Event, event: Mapping[str, Any]) -> None:
    message.grant.budget_id = event["budget_id"]
    message.grant.reference = event["reference"]
    message.grant.amount.amount = event["amount"]
    message.grant.amount.currency = event["currency"]
    message.grant.entry_id = event["entry_id"]


def _price_card(message: pb.Event, event: Mapping[str, Any]) -> None:
    message.price_card.card_id = event["card_id"]
    message.price_card.version = event["version"]
    message.price_card.digest = event["digest"]


def _policy(message: pb.Event, event: Mapping[str, Any]) -> None:
    message.policy.provider = event["provider"]
    message.policy.version = event["version"]
    message.policy.digest = event["digest"]


def _entry(message: pb.Event, event: Mapping[str, Any]) -> None:
    message.entry.entry_id = event["entry_id"]
    message.entry.kind = _entry_kind(event)
    message.entry.book_ids.extend(event["books"])
    message.entry.operation_id = event.get("operation_id", "")


def _observation(message: pb.Event, event: Mapping[str, Any]) -> None:
    made = message.observation
    made.observation_id = event["observation_id"]
    made.operation_id = event["operation_id"]
    made.attempt = event["attempt"]
    if event["axis"] == "DELIVERY":
        made.delivery = DELIVERY_NUMBERS[Delivery(event["value"])]
    else:
        made.execution = EXECUTION_NUMBERS[Execution(event["value"])]


def _threshold(message: pb.Event, event: Mapping[str, Any]) -> None:
    crossed = message.threshold
    crossed.budget_id = event["budget_id"]
    crossed.book_id = event["book_id"]
    crossed.percent = event["percent"]
    crossed.basis = BASES[Basis(event["basis"])]
    crossed.amount.amount = event["amount"]
    crossed.amount.currency = event["currency"]
    crossed.authority = event["authority"]


def _incident(message: pb.Event, event: Mapping[str, Any]) -> None:
    message.incident.incident_id = event["incident_id"]
    message.incident.kind = hold_pb2.IncidentKind.Value(f"INCIDENT_KIND_{event['kind']}")
    message.incident.operation_id = event["operation_id"]


def _entry_kind(event: Mapping[str, Any]) -> journal_pb2.EntryKind.ValueType:
    return journal_pb2.EntryKind.Value(f"ENTRY_KIND_{event['kind']}")


_WRITERS: Final[Mapping[str, Callable[[pb.Event, Mapping[str, Any]], None]]] = {
    "HOLD": _hold,
    "BUDGET": _budget,
    "GRANT": _grant,
    "PRICE_CARD": _price_card,
    "POLICY": _policy,
    "ENTRY": _entry,
    "OBSERVATION": _observation,
    "INCIDENT": _incident,
    "THRESHOLD": _threshold,
}
