"""spend-ledger budget create, grant, limit, move, close: each is one call, once per key."""

import argparse
import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

from google.protobuf.field_mask_pb2 import FieldMask

from ledger.budgets.calls import ONCE, WHERE, add_key, as_json, key_of, print_json
from ledger.budgets.figures import number
from ledger.budgets.screen import Screen
from ledger.budgets.terms import NONE, add_terms, terms
from ledger.client import Ledger
from ledger.client.calling import CannotReach, add_server, calling
from ledger.v1 import budget_pb2, money_pb2

Call: TypeAlias = Callable[[Ledger, str], Awaitable[Any]]
CAPS = ("credit_line", "max_hold", "max_open_holds")
CREATE_EPILOG = f"""
A budget has one currency, that of its parent. Without --limit it is unlimited;
--limit 0 is nothing. With --every the limit begins anew each day, week or month
of --zone, or after each LENGTH; --rollover says what is carried over. The feed
tells once in each period that a threshold is crossed. Role: admin.
{WHERE}{ONCE}
examples:
  spend-ledger budget create acme USD --limit 10000 --name 'Acme Inc'
  spend-ledger budget create team USD --under acme --limit 500 --max-hold 20
  spend-ledger budget create lab USD --limit 90 --every month --rollover 10
  spend-ledger budget create bot USD --limit 5 --every 6h \\
      --from 2026-01-01T00:00:00Z --thresholds 90,100
"""
GRANT_EPILOG = f"""
Adds money to a budget, beside its limit; a deficit is repaid first. The same
reference is granted once, under whatever key. Roles: finance, admin.
{WHERE}{ONCE}
examples:
  spend-ledger budget grant team 250 USD --reference invoice-4711
"""
LIMIT_EPILOG = f"""
What is not named stays as it is; none takes a limit or a cap away. A limit
holds at once: raised, it adds to the period that it is now; lowered, it takes
from it, down to a deficit. With another --every or --zone the period that it is
now ends where it would, and the first of the new kind begins there. No hold is
touched. Roles: finance, admin.
{WHERE}{ONCE}
examples:
  spend-ledger budget limit team 750
  spend-ledger budget limit team 750 --every month --zone Europe/Berlin
  spend-ledger budget limit team --every none --rollover none
  spend-ledger budget limit team --thresholds 80,100 --thresholds-of spent
  spend-ledger budget limit team none --max-hold 20 --max-open-holds 50
  spend-ledger budget limit team --max-hold none
"""
MOVE_EPILOG = f"""
The budget moves with all that is below it. Holds that exist keep the path of
their reserve, and what they moved stays where it is. Role: admin.
{WHERE}{ONCE}
examples:
  spend-ledger budget move team --under lab
  spend-ledger budget move team --root
"""
CLOSE_EPILOG = f"""
For good. Nothing new is reserved on any path through it, dispatched or granted;
what is open there still resolves. Role: admin.
{WHERE}{ONCE}
examples:
  spend-ledger budget close team
"""


def add_create(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("budget", metavar="BUDGET")
    parser.add_argument("currency", metavar="CURRENCY")
    parser.add_argument("--under", metavar="PARENT", default="", help="the budget above it (none: it is a root)")
    parser.add_argument("--name", default="", help="for people")
    parser.add_argument("--limit", metavar="AMOUNT", help="how much it may spend (unlimited)")
    _add_caps(parser)
    add_terms(parser)
    _finish(parser)


def create(arguments: argparse.Namespace) -> int:
    def call(ledger: Ledger, key: str) -> Awaitable[Any]:
        request = budget_pb2.CreateBudgetRequest(
            idempotency_key=key,
            budget_id=arguments.budget,
            parent_id=arguments.under,
            currency=arguments.currency,
            display_name=arguments.name,
            limit=arguments.limit,
            **{field: value for field, value in _named(arguments, *CAPS).items() if value is not None},
            **terms(arguments),
        )
        return ledger.ask(ledger.stubs.budgets.CreateBudget, request)

    return _change(arguments, call, "stands")


def add_grant(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("budget", metavar="BUDGET")
    parser.add_argument("amount", metavar="AMOUNT")
    parser.add_argument("currency", metavar="CURRENCY")
    parser.add_argument("--reference", required=True, help="the document behind it, such as an invoice")
    _finish(parser)


def grant(arguments: argparse.Namespace) -> int:
    def call(ledger: Ledger, key: str) -> Awaitable[Any]:
        money = money_pb2.Money(amount=arguments.amount, currency=arguments.currency)
        request = budget_pb2.GrantBudgetRequest(
            idempotency_key=key, budget_id=arguments.budget, amount=money, reference=arguments.reference
        )
        return ledger.ask(ledger.stubs.budgets.GrantBudget, request)

    return _change(arguments, call, "has the grant")


def add_limit(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("budget", metavar="BUDGET")
    parser.add_argument("limit", nargs="?", metavar="AMOUNT", help="how much it may spend; none is unlimited")
    _add_caps(parser)
    add_terms(parser)
    _finish(parser)


def limit(arguments: argparse.Namespace) -> int:
    changed = _named(arguments, "limit", *CAPS) | terms(arguments)
    if not changed:
        raise CannotReach(
            "Say what is to be changed: an amount, or one of the options that spend-ledger budget limit --help lists."
        )

    def call(ledger: Ledger, key: str) -> Awaitable[Any]:
        request = budget_pb2.UpdateBudgetRequest(
            idempotency_key=key,
            budget_id=arguments.budget,
            update_mask=FieldMask(paths=list(changed)),
            **{field: value for field, value in changed.items() if value is not None},
        )
        return ledger.ask(ledger.stubs.budgets.UpdateBudget, request)

    return _change(arguments, call, "is changed")


def add_move(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("budget", metavar="BUDGET")
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--under", metavar="PARENT", default="", help="the budget that is to be above it")
    where.add_argument("--root", action="store_true", help="nothing is to be above it")
    _finish(parser)


def move(arguments: argparse.Namespace) -> int:
    def call(ledger: Ledger, key: str) -> Awaitable[Any]:
        request = budget_pb2.MoveBudgetRequest(
            idempotency_key=key, budget_id=arguments.budget, parent_id=arguments.under
        )
        return ledger.ask(ledger.stubs.budgets.MoveBudget, request)

    return _change(arguments, call, f"stands below {arguments.under}" if arguments.under else "is a root")


def add_close(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("budget", metavar="BUDGET")
    _finish(parser)


def close(arguments: argparse.Namespace) -> int:
    def call(ledger: Ledger, key: str) -> Awaitable[Any]:
        request = budget_pb2.CloseBudgetRequest(idempotency_key=key, budget_id=arguments.budget)
        return ledger.ask(ledger.stubs.budgets.CloseBudget, request)

    return _change(arguments, call, "is closed")


def _finish(parser: argparse.ArgumentParser) -> None:
    add_server(parser)
    add_key(parser)


def _add_caps(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--credit-line", metavar="AMOUNT", help="how far below zero it may go")
    parser.add_argument("--max-hold", metavar="AMOUNT", help="the most that one hold may set aside")
    parser.add_argument("--max-open-holds", type=_count, metavar="N", help="how many holds may be open at a time")


def _count(text: str) -> int | str:
    if text == NONE:
        return NONE
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a number, and not {NONE}")
    return int(text)


def _named(arguments: argparse.Namespace, *fields: str) -> dict[str, Any]:
    """The fields that were named; None for one that is taken away."""
    given = {field: getattr(arguments, field) for field in fields}
    return {field: None if value == NONE else value for field, value in given.items() if value is not None}


def _change(arguments: argparse.Namespace, call: Call, done: str) -> int:
    key = key_of(arguments)
    answer = asyncio.run(_called(arguments, call, key))
    if arguments.json:
        print_json(as_json(answer) | {"idempotency_key": key})
        return 0
    budget, balances, screen = answer.budget, answer.budget.balances, Screen()
    again = ", as it did before: nothing changed" if answer.replayed else ""
    available = number(balances.available, screen.signs.about) if budget.HasField("limit") else "no limit"
    screen.tell([f"{budget.budget_id} {done}{again}. available: {available} {budget.currency}"])
    return 0


async def _called(arguments: argparse.Namespace, call: Call, key: str) -> Any:
    async with calling(arguments) as ledger:
        return await call(ledger, key)
