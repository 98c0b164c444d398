"""A channel to the ledger, with the four services on it."""

from collections.abc import Awaitable, Callable, Mapping
from types import TracebackType
from typing import Any, NamedTuple, TypeAlias, cast

import grpc
import grpc.aio
from google.rpc import error_details_pb2, status_pb2

from ledger.v1.budget_pb2_grpc import BudgetServiceAsyncStub, BudgetServiceStub
from ledger.v1.hold_pb2_grpc import HoldServiceAsyncStub, HoldServiceStub
from ledger.v1.journal_pb2_grpc import JournalServiceAsyncStub, JournalServiceStub
from ledger.v1.price_pb2_grpc import PriceServiceAsyncStub, PriceServiceStub

DOMAIN = "ledger.v1"
_DETAILS_KEY = "grpc-status-details-bin"
_Continue: TypeAlias = Callable[[grpc.aio.ClientCallDetails, Any], Awaitable[Any]]


class Refused(NamedTuple):
    """Why the ledger refused: a name of ErrorReason without its prefix, and facts about it."""

    reason: str
    metadata: Mapping[str, str]


class Client:
    """The services of the ledger. To be closed, or used as `async with connect(…) as client`."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._channel = channel
        self.holds: HoldServiceAsyncStub = HoldServiceStub(channel)
        self.budgets: BudgetServiceAsyncStub = BudgetServiceStub(channel)
        self.prices: PriceServiceAsyncStub = PriceServiceStub(channel)
        self.journal: JournalServiceAsyncStub = JournalServiceStub(channel)

    async def close(self) -> None:
        await self._channel.close()

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
    credentials: grpc.ChannelCredentials | None = None,
    max_message_bytes: int = 16 * 1024 * 1024,
) -> Client:
    """A client of the server at `host:port`. Without `credentials` the channel is not encrypted: for one machine only."""
    options = (
        ("grpc.max_receive_message_length", max_message_bytes),
        ("grpc.max_send_message_length", max_message_bytes),
    )
    interceptors = (_Bearer(token),)
    if credentials is None:
        return Client(grpc.aio.insecure_channel(address, options, interceptors=interceptors))
    return Client(grpc.aio.secure_channel(address, credentials, options, interceptors=interceptors))


def error_reason(error: BaseException) -> Refused | None:
    """The reason of a failed call; None if the ledger gave none (the network's failures, for example)."""
    if not isinstance(error, grpc.aio.AioRpcError):
        return None
    for key, value in error.trailing_metadata() or ():
        if key == _DETAILS_KEY and isinstance(value, bytes):
            for detail in status_pb2.Status.FromString(value).details:
                info = error_details_pb2.ErrorInfo()
                if detail.Unpack(info) and info.domain == DOMAIN:
                    return Refused(info.reason, dict(info.metadata))
    return None


class _Bearer(grpc.aio.UnaryUnaryClientInterceptor):
    """Adds the token to each call. It is never written anywhere else."""

    def __init__(self, token: str) -> None:
        self._header = ("authorization", f"Bearer {token}")

    async def intercept_unary_unary(
        self, continuation: _Continue, client_call_details: grpc.aio.ClientCallDetails, request: Any
    ) -> Any:
        metadata = grpc.aio.Metadata(*(client_call_details.metadata or ()), self._header)
        details = grpc.aio.ClientCallDetails(
            client_call_details.method,
            client_call_details.timeout,
            metadata,
            client_call_details.credentials,
            client_call_details.wait_for_ready,
        )
        return await continuation(cast("grpc.aio.ClientCallDetails", details), request)
