"""Budgets and books come back from the database as they were decided."""

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from uuid import uuid4

from ledger.domain.batch import Decision
from ledger.domain.budget_commands import MoveBudget
from ledger.domain.commands import BeginDispatch, Dispatch, GrantBudget
from ledger.domain.needs import financial_book
from ledger.domain.periods import PeriodKind, Rollover, RolloverKind, Schedule
from ledger.domain.thresholds import Basis, Thresholds
from ledger.store.database import Database
from ledger.store.load import load
from tests.store import samples as s
from tests.store.samples import ADMIN, GATEWAY, NOON, T


def test_budgets_with_their_chains_and_books(database: Database) -> None:
    org, team = s.budget("org", ("org",), None), s.budget("team")
    user, other = s.budget("user", ("org", "team", "user"), "0"), s.budget("other", ("org", "other"))
    books = [s.book(b.budget_id, floor=b.limit and Decimal(0)) for b in (org, team, user, other)]
    books[1] = replace(
        books[1], authority=Decimal("10"), available=Decimal("4.5"), held=Decimal(1), unknown=Decimal(2),
        spent=Decimal("2.5"), version=12, open_holds=3, period_end=NOON + timedelta(days=1), carried=Decimal(-2),
        rollover=Rollover(RolloverKind.CAP, Decimal("0.5")), thresholds=Thresholds((7, 1000), Basis.SPENT), crossed=(7,),
    )  # fmt: skip
    decision = Decision(
        budgets={(T, b.budget_id): b for b in (org, team, user, other)},
        books={(T, book.book_id): book for book in books},
    )
    s.write(database, decision)
    loaded = s.read(database, [s.reserve(budget_ids=("user", "nobody"))])
    assert loaded.budgets == {(T, "org"): org, (T, "team"): team, (T, "user"): user}
    assert loaded.books == {(T, b.book_id): b for b in books[:3]}
    assert loaded.newest == {(T, name): f"{name}#0" for name in ("org", "team", "user")}


def test_changed_book(database: Database) -> None:
    before = s.book(floor=Decimal(0))
    team = s.budget("team", ("team",))
    s.write(database, Decision(budgets={(T, "team"): team}, books={(T, "team#0"): before}))
    after = replace(
        before, floor=Decimal(-3), version=6, authority=Decimal(1), available=Decimal(-3), held=Decimal(2),
        unknown=Decimal(3), spent=Decimal(4), deficit=Decimal(5), open_holds=2, period_end=NOON + timedelta(days=1),
        rollover=Rollover(RolloverKind.CAP, Decimal("0.5")), carried=Decimal("0.25"),
        thresholds=Thresholds((1, 20), Basis.SPENT), crossed=(20, 1),
    )  # fmt: skip
    command = s.reserve()
    s.write(database, Decision(books={(T, "team#0"): after}), s.read(database, [command]))
    assert s.read(database, [command]).books == {(T, "team#0"): after}


def test_a_book_that_is_closed(database: Database) -> None:
    given = s.hold(books=("team#0",), **s.DISPATCHED)
    s.write(database, Decision(holds={(T, "op-1"): given}, books={(T, "team#0"): s.book(floor=Decimal(0))}))
    closed = s.book(
        floor=Decimal(0), closed=True, version=1, period_end=NOON + timedelta(days=1), carried=Decimal(2),
        carried_on=Decimal("-0.75"),
    )  # fmt: skip
    s.write(database, Decision(books={(T, "team#0"): closed}), s.read(database, [s.settle()]))
    assert s.read(database, [s.settle()]).books[(T, "team#0")] == closed


def test_financial_book_is_opened_when_it_is_first_needed(database: Database) -> None:
    given = s.hold(books=(), **s.DISPATCHED)
    s.write(database, s.with_hold(given))
    new = financial_book(given, 3)
    command = s.settle()
    with database.transaction() as connection:
        loaded, _ = load(connection, [command], 3, uuid4)
        assert loaded.books == {(T, new.book_id): new}
        connection.commit()
    after = replace(new, version=2, expense=Decimal("2.25"), payable=Decimal("2.25"))
    s.write(database, Decision(books={(T, after.book_id): after}), loaded)
    assert s.read(database, [command], stripe=3).books == {(T, after.book_id): after}


def test_grants_by_reference(database: Database) -> None:
    s.write(database, Decision(grants=[s.grant("po-1"), s.grant("po-2")]))
    command = GrantBudget(ADMIN, "k", "team", Decimal(1), "USD", "po-2")
    assert s.read(database, [command]).grants == {(T, "team", "po-2"): s.grant("po-2")}


def test_closed_budgets_of_a_dispatch(database: Database) -> None:
    budgets = [s.budget("org", ("org",)), replace(s.budget("team"), closed_at=NOON)]
    s.write(database, s.with_hold(s.hold()))
    s.write(database, Decision(budgets={(T, b.budget_id): b for b in budgets}))
    loaded = s.read(
        database, [BeginDispatch(GATEWAY, "k", "op-1", Dispatch("nonce-0123456789", timedelta(minutes=1), "pod"))]
    )
    assert loaded.closed_budgets == {(T, "team")}
    assert (loaded.books, loaded.budgets) == ({}, {})


def test_changed_budget(database: Database) -> None:
    org, team = s.budget("org", ("org",)), s.budget("team")
    before = replace(s.budget("user", ("org", "team", "user")), max_hold=Decimal("2.5"), max_open_holds=3)
    budgets = {(T, b.budget_id): b for b in (org, team, before)}
    s.write(database, Decision(budgets=budgets, books={(T, f"{b}#0"): s.book(b) for b in ("org", "team", "user")}))
    command = s.reserve(budget_ids=("user",))
    assert s.read(database, [command]).budgets == budgets
    after = replace(
        before,
        path=("user",),
        display_name="Somebody",
        limit=Decimal(7),
        max_hold=None,
        max_open_holds=0,
        closed_at=NOON,
        version=2,
        credit_line=Decimal("1.5"),
        schedule=Schedule(PeriodKind.FIXED, anchor=NOON.replace(microsecond=0), length=timedelta(seconds=90)),
        rollover=Rollover(RolloverKind.CAP, Decimal("0.5")),
        thresholds=Thresholds((5,), Basis.SPENT),
    )
    s.write(database, Decision(budgets={(T, "user"): after}), s.read(database, [command]))
    assert s.read(database, [command]).budgets == {(T, "user"): after}


def test_a_budget_that_is_to_be_moved_comes_with_all_that_is_below_it(database: Database) -> None:
    paths = [
        ("org",),
        ("org", "team"),
        ("org", "team", "user"),
        ("org", "team", "user", "key"),
        ("org", "lab"),
        ("other",),
    ]
    budgets = {(T, path[-1]): s.budget(path[-1], path) for path in paths}
    s.write(database, Decision(budgets=budgets, books={(T, f"{b}#0"): s.book(b) for _, b in budgets}))
    loaded = s.read(database, [MoveBudget(ADMIN, "k", "team", "other")])
    assert loaded.budgets == {key: budgets[key] for key in budgets if key != (T, "lab")}
    assert loaded.books.keys() == {(T, "team#0")}
