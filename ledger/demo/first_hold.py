"""From an empty ledger to a settled hold: a budget of 1000 USD, and a refund of which a payment provider charged 238.50."""

import asyncio
import os
from datetime import timedelta
from decimal import Decimal

from ledger.client import Ledger, NotPermitted, fixed_quote
from ledger.v1 import hold_pb2

ADDRESS = os.environ.get("LEDGER_ADDRESS", "127.0.0.1:7443")
OPERATION = "refund-1842"


async def main() -> None:
    # The server may still be starting: the client waits for it.
    async with Ledger.connect(ADDRESS, os.environ["ADMIN_TOKEN"], timeout=timedelta(seconds=30)) as admin:
        await admin.create_budget("support", currency="USD", limit=1000)

    async with Ledger.connect(ADDRESS, os.environ["GATEWAY_TOKEN"]) as ledger:
        quote = fixed_quote(240, "USD", provider="psp", reason="refund of order 1842")
        try:
            # 1. Before the call: set 240 aside, and ask for the permission to send.
            async with ledger.guard(OPERATION, budgets=["support"], quote=quote, dispatch=True) as operation:
                print(f"set aside {operation.hold.amount.amount}; may send: {operation.may_send}")

                # 2. Call the provider here, once. If that raises, the outcome is unknown and the money stays held.

                # 3. After the call: settle on what the provider charged.
                await operation.settle(charged=(Decimal("238.50"), "USD"), receipt="re_31")
        except NotPermitted as denied:
            print(denied)
        hold, budget = await ledger.get_hold(OPERATION), await ledger.get_budget("support")
        state = hold_pb2.HoldState.Name(hold.state).removeprefix("HOLD_STATE_")
        print(f"{state} at {hold.resolution.amount.amount}; available: {budget.balances.available}")


if __name__ == "__main__":
    asyncio.run(main())
