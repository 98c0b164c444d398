"""Where the provider's webhooks arrive. One is taken when its evidence is durable, and not before."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import web

from ledger.client import Ledger, LedgerError
from ledger.exercise.gateway import usage_of
from ledger.v1 import hold_pb2 as pb


class Receiver:
    """Files what comes as evidence of the source WEBHOOK. A real one would ask for a signature first."""

    def __init__(self, ledger: Ledger) -> None:
        self.url = ""
        self._ledger = ledger

    @asynccontextmanager
    async def serving(self) -> AsyncIterator["Receiver"]:
        """Serves on a free port of loopback, at `url`, until the context is left."""
        app = web.Application()
        app.router.add_post("/webhooks", self._receive)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        try:
            await web.TCPSite(runner, "127.0.0.1", 0).start()
            self.url = f"http://127.0.0.1:{runner.addresses[0][1]}/webhooks"
            yield self
        finally:
            await runner.cleanup()

    async def _receive(self, request: web.Request) -> web.Response:
        body = await request.json()
        evidence = usage_of(body["document"], body["id"], pb.EVIDENCE_SOURCE_WEBHOOK)
        try:
            # A sender who hangs up does not take the filing with him.
            await asyncio.shield(self._ledger.resolve(body["key"], evidence))
        except LedgerError as error:
            return web.json_response({"error": str(error)}, status=503)
        return web.json_response({})
