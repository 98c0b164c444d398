"""The boundary that every call passes: who is it, may it, and how is a refusal or a fault told.

A method's handler is wrapped once, when it is called first; after that a call costs one look-up of its token.
"""

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing
from contextvars import ContextVar
from typing import Any, Protocol, TypeAlias, cast

import grpc
import grpc.aio
from google.protobuf.message import DecodeError

from ledger.domain.model import Caller
from ledger.domain.refusals import Reason, Refusal
from ledger.service.access import OPEN, REFLECTION, ROLES, denied
from ledger.service.errors import CATALOGUE, Refused, abort
from ledger.service.translate.fields import InvalidField

log = logging.getLogger("ledger.service")

Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"
Handler: TypeAlias = "grpc.RpcMethodHandler[Any, Any]"
_Method: TypeAlias = Callable[[Any, Context], Awaitable[Any]]
_Stream: TypeAlias = Callable[[Any, Context], AsyncGenerator[Any, None]]

_caller: ContextVar[Caller] = ContextVar("caller")
_SCHEME = "bearer "
_UNAUTHENTICATED = Refusal(Reason.UNAUTHENTICATED, CATALOGUE[Reason.UNAUTHENTICATED].sentence)
_MALFORMED = Refusal(Reason.INVALID_FIELD, "The message cannot be read: send the contract's protobuf.", {"field": ""})
_INTERNAL = Refusal(
    Reason.INTERNAL, "A fault of the server. Ask again with the same idempotency key to learn what was done."
)
_THROTTLED = Refusal(Reason.THROTTLED, "Too many calls at once; nothing was done. Ask again after a pause.")


class Directory(Protocol):
    """Whose token is it? None if nobody's."""

    def lookup(self, token: str, /) -> Caller | None: ...


def caller() -> Caller:
    """Who makes the call that is being answered."""
    return _caller.get()


class Boundary(grpc.aio.ServerInterceptor):
    """Wraps every method. What access.py does not name is refused to everybody; so are calls beyond `limit` at a time."""

    def __init__(self, directory: Directory, *, limit: int, reflection: bool = False) -> None:
        self._directory = directory
        self._limit = limit
        self._open_calls = 0
        self._idle = asyncio.Event()
        self._idle.set()
        self._public = OPEN | REFLECTION if reflection else OPEN
        self._wrapped: dict[str, Handler] = {}

    async def idle(self) -> None:
        """Waits until no call is in progress. Streams are not counted: they end when they are told to, or never."""
        await self._idle.wait()

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable["Handler | None"]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> "Handler | None":
        method = handler_call_details.method
        known = self._wrapped.get(method)
        if known is not None:
            return known
        handler = await continuation(handler_call_details)
        if handler is None or method in self._public:
            return handler
        if (handler.unary_unary is None and handler.unary_stream is None) or method not in ROLES:
            return grpc.unary_unary_rpc_method_handler(_nobody)
        wrapped = self._wrap(method, handler) if handler.unary_unary is not None else self._wrap_stream(method, handler)
        self._wrapped[method] = wrapped
        return wrapped

    def _wrap(self, method: str, handler: Handler) -> Handler:
        answer = cast(_Method, handler.unary_unary)
        read = handler.request_deserializer
        assert read is not None, "the contract's messages are protobuf"

        async def bounded(request: bytes, context: Context) -> Any:
            started = time.perf_counter()
            who: Caller | None = None
            self._begin()
            try:
                who = self._known(context)
                self._admit(method, who)
                response = await answer(_read(read, request), context)
            except Exception as error:
                await abort(context, _told(method, who, error, started))
            finally:
                self._end()
            if log.isEnabledFor(logging.DEBUG):
                log.debug("answered", extra=_facts(method, who, None, started))
            return response

        # Without a deserializer: the bytes of a stranger are not read. A message can take fifty times its size in memory.
        return grpc.unary_unary_rpc_method_handler(bounded, response_serializer=handler.response_serializer)

    def _wrap_stream(self, method: str, handler: Handler) -> Handler:
        answer = cast(_Stream, handler.unary_stream)
        read = handler.request_deserializer
        assert read is not None, "the contract's messages are protobuf"

        async def bounded(request: bytes, context: Context) -> AsyncIterator[Any]:
            started = time.perf_counter()
            who: Caller | None = None
            try:
                who = self._known(context)
                self._admit(method, who)
                async with aclosing(answer(_read(read, request), context)) as responses:
                    async for response in responses:
                        # A stream outlives the look at its token: one that was taken back gets nothing more.
                        if self._asks(context) != who:
                            raise Refused(_UNAUTHENTICATED)
                        yield response
            except Exception as error:
                await abort(context, _told(method, who, error, started))
            if log.isEnabledFor(logging.DEBUG):
                log.debug("ended", extra=_facts(method, who, None, started))

        return grpc.unary_stream_rpc_method_handler(bounded, response_serializer=handler.response_serializer)

    def _begin(self) -> None:
        self._open_calls += 1
        self._idle.clear()

    def _end(self) -> None:
        self._open_calls -= 1
        if not self._open_calls:
            self._idle.set()

    def _known(self, context: Context) -> Caller:
        """Who calls. Raises Refused if nobody knows, or if there are too many calls to look."""
        if self._open_calls > self._limit:
            raise Refused(_THROTTLED)
        who = self._asks(context)
        if who is None:
            raise Refused(_UNAUTHENTICATED)
        return who

    def _asks(self, context: Context) -> Caller | None:
        token = _token(context)
        return None if token is None else self._directory.lookup(token)

    def _admit(self, method: str, who: Caller) -> None:
        """Lets the call in. The role comes before the content: who may not call learns nothing about fields."""
        refusal = denied(method, who)
        if refusal is not None:
            raise Refused(refusal)
        _caller.set(who)


async def _nobody(_request: bytes, context: Context) -> bytes:
    await abort(context, Refusal(Reason.ROLE_NOT_ALLOWED, "This call is open to no role."))


def _token(context: Context) -> str | None:
    """The bearer token among the call's metadata."""
    for key, value in cast("Sequence[tuple[str, str | bytes]]", context.invocation_metadata() or ()):
        if key == "authorization" and isinstance(value, str) and value[:7].lower() == _SCHEME:
            return value[7:]
    return None


def _read(read: Callable[[bytes], Any], raw: bytes) -> Any:
    """Reads a message; one that cannot be read is told as a malformed request, not as a fault of the server."""
    try:
        return read(raw)
    except DecodeError:
        raise Refused(_MALFORMED) from None


def _told(method: str, who: Caller | None, error: Exception, started: float) -> Refusal:
    """What the caller is told of what ended its call, which is logged.

    Business refusals are answers and go to DEBUG; what an operator should see goes higher.
    """
    if not isinstance(error, (Refused, InvalidField)):
        log.error("failed", exc_info=error, extra=_facts(method, who, Reason.INTERNAL, started))
        return _INTERNAL
    refusal = error.refusal
    level = _LEVELS.get(refusal.reason, logging.DEBUG)
    if log.isEnabledFor(level):
        log.log(level, "refused", extra=_facts(method, who, refusal.reason, started))
    return refusal


_LEVELS = {
    Reason.UNAUTHENTICATED: logging.WARNING,
    Reason.ROLE_NOT_ALLOWED: logging.WARNING,
    Reason.THROTTLED: logging.WARNING,
    Reason.CONTENTION: logging.WARNING,
    Reason.DEADLINE_PASSED: logging.INFO,
    Reason.UNKNOWN_WRITE_OUTCOME: logging.ERROR,
    Reason.STORE_UNAVAILABLE: logging.ERROR,
    Reason.INTERNAL: logging.ERROR,
}


def _facts(method: str, who: Caller | None, reason: Reason | None, started: float) -> dict[str, object]:
    """What is logged of a call: never its content."""
    facts: dict[str, object] = {"method": method, "duration_ms": round((time.perf_counter() - started) * 1000, 3)}
    if who is not None:
        facts |= {"tenant": who.tenant, "actor": who.actor}
    if reason is not None:
        facts |= {"reason": reason.value, "code": CATALOGUE[reason].code.name}
    return facts
