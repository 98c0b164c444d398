"""Lists by page, budgets, price cards and the journal."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ledger.domain.model import Caller, Role
from ledger.service.translate.fields import InvalidField
from ledger.service.translate.pages import id_key, name_key, place, version_key
from ledger.v1 import budget_pb2, hold_pb2, journal_pb2, money_pb2, price_pb2
from tests.service.harness import (
    Ledger,
    invalid,
    put_card,
    refusal,
    reserve_request,
    resolve_request,
    sending_request,
    serving,
)

ACME = Caller("acme", "a", Role.AUDITOR)


async def walk(call: Any, request: Any, rows: str, size: int) -> list[Any]:
    """All rows of a list, page by page."""
    found: list[Any] = []
    request.page_size = size
    while True:
        answer = await call(request)
        page = list(getattr(answer, rows))
        assert len(page) <= size
        found += page
        if not answer.next_page_token:
            return found
        assert len(page) == size
        request.page_token = answer.next_page_token


async def test_holds_come_in_order_and_by_filter(database_url: str, tmp_path: Path) -> None:
    async with serving(database_url, tmp_path) as ledger:
        await ledger.budget()
        for i in range(7):
            group = "even" if i % 2 == 0 else ""
            await ledger.gateway.holds.Reserve(reserve_request(f"op-{i}", request_group=group))
        await ledger.gateway.holds.Release(hold_pb2.ReleaseRequest(idempotency_key="x", operation_id="op-3"))
        listing = ledger.auditor.holds.ListHolds
        everything = await walk(listing, hold_pb2.ListHoldsRequest(), "holds", 3)
        assert [hold.operation_id for hold in everything] == [f"op-{i}" for i in range(7)]
        assert all(hold.quote.amount.amount == "1" for hold in everything)
        even = await walk(listing, hold_pb2.ListHoldsRequest(request_group="even"), "holds", 2)
        assert [hold.operation_id for hold in even] == ["op-0", "op-2", "op-4", "op-6"]
        released = hold_pb2.ListHoldsRequest(state=hold_pb2.HOLD_STATE_RELEASED)
        assert [hold.operation_id for hold in await walk(listing, released, "holds", 2)] == ["op-3"]


async def test_page_tokens_belong_to_their_question(database_url: str, tmp_path: Path) -> None:
    async with serving(database_url, tmp_path) as ledger:
        await ledger.budget()
        for i in range(3):
            await ledger.gateway.holds.Reserve(reserve_request(f"op-{i}"))
        token = (await ledger.auditor.holds.ListHolds(hold_pb2.ListHoldsRequest(page_size=1))).next_page_token
        listing = ledger.auditor.holds.ListHolds
        asked = hold_pb2.ListHoldsRequest(page_token=token, request_group="other")
        assert await invalid(listing(asked)) == "page_token"
        assert await invalid(
            ledger.rival(Role.AUDITOR).holds.ListHolds(hold_pb2.ListHoldsRequest(page_token=token))
        ) == ("page_token")
        of_budgets = budget_pb2.ListBudgetsRequest(page_token=token)
        assert await invalid(ledger.auditor.budgets.ListBudgets(of_budgets)) == "page_token"
        for forged in ("x", "AAAA", token[:-4], token + "A", "é", "A" * 5000):
            assert await invalid(listing(hold_pb2.ListHoldsRequest(page_token=forged))) == "page_token"
        for size in (-1, 1001):
            assert await invalid(listing(hold_pb2.ListHoldsRequest(page_size=size))) == "page_size"
        assert await invalid(listing(hold_pb2.ListHoldsRequest(state=77))) == "state"  # type: ignore[arg-type]
        # The size may change from page to page.
        rest = await listing(hold_pb2.ListHoldsRequest(page_token=token, page_size=50))
        assert [hold.operation_id for hold in rest.holds] == ["op-1", "op-2"]


@pytest.mark.parametrize(
    ("check", "key"),
    [
        (name_key, "a\0"),
        (name_key, ""),
        (id_key, "1"),
        (version_key, "-1"),
        (version_key, "9" * 30),
        (version_key, "9223372036854775808"),
        (version_key, "²"),
    ],
)
def test_a_forged_key_does_not_reach_the_database(check: Callable[[str], None], key: str) -> None:
    honest = place("L", ACME, 1, "", (check,))
    with pytest.raises(InvalidField, match="page_token"):
        place("L", ACME, 1, honest.token((key,)), (check,))


async def test_budgets(database_url: str, tmp_path: Path) -> None:
    async with serving(database_url, tmp_path) as ledger:
        await ledger.budget("org", None)
        await ledger.budget("team", "100", parent="org")
        await ledger.budget("zero", "0", parent="org")
        await ledger.gateway.holds.Reserve(reserve_request("op-1", "30"))
        team = (await ledger.gateway.budgets.GetBudget(budget_pb2.GetBudgetRequest(budget_id="team"))).budget
        assert (team.parent_id, team.currency, team.limit, team.HasField("limit")) == ("org", "USD", "100", True)
        b = team.balances
        assert (b.authority, b.available, b.held, b.unknown, b.spent, b.deficit) == ("100", "70", "30", "0", "0", "0")
        assert b.as_of.seconds >= team.create_time.seconds
        org = (await ledger.admin.budgets.GetBudget(budget_pb2.GetBudgetRequest(budget_id="org"))).budget
        assert (org.parent_id, org.HasField("limit"), org.balances.held) == ("", False, "30")
        rows = await walk(ledger.finance.budgets.ListBudgets, budget_pb2.ListBudgetsRequest(), "budgets", 2)
        assert [budget.budget_id for budget in rows] == ["org", "team", "zero"]
        below = budget_pb2.ListBudgetsRequest(parent_id="org")
        rows = await walk(ledger.finance.budgets.ListBudgets, below, "budgets", 1)
        assert [budget.budget_id for budget in rows] == ["team", "zero"]
        assert (await refusal(ledger.gateway.holds.Reserve(reserve_request("op-2", budget_ids=["zero"]))))[1] == (
            "INSUFFICIENT_BUDGET"
        )

        grant = budget_pb2.GrantBudgetRequest(
            idempotency_key="g-1",
            budget_id="team",
            amount=money_pb2.Money(amount="10.5", currency="USD"),
            reference="invoice-7",
        )
        granted = await ledger.finance.budgets.GrantBudget(grant)
        assert (granted.budget.balances.available, granted.replayed) == ("80.5", False)
        assert (await ledger.finance.budgets.GrantBudget(grant)).replayed
        grant.amount.amount = "11"
        assert (await refusal(ledger.finance.budgets.GrantBudget(grant)))[:2] == (
            "ALREADY_EXISTS",
            "IDEMPOTENCY_MISMATCH",
        )
        grant.idempotency_key = "g-2"
        assert (await refusal(ledger.finance.budgets.GrantBudget(grant)))[1] == "RESOURCE_EXISTS"
        grant.amount.currency, grant.reference = "EUR", "invoice-8"
        grant.idempotency_key = "g-3"
        assert (await refusal(ledger.finance.budgets.GrantBudget(grant)))[1] == "CURRENCY_MISMATCH"
        nobody = budget_pb2.GetBudgetRequest(budget_id="nobody")
        facts = {"field": "budget_id", "budget_id": "nobody"}
        assert await refusal(ledger.admin.budgets.GetBudget(nobody)) == ("NOT_FOUND", "NOT_FOUND", facts)


async def test_price_cards(database_url: str, tmp_path: Path) -> None:
    async with serving(database_url, tmp_path) as ledger:
        await put_card(ledger)
        get = ledger.gateway.prices.GetPriceCard
        first = (await get(price_pb2.GetPriceCardRequest(card_id="gpt-5"))).card
        assert (first.version, first.max_output_tokens, len(first.digest)) == (1, 128_000, 64)
        assert [(rate.bucket, rate.price, rate.per) for rate in first.rates] == [
            ("cache_read_tokens", "0.125", 1_000_000),
            ("input_tokens", "1.25", 1_000_000),
            ("output_tokens", "10", 1_000_000),
        ]
        dearer = price_pb2.PriceCard()
        dearer.CopyFrom(first)
        dearer.ClearField("version")
        dearer.ClearField("digest")
        dearer.rates[0].price = "0.25"
        put = ledger.finance.prices.PutPriceCard
        second = (await put(price_pb2.PutPriceCardRequest(idempotency_key="card-2", card=dearer))).card
        assert (second.version, second.digest != first.digest) == (2, True)
        old = await get(price_pb2.GetPriceCardRequest(card_id="gpt-5", version=1))
        assert old.card == first
        dearer.card_id = "another"
        await put(price_pb2.PutPriceCardRequest(idempotency_key="card-3", card=dearer))
        rows = await walk(ledger.auditor.prices.ListPriceCards, price_pb2.ListPriceCardsRequest(), "cards", 1)
        assert [(card.card_id, card.version) for card in rows] == [("another", 1), ("gpt-5", 2)]
        missing = price_pb2.GetPriceCardRequest(card_id="gpt-5", version=3)
        told = await refusal(get(missing))
        assert told[1:] == ("NOT_FOUND", {"field": "card_id", "card_id": "gpt-5#3"})


async def settle_two(ledger: Ledger) -> None:
    await ledger.budget()
    for i, cost in enumerate(("0.4", "0.6")):
        await ledger.gateway.holds.Reserve(sending_request(f"op-{i}", labels={"project": "apollo"}))
        await ledger.gateway.holds.Resolve(resolve_request(f"op-{i}", cost))


async def test_the_journal(database_url: str, tmp_path: Path) -> None:
    async with serving(database_url, tmp_path) as ledger:
        await settle_two(ledger)
        journal = ledger.auditor.journal
        entries = await walk(journal.ListEntries, journal_pb2.ListEntriesRequest(), "entries", 2)
        assert [journal_pb2.EntryKind.Name(e.kind).removeprefix("ENTRY_KIND_") for e in entries] == [
            "OPEN", "RESERVE", "SETTLE", "RESERVE", "SETTLE",
        ]  # fmt: skip
        settle = entries[2]
        assert (settle.operation_id, settle.actor, dict(settle.labels)) == ("op-0", "gateway-1", {"project": "apollo"})
        lines = sorted(
            (journal_pb2.Account.Name(p.account).removeprefix("ACCOUNT_"), p.amount.amount) for p in settle.postings
        )
        assert lines == [
            ("AVAILABLE", "-0.6"), ("EXPENSE", "0.4"), ("HELD", "1"), ("PAYABLE", "-0.4"), ("SPENT", "-0.4"),
        ]  # fmt: skip
        postings = await walk(journal.ListPostings, journal_pb2.ListPostingsRequest(book_id="team#0"), "postings", 3)
        # Two at the opening, two for each reserve, three for each settlement.
        assert [posting.version for posting in postings] == list(range(1, 13))
        assert {posting.amount.currency for posting in postings} == {"USD"}

        async def balance(account: journal_pb2.Account.ValueType, **fields: str) -> str:
            answer = await journal.GetBalance(journal_pb2.GetBalanceRequest(account=account, **fields))
            assert answer.balance.currency == "USD"
            return answer.balance.amount

        assert await balance(journal_pb2.ACCOUNT_SPENT, budget_id="team") == "1"
        assert await balance(journal_pb2.ACCOUNT_AVAILABLE, budget_id="team") == "99"
        assert await balance(journal_pb2.ACCOUNT_PAYABLE, currency="USD") == "1"
        assert await balance(journal_pb2.ACCOUNT_EXPENSE, currency="USD", provider="openai") == "1"
        assert await balance(journal_pb2.ACCOUNT_EXPENSE, currency="USD", provider="nobody") == "0"


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({}, "account"),
        ({"account": 99}, "account"),
        ({"account": journal_pb2.ACCOUNT_HELD}, "budget_id"),
        ({"account": journal_pb2.ACCOUNT_HELD, "budget_id": "b", "currency": "USD"}, "currency"),
        ({"account": journal_pb2.ACCOUNT_EXPENSE}, "currency"),
        ({"account": journal_pb2.ACCOUNT_EXPENSE, "currency": "USD", "budget_id": "b"}, "budget_id"),
    ],
)
async def test_balances_ask_for_what_belongs_to_the_account(
    database_url: str, tmp_path: Path, fields: dict[str, Any], path: str
) -> None:
    async with serving(database_url, tmp_path) as ledger:
        assert await invalid(ledger.auditor.journal.GetBalance(journal_pb2.GetBalanceRequest(**fields))) == path


async def test_incidents_come_newest_first(database_url: str, tmp_path: Path) -> None:
    async with serving(database_url, tmp_path) as ledger:
        await settle_two(ledger)
        for i in range(3):
            other = resolve_request("op-0", f"0.{i + 1}", idempotency_key=f"again-{i}")
            code, reason, metadata = await refusal(ledger.gateway.holds.Resolve(other))
            assert (code, reason) == ("FAILED_PRECONDITION", "RESOLUTION_CONFLICT")
            assert len(metadata["digest"]) == 64
        asked = hold_pb2.ListIncidentsRequest(operation_id="op-0")
        rows = await walk(ledger.finance.holds.ListIncidents, asked, "incidents", 2)
        assert [row.detail["amount"] for row in rows] == ["0.3", "0.2", "0.1"]
        assert {row.kind for row in rows} == {hold_pb2.INCIDENT_KIND_RESOLUTION_CONFLICT}
        quiet = await ledger.finance.holds.ListIncidents(hold_pb2.ListIncidentsRequest(operation_id="op-1"))
        assert not quiet.incidents
