"""What every case needs around it: books with a price, and where webhooks and refused connections go."""

import os
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Final

from ledger.client import Ledger
from ledger.demo.books import CURRENCY, PROVIDERS, RATES
from ledger.demo.ports import closed_port
from ledger.demo.replies import OPENAI_MODEL
from ledger.demo.stage import Stage
from ledger.exercise.webhooks import Receiver
from ledger.v1 import price_pb2

BUDGET: Final = "exercise"


@dataclass(frozen=True, slots=True)
class Scene:
    """Where the ledger is and who calls it, where webhooks are taken, and a port at which every connection is refused."""

    address: str
    gateway_token: str
    finance: Ledger
    webhooks_url: str
    closed_url: str
    environment: Mapping[str, str]


@asynccontextmanager
async def scene_on(set_up: Stage) -> AsyncIterator[Scene]:
    """Opens the books on a stage, and connects to it."""
    async with AsyncExitStack() as stack:
        gateway, finance, admin = [
            await stack.enter_async_context(Ledger.connect(set_up.address, set_up.tokens[role]))
            for role in ("gateway", "finance", "admin")
        ]
        await _open_books(admin)
        receiver = await stack.enter_async_context(Receiver(gateway).serving())
        yield Scene(
            address=set_up.address,
            gateway_token=set_up.tokens["gateway"],
            finance=finance,
            webhooks_url=receiver.url,
            closed_url=stack.enter_context(closed_port()),
            environment=os.environ,
        )


async def _open_books(admin: Ledger) -> None:
    await admin.create_budget(BUDGET, currency=CURRENCY)
    card = price_pb2.PriceCard(
        card_id=OPENAI_MODEL,
        provider=PROVIDERS[OPENAI_MODEL],
        model=OPENAI_MODEL,
        currency=CURRENCY,
        rates=[price_pb2.Rate(bucket=bucket, price=price) for bucket, price in RATES[OPENAI_MODEL].items()],
    )
    request = price_pb2.PutPriceCardRequest(idempotency_key=f"card/{OPENAI_MODEL}", card=card)
    await admin.ask(admin.stubs.prices.PutPriceCard, request)
