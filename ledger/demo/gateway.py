"""An example gateway: how a program that calls a provider uses the ledger.

Set money aside and get the permission to send, in one commit. Send once. Then say what is known about the outcome, and no
more: usage that the provider gave, a proof that nothing was sent or executed, or that nobody knows.
"""

import errno
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import aiohttp

from ledger import client
from ledger.client import Guard, Ledger, NotPermitted, metered_quote
from ledger.demo.provider import IDEMPOTENCY_KEY, MODE, REQUEST_ID, Mode
from ledger.usage import FLAVORS, merge_stream, usage_document
from ledger.v1 import hold_pb2

ADAPTER, ADAPTER_REVISION = "example-gateway", "1"
PATHS = {"openai.chat": "/v1/chat/completions", "anthropic.messages": "/v1/messages"}


@dataclass(frozen=True, slots=True)
class Call:
    """One call to a provider, as the gateway is asked to make it. `patience` in seconds; `mode` is for the fake provider."""

    operation_id: str
    url: str
    flavor: str
    model: str
    budget_id: str
    ceilings: Mapping[str, int]
    stream: bool = False
    request_group: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    patience: float = 10.0
    mode: Mode = Mode.NORMAL

    @property
    def provider(self) -> str:
        return FLAVORS[self.flavor].provider


@dataclass(frozen=True, slots=True)
class Answered:
    """The provider gave its final usage."""

    document: Mapping[str, Any]
    provider_receipt: str


@dataclass(frozen=True, slots=True)
class NeverSent:
    """There was no connection that a request could have gone through."""

    cause: hold_pb2.NeverSentCause.ValueType


@dataclass(frozen=True, slots=True)
class Rejected:
    """The provider said that it did not execute the request."""

    status: int
    request_id: str


@dataclass(frozen=True, slots=True)
class Unknown:
    """The request may have arrived. Neither "failed" nor "succeeded" would be true."""

    observation: str


Seen: TypeAlias = Answered | NeverSent | Rejected | Unknown


class Gateway:
    """Makes calls, each under a hold of the ledger."""

    def __init__(self, ledger: Ledger, session: aiohttp.ClientSession) -> None:
        self.ledger = ledger
        self.session = session

    async def call(self, call: Call) -> tuple[Seen, hold_pb2.Hold]:
        """Makes a call: what was seen of it, and its hold afterwards. Raises Refused if the ledger does."""
        try:
            async with self.guard(call) as operation:
                seen = await send(self.session, call)
                await tell(operation, call, seen)
        except NotPermitted as denied:
            return Unknown("another process was given the permission to send"), denied.hold
        return seen, operation.hold

    def guard(self, call: Call, *, dispatch: bool = True, **options: Any) -> Guard:
        """The hold of a call: the money is set aside and the permission to send asked for in one commit."""
        quote = metered_quote(call.model, model=call.model, api_flavor=call.flavor, ceilings=call.ceilings)
        return self.ledger.guard(
            call.operation_id,
            budgets=[call.budget_id],
            quote=quote,
            provider=call.provider,
            request_group=call.request_group,
            labels=call.labels,
            executor=ADAPTER,
            adapter=ADAPTER,
            adapter_revision=ADAPTER_REVISION,
            dispatch=dispatch,
            **options,
        )


async def tell(operation: Guard, call: Call, seen: Seen) -> None:
    """Tells the ledger what was seen."""
    if isinstance(seen, Answered):
        await operation.settle(usage_evidence(call.flavor, seen.document, seen.provider_receipt))
    elif isinstance(seen, NeverSent):
        await operation.never_sent(seen.cause)
    elif isinstance(seen, Rejected):
        await operation.rejected(seen.status, seen.request_id)
    else:
        await operation.outcome_unknown(seen.observation)


def usage_evidence(
    flavor: str,
    document: Mapping[str, Any],
    provider_receipt: str,
    source: hold_pb2.EvidenceSource.ValueType = hold_pb2.EVIDENCE_SOURCE_PROVIDER_RESPONSE,
) -> hold_pb2.UsageEvidence:
    """A usage document as evidence. It holds numbers and names, and nothing of what was said."""
    return client.usage_evidence(
        FLAVORS[flavor].provider,
        document,
        api_flavor=flavor,
        receipt=provider_receipt,
        adapter=ADAPTER,
        adapter_revision=ADAPTER_REVISION,
        source=source,
    )


async def send(session: aiohttp.ClientSession, call: Call) -> Seen:
    """Sends the request once, and says what can be known from what came back."""
    headers = {IDEMPOTENCY_KEY: call.operation_id, MODE: call.mode}
    body = {"model": call.model, "stream": call.stream, "messages": [{"role": "user", "content": "Good day."}]}
    limit = aiohttp.ClientTimeout(call.patience)
    try:
        async with session.post(call.url + PATHS[call.flavor], json=body, headers=headers, timeout=limit) as response:
            return await _read(response, call)
    except aiohttp.ClientConnectorError as error:
        cause = _never_sent_cause(error)
        return Unknown("no connection, for a reason not known here") if cause is None else NeverSent(cause)
    except TimeoutError:
        return Unknown("time-out")
    except aiohttp.ClientPayloadError:
        return Unknown("stream cut")
    except aiohttp.ClientError:
        return Unknown("connection lost")


async def _read(response: aiohttp.ClientResponse, call: Call) -> Seen:
    request_id = response.headers.get(REQUEST_ID, "")
    if 400 <= response.status < 500 and request_id:
        return Rejected(response.status, request_id)
    if response.status != 200:
        return Unknown(f"status {response.status}")
    try:
        document = (
            merge_stream(call.flavor, [event async for event in _events(response)])
            if call.stream
            else usage_document(call.flavor, await response.json())
        )
    except ValueError:
        return Unknown("the answer is not JSON")
    return Unknown("the answer has no final usage") if document is None else Answered(document, request_id)


async def _events(response: aiohttp.ClientResponse) -> Any:
    async for line in response.content:
        data = line.decode().strip().removeprefix("data: ")
        if data.startswith("{"):
            yield json.loads(data)


def _never_sent_cause(error: aiohttp.ClientConnectorError) -> hold_pb2.NeverSentCause.ValueType | None:
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return hold_pb2.NEVER_SENT_CAUSE_DNS_FAILURE
    if isinstance(error, aiohttp.ClientSSLError):
        return hold_pb2.NEVER_SENT_CAUSE_TLS_FAILURE
    if error.errno == errno.ECONNREFUSED or isinstance(error.os_error, ConnectionRefusedError):
        return hold_pb2.NEVER_SENT_CAUSE_CONNECTION_REFUSED
    return None
