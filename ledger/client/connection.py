"""A channel to the ledger, with its services on it."""

import asyncio
import contextlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import grpc
import grpc.aio

from ledger.client.errors import error_info
from ledger.v1.budget_pb2_grpc import BudgetServiceStub
from ledger.v1.evidence_pb2_grpc import EvidenceServiceStub
from ledger.v1.feed_pb2_grpc import FeedServiceStub
from ledger.v1.hold_pb2_grpc import HoldServiceStub
from ledger.v1.journal_pb2_grpc import JournalServiceStub
from ledger.v1.price_pb2_grpc import PriceServiceStub
from ledger.v1.write_pb2_grpc import WriteServiceStub

if TYPE_CHECKING:
    # These exist for type checkers alone: a stub on a channel of grpc.aio answers with awaitables.
    from ledger.v1.budget_pb2_grpc import BudgetServiceAsyncStub
    from ledger.v1.evidence_pb2_grpc import EvidenceServiceAsyncStub
    from ledger.v1.feed_pb2_grpc import FeedServiceAsyncStub
    from ledger.v1.hold_pb2_grpc import HoldServiceAsyncStub
    from ledger.v1.journal_pb2_grpc import JournalServiceAsyncStub
    from ledger.v1.price_pb2_grpc import PriceServiceAsyncStub
    from ledger.v1.write_pb2_grpc import WriteServiceAsyncStub

# A server that is away is looked for again soon, and for ever. An idle connection sends one ping in half a minute, so that a dead
# one is known (servers allow one in ten seconds). gRPC's own retries are off: they would be a second layer with other rules.
_OPTIONS = (
    ("grpc.enable_retries", 0),
    ("grpc.keepalive_time_ms", 30_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 1_000),
    ("grpc.max_reconnect_backoff_ms", 3_000),
)

Stub = TypeVar("Stub")


class ErrorInfo(NamedTuple):
    """Why the ledger refused: a name of ErrorReason without its prefix, and facts about it."""

    reason: str
    metadata: Mapping[str, str]


class Client:
    """The services of the ledger. To be closed, or used as `async with connect(…) as client`."""

    def __init__(self, channel: grpc.aio.Channel, token: str) -> None:
        header = ("authorization", f"Bearer {token}")
        self.closed = False
        self.channel = channel
        self.holds: HoldServiceAsyncStub = _authorize(HoldServiceStub(channel), header)
        self.budgets: BudgetServiceAsyncStub = _authorize(BudgetServiceStub(channel), header)
        self.prices: PriceServiceAsyncStub = _authorize(PriceServiceStub(channel), header)
        self.evidence: EvidenceServiceAsyncStub = _authorize(EvidenceServiceStub(channel), header)
        self.journal: JournalServiceAsyncStub = _authorize(JournalServiceStub(channel), header)
        self.feed: FeedServiceAsyncStub = _authorize(FeedServiceStub(channel), header)
        self.writes: WriteServiceAsyncStub = _authorize(WriteServiceStub(channel), header)

    async def connected(self, until: Callable[[], float | None]) -> bool:
        """Waits for a connection: what meets no wire is known not to have been sent. False: there was none, or will be none.

        `until` is asked how long, on the loop's clock, whenever that time is over; None: nobody waits any more.
        """
        while (state := self.channel.get_state(try_to_connect=True)) is not grpc.ChannelConnectivity.READY:
            ends = until()
            if ends is None or state is grpc.ChannelConnectivity.SHUTDOWN:
                return False
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout_at(ends):
                    await self.channel.wait_for_state_change(state)
        return True

    async def close(self) -> None:
        self.closed = True
        await self.channel.close()

    async def __aenter__(self) -> "Client":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()


def connect(
    address: str,
    token: str,
    *,
    root_certificate: Path | None = None,
    credentials: grpc.ChannelCredentials | None = None,
    max_message_bytes: int = 16 * 1024 * 1024,
) -> Client:
    """A client of the server at `host:port`. With neither of the two the channel is not encrypted: for one machine only.

    `root_certificate` is a PEM file of the certificates by one of which the server's own must be signed. `credentials` are gRPC's,
    for everything else: `grpc.ssl_channel_credentials()` goes by the public authorities that gRPC brings.
    Raises OSError if the file cannot be read, ValueError if it holds no certificate, or for both.
    """
    if root_certificate is not None:
        if credentials is not None:
            raise ValueError("give root_certificate or credentials, and not both")
        signers = root_certificate.read_bytes()
        if b"BEGIN CERTIFICATE" not in signers:
            # gRPC would go on without a word, and never get through.
            raise ValueError(f"{root_certificate} holds no certificate: name a PEM file")
        credentials = grpc.ssl_channel_credentials(root_certificates=signers)
    options = (
        *_OPTIONS,
        ("grpc.max_receive_message_length", max_message_bytes),
        ("grpc.max_send_message_length", max_message_bytes),
    )
    if credentials is None:
        return Client(grpc.aio.insecure_channel(address, options), token)
    return Client(grpc.aio.secure_channel(address, credentials, options), token)


def error_reason(error: BaseException) -> ErrorInfo | None:
    """The reason of a failed call of a stub; None if the ledger gave none (the network's failures, for example)."""
    info = error_info(error)
    return None if info is None else ErrorInfo(info.reason, dict(info.metadata))


class _Authorized:
    """A call of a stub with the token among its metadata.

    An interceptor would do the same for a task per call, which is a third of what an empty call costs.
    """

    def __init__(self, call: Callable[..., Any], header: tuple[str, str]) -> None:
        self._call = call
        self._header = header

    def __call__(self, request: Any, *, metadata: Sequence[tuple[str, str | bytes]] = (), **options: Any) -> Any:
        return self._call(request, metadata=(*metadata, self._header), **options)


def _authorize(stub: Stub, header: tuple[str, str]) -> Stub:
    for name, call in vars(stub).items():
        setattr(stub, name, _Authorized(call, header))
    return stub
