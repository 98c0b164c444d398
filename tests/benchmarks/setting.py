"""What every trial starts from: two callers, a price card, a thousand budgets and a tree, in a database that is copied."""

from datetime import UTC, datetime
from pathlib import Path

import grpc

from ledger.domain.model import Caller, Role
from ledger.service import tokens
from ledger.v1.budget_pb2_grpc import BudgetServiceStub
from ledger.v1.price_pb2_grpc import PriceServiceStub
from tests.benchmarks import workload
from tests.benchmarks.postgres import Databases
from tests.benchmarks.servers import servers

TEMPLATE = "bench_template"
# The budgets after the others stand one below the other.
LEVELS = 4
GATEWAY = Caller("bench", "gateway", Role.GATEWAY)
ADMIN = Caller("bench", "admin", Role.ADMIN)


def make(databases: Databases, tokens_file: Path, budgets: int) -> str:
    """Makes the template database through the service itself; gives the gateway's token."""
    token, admin = (
        tokens.add(tokens_file, tenant=who.tenant, actor=who.actor, role=who.role, now=datetime.now(UTC))
        for who in (GATEWAY, ADMIN)
    )
    with (
        servers(databases.migrated(TEMPLATE), tokens_file) as (server,),
        grpc.insecure_channel(server.target) as channel,
    ):
        metadata = (("authorization", f"Bearer {admin}"),)
        PriceServiceStub(channel).PutPriceCard(workload.put_price_card(), metadata=metadata)
        create = BudgetServiceStub(channel).CreateBudget
        made = [create.future(workload.create_budget(number), metadata=metadata) for number in range(budgets)]
        for call in made:
            call.result()
        for number in range(budgets, budgets + LEVELS):
            create(workload.create_budget(number, None if number == budgets else number - 1), metadata=metadata)
    return token
