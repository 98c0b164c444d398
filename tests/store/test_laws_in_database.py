"""The laws that the database keeps by itself: plain SQL that goes around the service is refused, and told why.

Here those of the journal and of what is written once, of books and of budgets; those of holds are in test_laws_of_holds.
"""

import pytest

from ledger.store.laws.schema import TRIGGERS
from tests.store.around import ENTRY, Sql, done, refused
from tests.store.sql import insert

BOOK = {
    "tenant": "'a'", "book_id": "'team#0'", "budget_id": "'team'", "currency": "'USD'", "floor": "0", "version": "2",
    "open_holds": "1", "authority": "10", "available": "10", "period_start": "'2026-03-01'", "rollover": "'NONE'",
    "thresholds": "'{50}'", "threshold_basis": "'USED'", "crossed": "'{50}'",
}  # fmt: skip
WRITE_ONCE = {
    "entry": "A journal entry is never changed or removed: correct it with another.",
    "posting": "A posting is never changed or removed: correct it with another entry.",
    "evidence": "Evidence is never changed or removed.",
    "observation": "An observation is never changed or removed.",
    "refused": "What was refused is never changed or removed.",
    "receipt": "A receipt is never changed or removed.",
    "resolution": "A resolution is never changed or removed: correct it with a next revision.",
    "incident": "An incident is never changed or removed.",
    "budget_grant": "A grant is never changed or removed.",
    "evidence_policy": "A version of a policy is never changed or removed: put a new one beside it.",
    "price_card": "A version of a price card is never changed or removed: put a new one beside it.",
    "outbox": "An event is never changed or removed: its readers have it.",
}


def opened(**changes: str) -> str:
    return insert("book", **BOOK | changes)


def postings(*lines: tuple[str, int, str]) -> str:
    """Lines of one entry, as book, version and amount."""
    rows = ", ".join(f"('{book}', {version}, {amount})" for book, version, amount in lines)
    line = {"book_id": "line.book", "version": "line.version", "amount": "line.amount"}
    rows = f"FROM (VALUES {rows}) AS line (book, version, amount)"
    return insert("posting", rows, tenant="'a'", entry_id=ENTRY, account="'HELD'", **line)


# --- the journal ----------------------------------------------------------------------------------------------------


def test_entry_balances_in_each_book(sql: Sql) -> None:
    law = "An entry balances in each of its books, and is written whole."
    refused(sql, postings(("team#0", 1, "5"), ("team#0", 2, "-4.999999999999999999")), law, "entry_balances")
    # The entry as a whole is zero, but money went from one book to another.
    refused(sql, postings(("team#0", 1, "5"), ("org#0", 1, "-5")), law, "entry_balances")
    refused(
        sql, postings(("team#0", 1, "5")), "Entry 00000000-0000-0000-0000-000000000001 of tenant a", "entry_balances"
    )
    done(sql, postings(("team#0", 1, "5"), ("team#0", 2, "-5"), ("org#0", 1, "5"), ("org#0", 2, "-5")))


def test_version_of_a_book_is_posted_once(sql: Sql) -> None:
    done(sql, postings(("team#0", 1, "5"), ("team#0", 2, "-5")))
    refused(sql, postings(("team#0", 2, "5"), ("team#0", 3, "-5")), "duplicate key", "posting_pkey")


def test_no_posting_of_zero(sql: Sql) -> None:
    refused(sql, postings(("team#0", 1, "0")), "posting_amount_is_not_zero", "posting_amount_is_not_zero")


@pytest.mark.parametrize("table", WRITE_ONCE)
@pytest.mark.parametrize("statement", ["UPDATE {} SET tenant = tenant", "DELETE FROM {}", "TRUNCATE {}"])
def test_journal_is_append_only(sql: Sql, table: str, statement: str) -> None:
    refused(sql, statement.format(table), WRITE_ONCE[table], f"{table}_append_only")


def test_no_table_of_what_is_written_once_is_left_out() -> None:
    assert WRITE_ONCE.keys() == {table for table, names in TRIGGERS.items() if f"{table}_append_only" in names}


@pytest.mark.parametrize("table", ["hold", "book", "budget"])
@pytest.mark.parametrize("statement", ["DELETE FROM {}", "TRUNCATE {}"])
def test_nothing_is_removed(sql: Sql, table: str, statement: str) -> None:
    refused(sql, statement.format(table), f"A {table} is never removed.", f"{table}_never_removed")


def test_observations(sql: Sql) -> None:
    row = {
        "tenant": "'a'", "operation_id": "'op'", "axis": "'EXECUTION'", "value": "'ACCEPTED'", "attempt": "1",
        "source": "'RecordReceipt'", "provider": "'psp'", "provider_receipt": "'r-1'",
    }  # fmt: skip
    for changes, law in (
        ({"value": "'COMPLETE'"}, "observation_value_is_of_its_axis"),
        ({"axis": "'DELIVERY'"}, "observation_value_is_of_its_axis"),
        ({"axis": "'SETTLEMENT'", "value": "'UNKNOWN'"}, "observation_value_is_of_its_axis"),
        ({"provider": "NULL"}, "observation_receipt_is_of_a_provider"),
    ):
        refused(sql, insert("observation", **row | changes), law, law)
    done(sql, insert("observation", **row))
    law = "observation_one_per_provider_receipt"
    refused(sql, insert("observation", **row | {"operation_id": "'op-2'"}), law, law)
    done(sql, insert("observation", **row | {"operation_id": "'op-2'", "provider": "'other'"}))


def test_one_resolution_per_revision(sql: Sql) -> None:
    row = {
        "tenant": "'a'", "operation_id": "'op'", "revision": "1", "kind": "'USAGE'", "digest": "'d'", "amount": "5",
        "currency": "'USD'",
    }  # fmt: skip
    done(sql, insert("resolution", **row))
    refused(sql, insert("resolution", **row | {"digest": "'e'"}), "duplicate key", "resolution_pkey")
    law = "resolution_later_revision_names_what_it_replaces"
    refused(sql, insert("resolution", **row | {"revision": "2"}), law, law)
    done(sql, insert("resolution", **row | {"revision": "2", "supersedes": "'d'"}))


# --- books ----------------------------------------------------------------------------------------------------------

UNBOUNDED = {"floor": "NULL"}
SHORT = {"available": "0", "authority": "10", "deficit": "2", "spent": "12"}


@pytest.mark.parametrize(
    ("row", "law"),
    [
        ({"available": "9"}, "book_authority_and_deficit_equal_the_rest"),
        ({"held": "1"}, "book_authority_and_deficit_equal_the_rest"),
        ({"expense": "1"}, "book_expense_equals_payable"),
        ({"available": "-1", "spent": "11"}, "book_available_is_not_below_floor"),
        ({"available": "-3", "spent": "13", "floor": "-2"}, "book_available_is_not_below_floor"),
        (SHORT | {"available": "1", "spent": "11"}, "book_available_above_floor_means_deficit_zero"),
        (SHORT | UNBOUNDED, "book_available_above_floor_means_deficit_zero"),
        ({"held": "-1", "available": "11"}, "book_no_balance_but_available_is_negative"),
        ({"expense": "1", "payable": "1"}, "book_expense_is_the_financial_books"),
        ({"authority": "-1", "available": "0", "deficit": "1"}, "book_authority_is_negative_only_by_what_was_carried"),
        ({"period_start": "NULL"}, "book_period_is_of_a_budget"),
        ({"period_end": "'2026-03-01'"}, "book_period_ends_after_its_start"),
        ({"closed": "true"}, "book_closed_means_that_the_period_ended"),
        ({"budget_id": "NULL"}, "book_is_of_a_budget_or_of_a_provider"),
        ({"provider": "'openai'"}, "book_is_of_a_budget_or_of_a_provider"),
        ({"version": "-1"}, "book_version_counts_postings"),
        ({"open_holds": "-1"}, "book_money_is_held_by_open_holds"),
        ({"open_holds": "0", "available": "9", "held": "1"}, "book_money_is_held_by_open_holds"),
        ({"open_holds": "0", "available": "9", "unknown": "1"}, "book_money_is_held_by_open_holds"),
    ],
)
def test_no_book_out_of_balance(sql: Sql, row: dict[str, str], law: str) -> None:
    refused(sql, opened(**row), law, law)


@pytest.mark.parametrize(
    "row",
    [
        {},
        SHORT,
        {"open_holds": "0"},
        UNBOUNDED | {"available": "-90", "spent": "100"},
        {"floor": "-5", "available": "-5", "spent": "15"},
        {"authority": "-1", "available": "0", "deficit": "1", "carried": "-1"},
        # A stripe is a summand: a correction may lower one that has less.
        {"budget_id": "NULL", "period_start": "NULL", "provider": "''", "expense": "-3", "payable": "-3"},
        {"budget_id": "NULL", "period_start": "NULL", "provider": "''", "expense": "3", "payable": "3"},
    ],
)
def test_books_in_balance(sql: Sql, row: dict[str, str]) -> None:
    done(sql, opened(**row))


def test_floor_holds_for_a_program_that_bypasses_the_service(sql: Sql) -> None:
    done(sql, opened())
    law = "book_available_is_not_below_floor"
    refused(sql, "UPDATE book SET available = available - 10.01, spent = spent + 10.01, version = 4", law, law)


def test_book_goes_forward_and_stays_what_it_is(sql: Sql) -> None:
    done(sql, opened())
    refused(sql, "UPDATE book SET version = 1", "and never goes back", "book_version")
    refused(sql, "UPDATE book SET currency = 'EUR'", "of a book never change", "book_identity")
    refused(sql, "UPDATE book SET budget_id = 'other'", "of a book never change", "book_identity")
    refused(sql, "UPDATE book SET crossed = '{80}'", "of a period was crossed is never forgotten", "book_crossed")
    done(sql, "UPDATE book SET crossed = '{50,80}', thresholds = '{}'")
    done(sql, "UPDATE book SET period_end = '2026-03-02'")
    for changed in ("period_end = '2026-03-03'", "period_end = NULL", "period_start = '2026-02-28'"):
        law = "The boundaries of a period never change, and a book that is closed stays closed."
        refused(sql, f"UPDATE book SET {changed}", law, "book_period")
    done(sql, "UPDATE book SET closed = true")
    refused(sql, "UPDATE book SET closed = false", law, "book_period")


def test_a_budget_has_one_open_book(sql: Sql) -> None:
    law = "book_one_open_per_budget"
    done(sql, opened(period_end="'2026-03-02'"))
    later = opened(book_id="'team#1'", period_start="'2026-03-02'")
    refused(sql, later, law, law)
    done(sql, "UPDATE book SET closed = true")
    done(sql, later)


def test_budget(sql: Sql) -> None:
    row = {
        "tenant": "'a'", "budget_id": "'team'", "path": "'{org,team}'", "currency": "'USD'", "created_at": "'2026-03-01'",
        "version": "1", "period": "'NONE'", "rollover": "'NONE'", "thresholds": "'{50}'", "threshold_basis": "'USED'",
    }  # fmt: skip
    for changes, law in (
        ({"path": "'{team,org}'"}, "budget_path_ends_at_the_budget"),
        ({"path": "'{1,2,3,4,5,6,7,8,team}'"}, "budget_path_has_at_most_eight_levels"),
        ({"limit_amount": "-1"}, "budget_limit_is_not_negative"),
        ({"max_hold": "-1"}, "budget_caps_are_not_negative"),
        ({"max_open_holds": "-1", "max_hold": "1"}, "budget_caps_are_not_negative"),
        ({"credit_line": "-1", "limit_amount": "5"}, "budget_credit_line_is_below_a_limit"),
        ({"credit_line": "1"}, "budget_credit_line_is_below_a_limit"),
        ({"rollover": "'CAP'"}, "budget_rollover_has_a_cap_if_it_says_so"),
        ({"rollover_cap": "5"}, "budget_rollover_has_a_cap_if_it_says_so"),
        ({"period": "'FIXED'", "period_seconds": "5"}, "budget_fixed_period_has_anchor_and_length"),
        ({"period_seconds": "5"}, "budget_fixed_period_has_anchor_and_length"),
        ({"period": "'DAY'"}, "budget_calendar_period_has_a_zone"),
        ({"zone": "'UTC'"}, "budget_calendar_period_has_a_zone"),
        ({"budget_id": "E'a\\x1fb'", "path": "ARRAY[E'a\\x1fb']"}, "budget_id_has_no_control_characters"),
    ):
        refused(sql, insert("budget", **row | changes), law, law)
    done(sql, insert("budget", **row))
    refused(sql, "UPDATE budget SET max_hold = 1", "grows by one with each change", "budget_version")
    refused(sql, "UPDATE budget SET version = 3", "grows by one with each change", "budget_version")
    for changed in ("currency = 'EUR'", "created_at = now()", "tenant = 'b'"):
        statement = f"UPDATE budget SET version = version + 1, {changed}"
        refused(sql, statement, "The name, currency and beginning of a budget never change.", "budget_identity")
    done(sql, "UPDATE budget SET version = 2, path = '{team}', closed_at = '2026-03-02'")
    for changed in ("NULL", "now()"):
        statement = f"UPDATE budget SET version = 3, closed_at = {changed}"
        refused(sql, statement, "A budget that is closed stays closed.", "budget_closed")
