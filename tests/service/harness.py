"""A real server on loopback, and clients of every role."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import grpc.aio
import pytest

from ledger.client import Client, connect, error_reason
from ledger.domain.model import Role
from ledger.reconcile.expiry import Expiry
from ledger.reconcile.parking import Parking
from ledger.service import tokens
from ledger.service.server import Server
from ledger.settings import Settings
from ledger.v1 import budget_pb2, hold_pb2, money_pb2, price_pb2

ROLES = (Role.GATEWAY, Role.FINANCE, Role.AUDITOR, Role.ADMIN)
NONCE = "0123456789abcdef"


class Ledger:
    """A running server, and one client for each role of the tenant 'acme' and of the tenant 'rival'."""

    def __init__(
        self, server: Server, clients: Mapping[tuple[str, Role], Client], secrets: Mapping[tuple[str, Role], str]
    ) -> None:
        self.server = server
        self._secrets = secrets
        self.address = server.address
        self._clients = clients
        self.gateway, self.finance, self.auditor, self.admin = (clients[("acme", role)] for role in ROLES)

    def token(self, tenant: str, role: Role) -> str:
        return self._secrets[(tenant, role)]

    def rival(self, role: Role) -> Client:
        return self._clients[("rival", role)]

    async def budget(self, budget_id: str = "team", limit: str | None = "100", parent: str = "") -> None:
        await self.admin.budgets.CreateBudget(
            budget_pb2.CreateBudgetRequest(
                idempotency_key=f"create-{budget_id}",
                budget_id=budget_id,
                parent_id=parent,
                currency="USD",
                limit=limit,
            )
        )


def make_tokens(path: Path) -> dict[tuple[str, Role], str]:
    """A file of tokens; the tokens by tenant and role."""
    return {
        (tenant, role): tokens.add(path, tenant=tenant, actor=f"{role.value}-1", role=role, now=datetime.now(UTC))
        for tenant in ("acme", "rival")
        for role in ROLES
    }


@asynccontextmanager
async def serving(database_url: str, folder: Path, **options: Any) -> AsyncIterator[Ledger]:
    """A server until the block is left. `options` are settings; the sweep rests unless sweep_seconds is given."""
    path = folder / "tokens.jsonl"
    secrets = make_tokens(path)
    defaults: dict[str, Any] = {"listen": "127.0.0.1:0", "drain_seconds": 5.0, "sweep_seconds": 3600.0}
    settings = Settings(tokens_file=path, **defaults | options)
    every = settings.sweep_seconds
    server = Server(
        settings,
        database_url,
        lambda engine, reader: (
            Expiry(engine, reader, every),
            Parking(engine, reader, every, settings.parking_seconds),
        ),
    )
    await server.start()
    clients = {who: connect(server.address, token) for who, token in secrets.items()}
    try:
        yield Ledger(server, clients, secrets)
    finally:
        for client in clients.values():
            await client.close()
        await server.drain()


def reserve_request(operation_id: str, amount: str = "1", **fields: Any) -> hold_pb2.ReserveRequest:
    """A reserve of a fixed amount in USD on the budget 'team'."""
    given: dict[str, Any] = {
        "idempotency_key": f"r-{operation_id}",
        "operation_id": operation_id,
        "budget_ids": ["team"],
        "quote": fixed(amount),
    }
    return hold_pb2.ReserveRequest(**given | fields)


def sending_request(operation_id: str, amount: str = "1", **fields: Any) -> hold_pb2.ReserveRequest:
    """The same, born DISPATCHING."""
    dispatch = hold_pb2.Dispatch(nonce=NONCE, executor="worker-1")
    return reserve_request(operation_id, amount, **{"begin_dispatch": True, "dispatch": dispatch} | fields)


def resolve_request(operation_id: str, amount: str = "1", **fields: Any) -> hold_pb2.ResolveRequest:
    """Evidence that the provider charged the amount."""
    usage = hold_pb2.UsageEvidence(
        source=hold_pb2.EVIDENCE_SOURCE_PROVIDER_RESPONSE,
        provider="openai",
        adapter="test",
        adapter_revision="1",
        charged=money_pb2.Money(amount=amount, currency="USD"),
    )
    given: dict[str, Any] = {"idempotency_key": f"s-{operation_id}", "operation_id": operation_id, "usage": usage}
    return hold_pb2.ResolveRequest(**given | fields)


def fixed(amount: str, currency: str = "USD", **fields: Any) -> hold_pb2.QuoteSpec:
    given: dict[str, Any] = {"provider": "openai", "reason": "agreed"}
    money = money_pb2.Money(amount=amount, currency=currency)
    return hold_pb2.QuoteSpec(fixed=hold_pb2.FixedQuote(amount=money, **given | fields))


async def put_card(ledger: Ledger) -> None:
    """The card 'gpt-5' of the tenant 'acme': 1.25 in, 0.125 read from the cache, 10 out."""
    rates = [
        price_pb2.Rate(bucket=bucket, price=price)
        for bucket, price in (("input_tokens", "1.25"), ("cache_read_tokens", "0.125"), ("output_tokens", "10"))
    ]
    card = price_pb2.PriceCard(
        card_id="gpt-5",
        provider="openai",
        model="gpt-5",
        currency="USD",
        rates=rates,
        max_input_tokens=272_000,
        max_output_tokens=128_000,
    )
    await ledger.finance.prices.PutPriceCard(price_pb2.PutPriceCardRequest(idempotency_key="card-1", card=card))


def metered(**ceilings: int) -> hold_pb2.QuoteSpec:
    return hold_pb2.QuoteSpec(metered=hold_pb2.MeteredQuote(card_id="gpt-5", ceilings=ceilings))


async def refusal(call: Any) -> tuple[str, str, dict[str, str]]:
    """The status, reason and metadata with which a call is refused."""
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call
    told = error_reason(caught.value)
    if told is None:
        return caught.value.code().name, "", {}
    return caught.value.code().name, told.reason, dict(told.metadata)


async def invalid(call: Any) -> str:
    """The field that a call is refused for."""
    code, reason, metadata = await refusal(call)
    assert (code, reason) == ("INVALID_ARGUMENT", "INVALID_FIELD")
    return metadata["field"]
