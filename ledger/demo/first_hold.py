"""From an empty ledger to a settled hold: a budget of 1000 USD, and a refund of which a payment provider charged 238.50."""

import asyncio
import os

from ledger.client import connect
from ledger.v1 import budget_pb2, hold_pb2, money_pb2

ADDRESS = os.environ.get("LEDGER_ADDRESS", "127.0.0.1:7443")
OPERATION = "refund-1842"


async def main() -> None:
    async with connect(ADDRESS, os.environ["ADMIN_TOKEN"]) as admin:
        budget = budget_pb2.CreateBudgetRequest(
            idempotency_key="create-support", budget_id="support", currency="USD", limit="1000"
        )
        # The server may still be starting.
        await admin.budgets.CreateBudget(budget, wait_for_ready=True, timeout=30)

    async with connect(ADDRESS, os.environ["GATEWAY_TOKEN"]) as ledger:
        # 1. Before the call: set 240 aside, and ask for the permission to send.
        amount = money_pb2.Money(amount="240", currency="USD")
        reserved = await ledger.holds.Reserve(
            hold_pb2.ReserveRequest(
                idempotency_key=f"{OPERATION}/reserve",
                operation_id=OPERATION,
                budget_ids=["support"],
                quote=hold_pb2.QuoteSpec(
                    fixed=hold_pb2.FixedQuote(amount=amount, provider="psp", reason="refund of order 1842")
                ),
                begin_dispatch=True,
                dispatch=hold_pb2.Dispatch(nonce=os.urandom(16).hex()),
            )
        )
        print(f"set aside {reserved.hold.amount.amount}; may send: {reserved.may_send}")

        # 2. If it may, call the provider here, once. No answer? MarkOutcomeUnknown, and the money stays held.

        # 3. After the call: settle on what the provider charged.
        charged = money_pb2.Money(amount="238.50", currency="USD")
        settled = await ledger.holds.Resolve(
            hold_pb2.ResolveRequest(
                idempotency_key=f"{OPERATION}/resolve",
                operation_id=OPERATION,
                usage=hold_pb2.UsageEvidence(
                    source=hold_pb2.EVIDENCE_SOURCE_PROVIDER_RESPONSE,
                    provider="psp",
                    adapter="first-hold",
                    adapter_revision="1",
                    provider_receipt="re_31",
                    charged=charged,
                ),
            )
        )
        found = await ledger.budgets.GetBudget(budget_pb2.GetBudgetRequest(budget_id="support"))
        state = hold_pb2.HoldState.Name(settled.hold.state).removeprefix("HOLD_STATE_")
        print(f"{state} at {settled.hold.resolution.amount.amount}; available: {found.budget.balances.available}")


if __name__ == "__main__":
    asyncio.run(main())
