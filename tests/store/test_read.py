"""Reads: what is asked for, page by page."""

from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal
from typing import TypeVar

import pytest
from sqlalchemy import text

from ledger.domain.model import Account, EntryKind, Posting, Resolution
from ledger.domain.money import plain
from ledger.domain.states import HoldState, ResolutionKind
from ledger.store import read
from ledger.store.database import Database
from ledger.store.read import Key, Page
from tests.stories import Ledger, tell_corrections, tell_everything


@pytest.fixture
def ledger(database: Database) -> Ledger:
    told = Ledger(database)
    tell_everything(told)
    other = Ledger(database, tenant="other")
    other.budget("org", "7")
    other.reserve("reserved", "7", "org")
    return told


T = TypeVar("T")


def amounts(*values: Decimal) -> list[str]:
    return [plain(value) for value in values]


def pages(ask: Callable[[Key | None], Page[T]]) -> list[list[T]]:
    found: list[list[T]] = []
    after: Key | None = None
    while True:
        page = ask(after)
        found.append(list(page.items))
        if page.next is None:
            return found
        after = page.next


OPERATIONS = [
    "dispatching",
    "inferred",
    "late",
    "never-sent",
    "no-tokens",
    "overrun",
    "rejected",
    "released",
    "reserved",
    "settled",
    "tokens",
    "unknown",
]


def test_a_hold_is_read_as_it_was_written(ledger: Ledger, database: Database) -> None:
    again = ledger.release("released")
    with database.read() as connection:
        assert read.get_hold(connection, "acme", "released") == again.hold
        assert read.get_hold(connection, "acme", "none") is None
        assert read.get_hold(connection, "nobody", "released") is None
        settled = read.get_hold(connection, "acme", "settled")
    assert settled is not None
    assert (settled.state, settled.resolution_kind, settled.settled, settled.provider_receipt, settled.labels) == (
        HoldState.SETTLED,
        ResolutionKind.USAGE,
        Decimal("4.5"),
        "r-1",
        {"cost_centre": "43"},
    )
    assert settled.books == ("key#0", "org#0", "team#0")


def test_holds_come_in_order_by_page_and_filter(ledger: Ledger, database: Database) -> None:
    with database.read() as connection:
        found = pages(lambda after: read.list_holds(connection, "acme", limit=5, after=after))
        assert [len(some) for some in found] == [5, 5, 2]
        assert [hold.operation_id for some in found for hold in some] == OPERATIONS
        full = read.list_holds(connection, "acme", limit=len(OPERATIONS))
        assert (len(full.items), full.next) == (12, None)

        def named(state: HoldState | None = None, group: str | None = None) -> list[str]:
            page = read.list_holds(connection, "acme", limit=50, state=state, request_group=group)
            return [hold.operation_id for hold in page.items]

        assert named(HoldState.RESERVED) == ["reserved"]
        assert named(HoldState.OUTCOME_UNKNOWN) == ["unknown"]
        assert named(HoldState.DISPATCHING) == ["dispatching", "rejected"]
        assert named(group="g") == ["released", "reserved"]
        assert named(HoldState.RELEASED, "g") == ["released"]
        assert named(group="none") == []


def test_open_holds_of_a_book_come_largest_first(ledger: Ledger, database: Database) -> None:
    with database.read() as connection:

        def walk(book_id: str, size: int) -> list[tuple[str, Decimal]]:
            found = pages(lambda after: read.list_open_holds(connection, "acme", book_id, limit=size, after=after))
            assert all(len(some) <= size for some in found)
            return [(hold.operation_id, hold.amount) for some in found for hold in some]

        # Open on key: 1 reserved, 3 and 1 dispatching, 4 unknown; those of one amount by their names.
        amounts = {"unknown": 4, "dispatching": 3, "rejected": 1, "reserved": 1}
        largest = [(name, Decimal(amount)) for name, amount in amounts.items()]
        assert walk("key#0", 9) == walk("key#0", 1) == walk("key#0", 3) == largest
        state = read.get_budget(connection, "acme", "key")
        assert state is not None
        assert state.book.open_holds == 4
        assert state.book.held + state.book.unknown == 9
        assert walk("none#0", 9) == []
        assert read.list_open_holds(connection, "nobody", "key#0", limit=9).items == ()


def test_incidents_come_newest_first(ledger: Ledger, database: Database) -> None:
    with database.read() as connection:
        found = pages(lambda after: read.list_incidents(connection, "acme", limit=1, after=after))
        assert [[incident.kind for incident in some] for some in found] == [
            ["RESOLUTION_CONFLICT"],
            ["DOUBLE_ACCEPTANCE"],
        ]
        about = read.list_incidents(connection, "acme", limit=9, operation_id="settled").items
        assert about[0].detail["amount_in_force"] == "4.5"
        assert about[1].detail == {"provider_receipt": "r-2", "provider_receipt_in_force": "r-1"}
        assert read.list_incidents(connection, "acme", limit=9, operation_id="tokens").items == ()


def test_revisions_come_in_their_order(ledger: Ledger, database: Database) -> None:
    tell_corrections(ledger)
    with database.read() as connection:

        def revisions(operation: str, limit: int = 2) -> list[list[tuple[int, str]]]:
            def ask(after: Key | None) -> Page[Resolution]:
                page = read.list_resolutions(connection, "acme", operation, limit=limit, after=after)
                assert page is not None
                return page

            return [[(r.revision, plain(r.amount)) for r in some] for some in pages(ask)]

        assert revisions("raised") == [[(1, "4"), (2, "30")], [(3, "1")]]
        # 4000 * 3 + 500 * 12, then 2000 * 3 + 1000 * 12, then 2000 * 3 + 2000 * 12, for a million.
        assert revisions("recounted", 3) == [[(1, "0.018"), (2, "0.018"), (3, "0.03")]]
        assert revisions("released") == [[(1, "0")]]
        assert revisions("unknown") == [[]]
        assert read.list_resolutions(connection, "acme", "none", limit=9) is None
        assert read.list_resolutions(connection, "nobody", "raised", limit=9) is None
        page = read.list_resolutions(connection, "acme", "recounted", limit=9)
        assert page is not None
        first, second, third = page.items
        assert (first.kind, second.supersedes, third.supersedes) == (ResolutionKind.USAGE, first.digest, second.digest)
        assert [line["bucket"] for line in second.lines] == ["input_tokens", "output_tokens"]
        entries = {item.entry.entry_id: item.entry for item in read.list_entries(connection, "acme", limit=200).items}
        assert second.entry_id is None
        assert third.entry_id is not None
        assert entries[third.entry_id].corrects == first.entry_id


def test_budgets_come_with_their_balances(ledger: Ledger, database: Database) -> None:
    with database.read() as connection:
        state = read.get_budget(connection, "acme", "key")
        assert state is not None
        # Limit 10 and a grant of 90. Open: 1 reserved, 3 and 1 dispatching, 4 unknown. Spent: 4.5, 6.000000000000000001, 8,
        # and 12345 * 3 / 10⁶ + 678 * 12 / 10⁶ = 0.037035 + 0.008136.
        spent = Decimal("18.500000000000000001") + Decimal("0.045171")
        assert state.book.authority == 100
        assert amounts(state.book.held, state.book.unknown, state.book.spent) == ["5", "4", plain(spent)]
        assert state.book.available == 100 - 9 - spent
        assert state.budget.path == ("org", "team", "key")
        now = connection.execute(text("SELECT clock_timestamp()")).scalar_one()
        assert timedelta(0) <= now - state.as_of < timedelta(seconds=10)
        assert read.get_budget(connection, "acme", "none") is None

        def named(parent: str | None = None) -> list[list[str]]:
            found = pages(lambda after: read.list_budgets(connection, "acme", limit=3, after=after, parent=parent))
            return [[item.budget.budget_id for item in some] for some in found]

        assert named() == [["key", "lab", "org"], ["team"]]
        assert named("org") == [["lab", "team"]]
        assert named("key") == [[]]
        lab = read.get_budget(connection, "acme", "lab")
        assert lab is not None
        # Limit 5, settled at 7.
        assert amounts(lab.book.available, lab.book.spent, lab.book.deficit) == ["0", "7", "2"]


def test_cards_are_read_by_version_and_listed_by_their_newest(ledger: Ledger, database: Database) -> None:
    with database.read() as connection:
        first, newest = (read.get_card(connection, "acme", "gpt", version) for version in (1, 0))
        assert first is not None
        assert newest is not None
        assert (first.version, plain(first.rates[0].price)) == (1, "2")
        assert (newest.version, plain(newest.rates[0].price)) == (2, "3")
        assert read.get_card(connection, "acme", "gpt", 3) is None
        assert read.get_card(connection, "acme", "none") is None
        found = pages(lambda after: read.list_cards(connection, "acme", limit=1, after=after))
        assert [[(card.card_id, card.version) for card in some] for some in found] == [
            [("claude", 1)],
            [("gpt", 2)],
        ]
        assert read.list_cards(connection, "acme", limit=9, provider="openai").items == (newest,)


def test_entries_come_oldest_first_with_postings_and_labels(ledger: Ledger, database: Database) -> None:
    with database.read() as connection:
        found = pages(lambda after: read.list_entries(connection, "acme", limit=7, after=after))
        entries = [item for some in found for item in some]
        assert all(len(some) == 7 for some in found[:-1])
        times = [item.entry.recorded_at for item in entries]
        assert times == sorted(times)
        kinds = [item.entry.kind for item in entries[:6]]
        # The unlimited team has nothing to open with; then the grant.
        assert kinds == [EntryKind.OPEN] * 3 + [EntryKind.GRANT, EntryKind.RESERVE, EntryKind.RESERVE]
        for item in entries:
            for book_id in {line.book_id for line in item.postings}:
                assert sum(line.amount for line in item.postings if line.book_id == book_id) == 0
        about = read.list_entries(connection, "acme", limit=9, operation_id="settled").items
        assert [item.entry.kind for item in about] == [EntryKind.RESERVE, EntryKind.SETTLE]
        assert about[1].labels == {"cost_centre": "43"}
        lines = [(line.book_id, line.account.value, line.amount) for line in about[1].postings]
        a_level = [("HELD", Decimal(5)), ("SPENT", Decimal("-4.5")), ("AVAILABLE", Decimal("-0.5"))]
        assert lines == [
            ("#financial/psp##USD#0", "EXPENSE", Decimal("4.5")),
            ("#financial/psp##USD#0", "PAYABLE", Decimal("-4.5")),
            *(("key#0", account, amount) for account, amount in a_level),
            *(("org#0", account, amount) for account, amount in a_level),
            *(("team#0", account, amount) for account, amount in a_level),
        ]


def test_postings_of_a_book_come_by_version(ledger: Ledger, database: Database) -> None:
    with database.read() as connection:
        found: list[Posting] = []
        after: Key | None = None
        while True:
            answer = read.list_postings(connection, "acme", "lab#0", limit=3, after=after)
            assert answer is not None
            currency, page = answer
            assert currency == "USD"
            found += page.items
            after = page.next
            if after is None:
                break
        assert [line.version for line in found] == list(range(1, 8))
        assert [f"{line.account} {plain(line.amount)}" for line in found] == [
            "AUTHORITY 5",
            "AVAILABLE -5",
            "AVAILABLE 5",
            "HELD -5",
            "HELD 5",
            "SPENT -7",
            "DEFICIT 2",
        ]
        after_the_last = read.list_postings(connection, "acme", "lab#0", limit=3, after=("7",))
        assert after_the_last is not None
        currency, rest = after_the_last
        assert (currency, rest.items, rest.next) == ("USD", (), None)
        assert read.list_postings(connection, "acme", "none#0", limit=3) is None


def test_balances(ledger: Ledger, database: Database) -> None:
    with database.read() as connection:

        def expense(**which: str) -> Decimal:
            found = read.balance(connection, "acme", Account.EXPENSE, currency="USD", **which)
            assert found is not None
            return found.amount

        tokens = Decimal("0.045171")
        assert expense(provider="openai") == tokens
        assert expense(provider="openai", model="gpt-x") == tokens
        assert expense(provider="openai", model="gpt-y") == 0
        # 4.5 + 6.000000000000000001 + 8 + 7
        assert expense(provider="psp") == Decimal("25.500000000000000001")
        assert expense() == Decimal("25.500000000000000001") + tokens
        euros = read.balance(connection, "acme", Account.PAYABLE, currency="EUR")
        assert euros is not None
        assert (plain(euros.amount), euros.currency) == ("0", "EUR")
        held = read.balance(connection, "acme", Account.HELD, budget_id="key")
        assert held is not None
        assert (plain(held.amount), held.currency) == ("5", "USD")
        assert read.balance(connection, "acme", Account.HELD, budget_id="none") is None
        assert read.balance(connection, "acme", Account.HELD, budget_id="#financial/psp##USD#0") is None


def test_what_time_has_done_something_to_is_due(database: Database) -> None:
    ledger = Ledger(database)
    ledger.budget("org", "100")
    for tenant in (ledger, other := Ledger(database, tenant="other")):
        if tenant is other:
            tenant.budget("org", "100")
        tenant.reserve("expired", "1", "org", ttl=timedelta(0))
    ledger.reserve("kept", "1", "org")
    ledger.reserve("lease ran out", "1", "org", dispatch=True, ttl=timedelta(0), lease=timedelta(0))
    ledger.reserve("running", "1", "org", dispatch=True, ttl=timedelta(0))
    ledger.reserve("unknown", "1", "org", dispatch=True, lease=timedelta(0))
    ledger.unknown("unknown")
    with database.read() as connection:
        assert read.due(connection, 10) == [("acme", "expired"), ("other", "expired"), ("acme", "lease ran out")]
        assert read.due(connection, 1) == [("acme", "expired")]
    for operation in ("expired", "lease ran out"):
        ledger.lapse(operation)
    with database.read() as connection:
        assert read.due(connection, 10) == [("other", "expired")]
        unknown = read.list_holds(connection, "acme", limit=9, state=HoldState.OUTCOME_UNKNOWN)
    assert [hold.operation_id for hold in unknown.items] == ["lease ran out", "unknown"]
