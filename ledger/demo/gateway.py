"""An example gateway: how a program that calls a provider uses the ledger.

Set money aside and get the permission to send, in one commit. Send once. Then say what is known about the outcome, and no
more: usage that the provider gave, a proof that nothing was sent or executed, or that nobody knows.
"""

import errno
import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import aiohttp

from ledger.client import Client
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

    def __init__(self, ledger: Client, session: aiohttp.ClientSession) -> None:
        self.ledger = ledger
        self.session = session

    async def call(self, call: Call) -> tuple[Seen, hold_pb2.Hold]:
        """Makes a call: what was seen of it, and its hold afterwards. Raises grpc.aio.AioRpcError if the ledger refuses."""
        reservation = self.reservation(call)
        reserved = await self.ledger.holds.Reserve(reservation)
        if not reserved.may_send:
            return Unknown("another process was given the permission to send"), reserved.hold
        seen = await send(self.session, call)
        return seen, await self.report(call, seen, reservation.dispatch.nonce)

    def reservation(self, call: Call) -> hold_pb2.ReserveRequest:
        """The request that sets the money aside and asks for the permission to send."""
        quote = hold_pb2.MeteredQuote(
            card_id=call.model, model=call.model, api_flavor=call.flavor, ceilings=dict(call.ceilings)
        )
        return hold_pb2.ReserveRequest(
            idempotency_key=f"{call.operation_id}/reserve",
            operation_id=call.operation_id,
            budget_ids=[call.budget_id],
            quote=hold_pb2.QuoteSpec(metered=quote),
            request_group=call.request_group,
            labels=dict(call.labels),
            begin_dispatch=True,
            # Lives in the memory of this process only: a copy of this request elsewhere is not given the permission.
            dispatch=hold_pb2.Dispatch(nonce=secrets.token_hex(16), executor=ADAPTER),
        )

    async def report(self, call: Call, seen: Seen, nonce: str = "") -> hold_pb2.Hold:
        """Tells the ledger what was seen, and gives the hold as it is then.

        The nonce of the attempt shows that this process is the one that would have sent: without it nobody is believed that
        nothing was.
        """
        if isinstance(seen, Unknown):
            marked = await self.ledger.holds.MarkOutcomeUnknown(
                hold_pb2.MarkOutcomeUnknownRequest(
                    idempotency_key=f"{call.operation_id}/unknown",
                    operation_id=call.operation_id,
                    observation=seen.observation,
                )
            )
            return marked.hold
        request = hold_pb2.ResolveRequest(
            idempotency_key=f"{call.operation_id}/resolve", operation_id=call.operation_id
        )
        if isinstance(seen, Answered):
            source = hold_pb2.EVIDENCE_SOURCE_PROVIDER_RESPONSE
            request.usage.CopyFrom(usage_evidence(call.flavor, seen.document, seen.provider_receipt, source))
        elif isinstance(seen, NeverSent):
            request.no_cost.CopyFrom(_proof(kind=hold_pb2.NO_COST_KIND_NEVER_SENT, cause=seen.cause, nonce=nonce))
        else:
            request.no_cost.CopyFrom(
                _proof(
                    kind=hold_pb2.NO_COST_KIND_REJECTED_BEFORE_EXECUTION,
                    provider_status=seen.status,
                    provider_request_id=seen.request_id,
                )
            )
        return (await self.ledger.holds.Resolve(request)).hold


def usage_evidence(
    flavor: str, document: Mapping[str, Any], provider_receipt: str, source: hold_pb2.EvidenceSource.ValueType
) -> hold_pb2.UsageEvidence:
    """A usage document as evidence. It holds numbers and names, and nothing of what was said."""
    return hold_pb2.UsageEvidence(
        source=source,
        provider=FLAVORS[flavor].provider,
        adapter=ADAPTER,
        adapter_revision=ADAPTER_REVISION,
        provider_receipt=provider_receipt,
        provider_usage=hold_pb2.ProviderUsage(api_flavor=flavor, json=json.dumps(document)),
    )


def _proof(**facts: Any) -> hold_pb2.NoCostProof:
    return hold_pb2.NoCostProof(adapter=ADAPTER, adapter_revision=ADAPTER_REVISION, **facts)


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
