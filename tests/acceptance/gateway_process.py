"""A gateway in a process of its own, to be killed: it makes one call under a hold."""

import asyncio
import sys

import aiohttp

from ledger.client import Ledger
from ledger.demo import replies
from ledger.demo.gateway import Call, Gateway, send


async def main(address: str, token: str, operation: str, provider_url: str) -> None:
    """Reserves, dispatches and sends to the provider; without a provider it stops after the reserve."""
    call = Call(operation, provider_url, "openai.chat", replies.OPENAI_MODEL, "team", {}, patience=3600)
    async with Ledger.connect(address, token) as ledger, aiohttp.ClientSession() as session:
        guard = Gateway(ledger, session).guard(call, dispatch=bool(provider_url))
        async with guard:
            print("reserved", flush=True)
            await (send(session, call) if provider_url else asyncio.sleep(3600))


asyncio.run(main(*sys.argv[1:]))
