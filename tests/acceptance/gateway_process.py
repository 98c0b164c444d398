"""A gateway in a process of its own, to be killed: it makes one call under a hold that it has one second to send, or to settle."""

import asyncio
import sys

import aiohttp

from ledger.client import connect
from ledger.demo import replies
from ledger.demo.gateway import Call, Gateway, send


async def main(address: str, token: str, operation: str, provider_url: str) -> None:
    """Reserves, dispatches and sends to the provider; without a provider it stops after the reserve."""
    call = Call(operation, provider_url, "openai.chat", replies.OPENAI_MODEL, "team", {}, patience=3600)
    async with connect(address, token) as ledger, aiohttp.ClientSession() as session:
        request = Gateway(ledger, session).reservation(call)
        request.ttl.seconds = request.dispatch.lease.seconds = 1
        if not provider_url:
            request.begin_dispatch = False
            request.ClearField("dispatch")
        await ledger.holds.Reserve(request)
        print("reserved", flush=True)
        await (send(session, call) if provider_url else asyncio.sleep(3600))


asyncio.run(main(*sys.argv[1:]))
