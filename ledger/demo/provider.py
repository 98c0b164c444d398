"""A provider that takes no money: OpenAI and Anthropic shaped answers over HTTP on loopback, and every way to lose one.

A request says in the header MODE how it wants to be treated. What was accepted is on record, whether or not the caller ever
heard of it; like many real ones, this provider executes the same request twice if it is sent twice.
"""

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from aiohttp import web

from ledger.demo import replies

MODE = "X-Demo-Mode"
IDEMPOTENCY_KEY = "Idempotency-Key"
REQUEST_ID = "X-Request-Id"


class Mode(StrEnum):
    """How a request is treated. All but REFUSE are accepted, that is: executed and charged."""

    NORMAL = "normal"
    # Charged, and the connection is closed without an answer.
    LOST_REPLY = "lost-reply"
    # As LOST_REPLY, and the record of it is not published yet.
    LATE_RECORD = "late-record"
    # Charged, and answered after `delay` seconds.
    DELAYED = "delayed"
    # Charged, and the stream is closed before its end.
    CUT_STREAM = "cut-stream"
    # Executed, with a usage of zero.
    ZERO_USAGE = "zero-usage"
    # Not executed: 429.
    REFUSE = "refuse"


@dataclass(frozen=True, slots=True)
class Acceptance:
    """One request that the provider executed, and its usage document."""

    receipt: str
    idempotency_key: str
    published: bool
    document: Mapping[str, Any]

    def to_json(self) -> dict[str, Any]:
        return {"receipt": self.receipt, "idempotency_key": self.idempotency_key, **self.document}


@dataclass(frozen=True, slots=True)
class Api:
    """One of the APIs: what it is called, and how it answers."""

    receipt_prefix: str
    model: str
    usage: Mapping[str, Any]
    zero: Mapping[str, Any]
    refusal: Mapping[str, Any]
    body: Callable[[str, Mapping[str, Any]], Mapping[str, Any]]
    stream: Callable[[str, Mapping[str, Any]], list[str]]


OPENAI = Api(
    receipt_prefix="chatcmpl",
    model=replies.OPENAI_MODEL,
    usage=replies.OPENAI_USAGE,
    zero=replies.OPENAI_ZERO,
    refusal={"error": {"type": "rate_limit_exceeded", "message": "Rate limit reached."}},
    body=replies.openai_body,
    stream=replies.openai_stream,
)
ANTHROPIC = Api(
    receipt_prefix="msg",
    model=replies.ANTHROPIC_MODEL,
    usage=replies.ANTHROPIC_USAGE,
    zero=replies.ANTHROPIC_ZERO,
    refusal={"type": "error", "error": {"type": "rate_limit_error", "message": "Rate limit reached."}},
    body=replies.anthropic_body,
    stream=replies.anthropic_stream,
)


class FakeProvider:
    """The provider and its books. `delay` is how long a DELAYED answer takes, in seconds."""

    def __init__(self, delay: float = 5.0) -> None:
        self.delay = delay
        self.url = ""
        self._accepted: dict[str, Acceptance] = {}
        self._numbers = itertools.count(1)

    def acceptances(self, idempotency_key: str) -> int:
        """How many requests with this key were executed: what nobody but the provider knows."""
        return sum(accepted.idempotency_key == idempotency_key for accepted in self._accepted.values())

    @asynccontextmanager
    async def serving(self, host: str = "127.0.0.1") -> AsyncIterator["FakeProvider"]:
        """Serves on a free port, at `url`, until the context is left."""
        app = web.Application()
        app.router.add_post("/v1/chat/completions", self._openai)
        app.router.add_post("/v1/messages", self._anthropic)
        app.router.add_get("/records", self._records)
        app.router.add_get("/records/{receipt}", self._record)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        try:
            await web.TCPSite(runner, host, 0).start()
            self.url = f"http://{host}:{runner.addresses[0][1]}"
            yield self
        finally:
            await runner.cleanup()

    async def _openai(self, request: web.Request) -> web.StreamResponse:
        return await self._call(OPENAI, request)

    async def _anthropic(self, request: web.Request) -> web.StreamResponse:
        return await self._call(ANTHROPIC, request)

    async def _call(self, api: Api, request: web.Request) -> web.StreamResponse:
        asked = await request.json()
        mode = Mode(request.headers.get(MODE, Mode.NORMAL))
        if mode is Mode.REFUSE:
            return web.json_response(api.refusal, status=429, headers={REQUEST_ID: f"req-{next(self._numbers):04d}"})
        usage = api.zero if mode is Mode.ZERO_USAGE else api.usage
        receipt = f"{api.receipt_prefix}-{next(self._numbers):04d}"
        key = request.headers.get(IDEMPOTENCY_KEY, "")
        published = mode is not Mode.LATE_RECORD
        self._accepted[receipt] = Acceptance(receipt, key, published, {"model": api.model, "usage": usage})
        # From here the request is executed and charged, whatever becomes of the answer.
        if mode in (Mode.LOST_REPLY, Mode.LATE_RECORD):
            return _hang_up(request)
        if mode is Mode.DELAYED:
            await asyncio.sleep(self.delay)
        if not asked.get("stream"):
            return web.json_response(api.body(receipt, usage), headers={REQUEST_ID: receipt})
        answer = web.StreamResponse(headers={"Content-Type": "text/event-stream", REQUEST_ID: receipt})
        await answer.prepare(request)
        lines = api.stream(receipt, usage)
        for line in lines[: len(lines) // 2] if mode is Mode.CUT_STREAM else lines:
            await answer.write(line.encode())
        if mode is Mode.CUT_STREAM:
            return _hang_up(request, answer)
        await answer.write_eof()
        return answer

    async def _records(self, request: web.Request) -> web.Response:
        key = request.query.get("idempotency_key", "")
        found = [a.to_json() for a in self._accepted.values() if a.published and a.idempotency_key == key]
        return web.json_response({"records": found})

    async def _record(self, request: web.Request) -> web.Response:
        accepted = self._accepted.get(request.match_info["receipt"])
        if accepted is None or not accepted.published:
            return web.json_response({"error": "no such record"}, status=404)
        return web.json_response(accepted.to_json())


def _hang_up(request: web.Request, answer: web.StreamResponse | None = None) -> web.StreamResponse:
    """Closes the connection where it stands: the caller gets nothing more, not even an end."""
    if request.transport is not None:
        request.transport.close() if answer is not None else request.transport.abort()
    return answer or web.Response()
