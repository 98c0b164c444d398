"""A provider that takes no money. It keeps a record of what it accepted, whoever hears of it, and lives on when callers die.

POST /v1/calls is answered by lines of JSON: first the id of the call, then its usage. GET /v1/calls?key= tells what was accepted.
"""

import asyncio
import json
import secrets
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Final

import aiohttp
from aiohttp import web

from ledger.demo import replies
from ledger.exercise.boundaries import Modes
from ledger.exercise.sending import CALLS, IDEMPOTENCY_KEY

DOCUMENT: Final = {"model": replies.OPENAI_MODEL, "usage": replies.OPENAI_USAGE}
# A webhook that is not early comes when a caller had time to die; one that is not taken is sent again.
LATE_SECONDS: Final = 0.3
AGAIN_SECONDS: Final = 0.2
WEBHOOK_TRIES: Final = 50


@dataclass(frozen=True, slots=True)
class Acceptance:
    """A request that was executed, and will be charged. `at` is on the monotonic clock."""

    receipt: str
    key: str
    at: float = field(default_factory=time.monotonic)


class Provider:
    """One provider in one mode of behaving. `callback` is where its webhooks go."""

    def __init__(self, modes: Modes, callback: str = "") -> None:
        self.url = ""
        self.looked_up = 0
        self.delivered = 0
        self._modes = modes
        self._callback = callback
        self._accepted: list[Acceptance] = []
        self._sending: set[asyncio.Task[None]] = set()

    @property
    def accepted(self) -> Counter[str]:
        """How many requests of each key were executed: what nobody but the provider knows."""
        return Counter(each.key for each in self._accepted)

    @asynccontextmanager
    async def serving(self) -> AsyncIterator["Provider"]:
        """Serves on a free port of loopback, at `url`, until the context is left."""
        app = web.Application()
        app.router.add_post(CALLS, self._call)
        app.router.add_get(CALLS, self._look_up)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        try:
            await web.TCPSite(runner, "127.0.0.1", 0).start()
            self.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
            yield self
        finally:
            for task in self._sending:
                task.cancel()
            await runner.cleanup()

    async def all_sent(self) -> None:
        """Returns when every webhook that is due was taken, or given up."""
        while self._sending:
            await asyncio.wait(self._sending)

    async def _call(self, request: web.Request) -> web.StreamResponse:
        key = request.headers.get(IDEMPOTENCY_KEY, "")
        await request.read()
        acceptance = self._known(key) or self._accept(key)
        if self._modes.early:
            # Not for ever: while nobody takes them, the answer does not wait.
            await asyncio.wait(self._sending, timeout=2 * AGAIN_SECONDS)
        if self._modes.loses and len(self._accepted) % self._modes.loses == 0:
            assert request.transport is not None
            request.transport.abort()
            return web.Response()
        answer = web.StreamResponse(headers={"Content-Type": "application/jsonl"})
        # Who asked may be dead by now, which changes nothing.
        with suppress(ConnectionError):
            await answer.prepare(request)
            for line in ({"id": acceptance.receipt}, self._record(acceptance)):
                await answer.write(json.dumps(line).encode() + b"\n")
            await answer.write_eof()
        return answer

    def _known(self, key: str) -> Acceptance | None:
        if not self._modes.idempotent:
            return None
        return next((each for each in self._accepted if each.key == key), None)

    def _accept(self, key: str) -> Acceptance:
        """From here the request is executed and charged, whatever becomes of the answer."""
        # Of no other provider either: the ledger takes a receipt for one operation only.
        acceptance = Acceptance(f"call-{secrets.token_hex(6)}", key)
        self._accepted.append(acceptance)
        for _ in range(self._modes.webhooks):
            task = asyncio.create_task(self._send_webhook(acceptance))
            self._sending.add(task)
            task.add_done_callback(self._sending.discard)
        return acceptance

    def _record(self, acceptance: Acceptance) -> dict[str, Any]:
        published = time.monotonic() >= acceptance.at + self._modes.usage_seconds
        return {"id": acceptance.receipt, "document": DOCUMENT if published else None}

    async def _look_up(self, request: web.Request) -> web.Response:
        self.looked_up += 1
        if not self._modes.look_up:
            return web.json_response({"error": "this provider has no look-up"}, status=404)
        key = request.query["key"]
        return web.json_response({"calls": [self._record(each) for each in self._accepted if each.key == key]})

    async def _send_webhook(self, acceptance: Acceptance) -> None:
        """At least once, as webhooks are: until it is taken."""
        await asyncio.sleep(0 if self._modes.early else LATE_SECONDS)
        body = {"key": acceptance.key, "id": acceptance.receipt, "document": DOCUMENT}
        async with aiohttp.ClientSession() as session:
            for _ in range(WEBHOOK_TRIES):
                try:
                    async with session.post(self._callback, json=body) as answer:
                        if answer.status == 200:
                            self.delivered += 1
                            return
                except aiohttp.ClientError:
                    pass
                await asyncio.sleep(AGAIN_SECONDS)
