"""The laws that the database keeps by itself: plain SQL that goes around the service is refused, and told why."""

from collections.abc import Iterator
from datetime import UTC, datetime

import psycopg
import pytest

HOLD = {
    "tenant": "'a'", "operation_id": "'op'", "state": "'RESERVED'", "currency": "'USD'", "amount": "5", "quote": "'{}'",
    "budget_ids": "'{team}'", "books": "'{team#0}'", "labels": "'{}'", "actor": "'gw'", "fingerprint": "'f'",
    "created_at": "'2026-03-01'", "expire_at": "'2026-03-01'", "updated_at": "'2026-03-01'", "attempt": "0",
    "generation": "0", "inferred": "false", "execution_seen": "false", "usage_seen": "false", "revision": "0",
    "version": "1",
}  # fmt: skip
BOOK = {
    "tenant": "'a'", "book_id": "'team#0'", "budget_id": "'team'", "currency": "'USD'", "floor": "0", "closed": "false",
    "version": "2", "open_holds": "1", "authority": "10", "available": "10", "held": "0", "unknown": "0", "spent": "0",
    "deficit": "0", "expense": "0", "payable": "0", "period_start": "'2026-03-01'", "rollover": "'NONE'", "carried": "0",
    "thresholds": "'{50}'", "threshold_basis": "'USED'", "crossed": "'{50}'",
}  # fmt: skip
ENTRY = "'00000000-0000-0000-0000-000000000001'"
TRANSITION = "A hold moves only from RESERVED to RELEASED"
RELEASE = "A hold that was ever dispatched is never RELEASED"
BIRTH = "A hold is born RESERVED or DISPATCHING, at version 1"
WRITE_ONCE = {
    "entry": "A journal entry is never changed or removed: correct it with another.",
    "posting": "A posting is never changed or removed: correct it with another entry.",
    "evidence": "Evidence is never changed or removed.",
    "observation": "An observation is never changed or removed.",
    "receipt": "A receipt is never changed or removed.",
    "resolution": "A resolution is never changed or removed: correct it with a next revision.",
    "incident": "An incident is never changed or removed.",
    "budget_grant": "A grant is never changed or removed.",
    "evidence_policy": "A version of a policy is never changed or removed: put a new one beside it.",
    "price_card": "A version of a price card is never changed or removed: put a new one beside it.",
    "outbox": "An event is never changed or removed: its readers have it.",
}

Sql = psycopg.Connection[tuple[object, ...]]


@pytest.fixture
def sql(shared_database_url: str) -> Iterator[Sql]:
    """A program that has the database's password, and bypasses the service."""
    with psycopg.connect(shared_database_url) as connection:
        yield connection
        connection.rollback()


def insert(table: str, values: dict[str, str], **changes: str) -> bytes:
    row = values | changes
    return f"INSERT INTO {table} ({', '.join(row)}) VALUES ({', '.join(row.values())})".encode()


def change(**changes: str) -> bytes:
    pairs = {"version": "version + 1"} | changes
    if changes.get("state") == "'DISPATCHING'":
        pairs = {"lease_expires_at": "now()"} | pairs
    return f"UPDATE hold SET {', '.join(f'{name} = {value}' for name, value in pairs.items())}".encode()


def refused(sql: Sql, statement: bytes, message: str, law: str) -> None:
    with pytest.raises(psycopg.errors.IntegrityError) as error, sql.transaction():
        sql.execute(statement)
    assert message in str(error.value)
    assert error.value.diag.constraint_name == law


def postings(*lines: tuple[str, int, str]) -> bytes:
    rows = ", ".join(f"('a', '{book}', {version}, {ENTRY}, 'HELD', {amount})" for book, version, amount in lines)
    return f"INSERT INTO posting (tenant, book_id, version, entry_id, account, amount) VALUES {rows}".encode()


# --- the journal ----------------------------------------------------------------------------------------------------


def test_entry_balances_in_each_book(sql: Sql) -> None:
    law = "An entry balances in each of its books, and is written whole."
    refused(sql, postings(("team#0", 1, "5"), ("team#0", 2, "-4.999999999999999999")), law, "entry_balances")
    # The entry as a whole is zero, but money went from one book to another.
    refused(sql, postings(("team#0", 1, "5"), ("org#0", 1, "-5")), law, "entry_balances")
    refused(
        sql, postings(("team#0", 1, "5")), "Entry 00000000-0000-0000-0000-000000000001 of tenant a", "entry_balances"
    )
    sql.execute(postings(("team#0", 1, "5"), ("team#0", 2, "-5"), ("org#0", 1, "5"), ("org#0", 2, "-5")))


def test_version_of_a_book_is_posted_once(sql: Sql) -> None:
    sql.execute(postings(("team#0", 1, "5"), ("team#0", 2, "-5")))
    refused(sql, postings(("team#0", 2, "5"), ("team#0", 3, "-5")), "duplicate key", "posting_pkey")


def test_no_posting_of_zero(sql: Sql) -> None:
    refused(sql, postings(("team#0", 1, "0")), "posting_amount_is_not_zero", "posting_amount_is_not_zero")


@pytest.mark.parametrize("table", WRITE_ONCE)
@pytest.mark.parametrize("statement", ["UPDATE {} SET tenant = tenant", "DELETE FROM {}", "TRUNCATE {}"])
def test_journal_is_append_only(sql: Sql, table: str, statement: str) -> None:
    refused(sql, statement.format(table).encode(), WRITE_ONCE[table], f"{table}_append_only")


@pytest.mark.parametrize("table", ["hold", "book", "budget"])
@pytest.mark.parametrize("statement", ["DELETE FROM {}", "TRUNCATE {}"])
def test_nothing_is_removed(sql: Sql, table: str, statement: str) -> None:
    refused(sql, statement.format(table).encode(), f"A {table} is never removed.", f"{table}_never_removed")


# --- holds ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("state", ["OUTCOME_UNKNOWN", "SETTLED", "RELEASED", "EXPIRED"])
def test_births(sql: Sql, state: str) -> None:
    born = insert("hold", HOLD, state=f"'{state}'", attempt="1", inferred="true", revision="2")
    refused(sql, born, BIRTH, "hold_birth")
    refused(sql, insert("hold", HOLD, version="2"), BIRTH, "hold_birth")


LEGAL = {
    ("RESERVED", "RELEASED"), ("RESERVED", "DISPATCHING"), ("DISPATCHING", "OUTCOME_UNKNOWN"),
    ("DISPATCHING", "SETTLED"), ("OUTCOME_UNKNOWN", "SETTLED"),
}  # fmt: skip
WAY_TO = {
    "RESERVED": (),
    "DISPATCHING": ("DISPATCHING",),
    "OUTCOME_UNKNOWN": ("DISPATCHING", "OUTCOME_UNKNOWN"),
    "SETTLED": ("DISPATCHING", "SETTLED"),
    "RELEASED": ("RELEASED",),
}


def bring_to(sql: Sql, state: str) -> None:
    sql.execute(insert("hold", HOLD))
    for step in WAY_TO[state]:
        sql.execute(change(state=f"'{step}'", attempt="0" if step == "RELEASED" else "1"))


@pytest.mark.parametrize("before", WAY_TO)
@pytest.mark.parametrize("after", [*WAY_TO, "EXPIRED"])
def test_transitions(sql: Sql, before: str, after: str) -> None:
    bring_to(sql, before)
    attempt = "attempt" if after == "RELEASED" else "1"
    statement = change(state=f"'{after}'", attempt=attempt)
    if before == after or (before, after) in LEGAL:
        sql.execute(statement)
    elif after == "RELEASED" and before != "RELEASED":
        # Two laws forbid it; the one of the row itself speaks first.
        refused(sql, statement, "never_released", "hold_once_dispatched_is_never_released")
        sql.execute(change(revision="1"))
        corrected = change(state="'RELEASED'", inferred="true", revision="2")
        refused(sql, corrected, TRANSITION, "hold_transition")
    else:
        refused(sql, statement, TRANSITION, "hold_transition")


def test_reserved_is_settled_only_by_evidence_of_a_call(sql: Sql) -> None:
    bring_to(sql, "RESERVED")
    refused(sql, change(state="'SETTLED'", attempt="1"), TRANSITION, "hold_transition")
    sql.execute(change(state="'SETTLED'", attempt="1", inferred="true"))


def test_dispatched_is_never_released(sql: Sql) -> None:
    bring_to(sql, "RESERVED")
    law = "hold_once_dispatched_is_never_released"
    refused(sql, change(state="'RELEASED'", attempt="1", inferred="true"), "never_released", law)
    refused(sql, change(state="'RELEASED'", attempt="1", revision="2"), "never_released", law)
    refused(sql, change(attempt="1", state="'DISPATCHING'", generation="-1"), "only grow", "hold_attempts")
    sql.execute(change(state="'DISPATCHING'", attempt="1"))
    refused(sql, change(attempt="0", state="'RESERVED'"), "only grow", "hold_attempts")


def test_not_even_by_a_revision_that_it_cannot_have(sql: Sql) -> None:
    bring_to(sql, "RESERVED")
    sql.execute(change(revision="1"))
    released = change(state="'RELEASED'", attempt="1", inferred="true", revision="2")
    refused(sql, released, RELEASE, "hold_release")


def test_a_released_hold_has_a_cost_only_by_a_correction(sql: Sql) -> None:
    bring_to(sql, "RESERVED")
    law = "hold_released_costs_only_by_correction"
    refused(sql, change(state="'RELEASED'", revision="1", settled="3"), law, law)
    sql.execute(change(state="'RELEASED'", revision="1", settled="0"))
    sql.execute(change(revision="2", settled="3", attempt="1", inferred="true"))


def test_dispatch_has_an_attempt(sql: Sql) -> None:
    bring_to(sql, "RESERVED")
    law = "hold_beyond_reserved_has_an_attempt"
    refused(sql, change(state="'DISPATCHING'"), law, law)


def test_an_attempt_has_a_lease_or_is_known_not_to_have_been_sent(sql: Sql) -> None:
    bring_to(sql, "DISPATCHING")
    law = "hold_dispatching_has_a_lease_or_a_failure"
    refused(sql, change(lease_expires_at="NULL"), law, law)
    law = "hold_failure_ends_the_permission"
    failed = {"failure": "'{}'", "retry_until": "now()", "lease_expires_at": "NULL", "nonce_hash": "NULL"}
    for changes in ({"failure": "NULL"}, {"retry_until": "NULL"}, {"lease_expires_at": "now()"}, {"nonce_hash": "'n'"}):
        with_a_lease = {"lease_expires_at": "now()"} if "retry_until" in changes else {}
        refused(sql, change(**failed | changes | with_a_lease), law, law)
    sql.execute(change(**failed))


def test_the_permission_to_send_is_given_once_for_each_attempt(sql: Sql) -> None:
    law = "The permission to send an attempt is given once, to one nonce"
    bring_to(sql, "RESERVED")
    refused(sql, change(state="'DISPATCHING'", attempt="2"), law, "hold_permission")
    sql.execute(change(state="'DISPATCHING'", attempt="1", nonce_hash="'n'"))
    refused(sql, change(nonce_hash="'m'"), law, "hold_permission")
    refused(sql, change(attempt="2", nonce_hash="'m'"), law, "hold_permission")
    sql.execute(change(failure="'{}'", retry_until="now()", lease_expires_at="NULL", nonce_hash="NULL"))
    again = {"failure": "NULL", "retry_until": "NULL", "lease_expires_at": "now()", "nonce_hash": "'m'"}
    refused(sql, change(**again), law, "hold_permission")
    sql.execute(change(**again, attempt="2"))


def test_observations(sql: Sql) -> None:
    row = {
        "tenant": "'a'", "operation_id": "'op'", "observation_id": ENTRY, "axis": "'EXECUTION'", "value": "'ACCEPTED'",
        "attempt": "1", "source": "'RecordReceipt'", "actor": "'gw'", "adapter": "''", "adapter_revision": "''",
        "received_at": "now()", "detail": "'{}'", "provider": "'psp'", "provider_receipt": "'r-1'",
    }  # fmt: skip
    for changes, law in (
        ({"value": "'COMPLETE'"}, "observation_value_is_of_its_axis"),
        ({"axis": "'DELIVERY'"}, "observation_value_is_of_its_axis"),
        ({"axis": "'SETTLEMENT'", "value": "'UNKNOWN'"}, "observation_value_is_of_its_axis"),
        ({"provider": "NULL"}, "observation_receipt_is_of_a_provider"),
    ):
        refused(sql, insert("observation", row, **changes), law, law)
    sql.execute(insert("observation", row))
    law = "observation_one_per_provider_receipt"
    refused(sql, insert("observation", row, operation_id="'op-2'"), law, law)
    sql.execute(insert("observation", row, operation_id="'op-2'", provider="'other'"))


def test_evidence_of_the_execution_is_never_forgotten(sql: Sql) -> None:
    bring_to(sql, "DISPATCHING")
    sql.execute(change(execution_seen="true"))
    refused(sql, change(execution_seen="false"), "is never forgotten", "hold_execution")
    sql.execute(change(usage_seen="true"))
    refused(sql, change(usage_seen="false"), "is never forgotten", "hold_execution")
    refused(sql, change(execution_seen="false", state="'SETTLED'"), "is never forgotten", "hold_execution")


def test_version_grows_by_one(sql: Sql) -> None:
    bring_to(sql, "RESERVED")
    law = "The version of a hold grows by one with each change."
    refused(sql, change(version="version"), law, "hold_version")
    refused(sql, change(version="version + 2"), law, "hold_version")


@pytest.mark.parametrize(
    "changed",
    [
        "amount = 4", "currency = 'EUR'", "quote = '{\"amount\": \"4\"}'", "books = '{org#0}'", "budget_ids = '{org}'",
        "fingerprint = 'g'", "operation_id = 'other'", "tenant = 'b'", "created_at = now()", "exclusive_key = 'k'",
        "labels = '{\"project\": \"other\"}'", "actor = 'other'", "request_group = 'g'",
    ],
)  # fmt: skip
def test_what_a_hold_is_never_changes(sql: Sql, changed: str) -> None:
    bring_to(sql, "RESERVED")
    name, value = changed.split(" = ")
    law = "What a hold was reserved as never changes: operation, amount, quote, path, content, actor, keys, labels."
    refused(sql, change(**{name: value}), law, "hold_identity")


@pytest.mark.parametrize(
    "changed", ["settled = 1", "resolved_at = now()", "resolution_kind = 'NO_COST'", "resolution_digest = 'x'"]
)
def test_what_a_hold_was_settled_at_changes_only_with_a_revision(sql: Sql, changed: str) -> None:
    bring_to(sql, "SETTLED")
    name, value = changed.split(" = ")
    law = "What a hold was settled at changes only with the next revision of its resolution."
    refused(sql, change(**{name: value}), law, "hold_resolution")
    refused(sql, change(**{name: value, "revision": "revision + 2"}), law, "hold_resolution")
    sql.execute(change(**{name: value, "revision": "revision + 1"}))
    refused(sql, change(revision="0"), law, "hold_resolution")


def test_one_open_hold_per_exclusive_key(sql: Sql) -> None:
    law = "hold_one_open_per_exclusive_key"
    sql.execute(insert("hold", HOLD, exclusive_key="'order-1'"))
    refused(sql, insert("hold", HOLD, operation_id="'op-2'", exclusive_key="'order-1'"), law, law)
    sql.execute(change(state="'DISPATCHING'", attempt="1"))
    sql.execute(change(state="'OUTCOME_UNKNOWN'"))
    refused(sql, insert("hold", HOLD, operation_id="'op-2'", exclusive_key="'order-1'"), law, law)
    sql.execute(change(state="'SETTLED'"))
    sql.execute(insert("hold", HOLD, operation_id="'op-2'", exclusive_key="'order-1'"))


def test_one_resolution_per_revision(sql: Sql) -> None:
    row = {
        "tenant": "'a'", "operation_id": "'op'", "revision": "1", "kind": "'USAGE'", "digest": "'d'", "amount": "5",
        "currency": "'USD'", "cost_over_hold": "0", "lines": "'[]'",
        "passed_ceilings": "'{}'", "actor": "'gw'", "recorded_at": "now()",
    }  # fmt: skip
    sql.execute(insert("resolution", row))
    refused(sql, insert("resolution", row, digest="'e'"), "duplicate key", "resolution_pkey")
    law = "resolution_later_revision_names_what_it_replaces"
    refused(sql, insert("resolution", row, revision="2"), law, law)
    sql.execute(insert("resolution", row, revision="2", supersedes="'d'"))


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
    refused(sql, insert("book", BOOK, **row), law, law)


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
    sql.execute(insert("book", BOOK, **row))


def test_floor_holds_for_a_program_that_bypasses_the_service(sql: Sql) -> None:
    sql.execute(insert("book", BOOK))
    law = "book_available_is_not_below_floor"
    refused(sql, b"UPDATE book SET available = available - 10.01, spent = spent + 10.01, version = 4", law, law)


def test_book_goes_forward_and_stays_what_it_is(sql: Sql) -> None:
    sql.execute(insert("book", BOOK))
    refused(sql, b"UPDATE book SET version = 1", "and never goes back", "book_version")
    refused(sql, b"UPDATE book SET currency = 'EUR'", "of a book never change", "book_identity")
    refused(sql, b"UPDATE book SET budget_id = 'other'", "of a book never change", "book_identity")
    refused(sql, b"UPDATE book SET crossed = '{80}'", "of a period was crossed is never forgotten", "book_crossed")
    sql.execute(b"UPDATE book SET crossed = '{50,80}', thresholds = '{}'")
    sql.execute(b"UPDATE book SET period_end = '2026-03-02'")
    for changed in ("period_end = '2026-03-03'", "period_end = NULL", "period_start = '2026-02-28'"):
        law = "The boundaries of a period never change, and a book that is closed stays closed."
        refused(sql, f"UPDATE book SET {changed}".encode(), law, "book_period")
    sql.execute(b"UPDATE book SET closed = true")
    refused(sql, b"UPDATE book SET closed = false", law, "book_period")


def test_a_budget_has_one_open_book(sql: Sql) -> None:
    law = "book_one_open_per_budget"
    sql.execute(insert("book", BOOK, period_end="'2026-03-02'"))
    later = insert("book", BOOK, book_id="'team#1'", period_start="'2026-03-02'")
    refused(sql, later, law, law)
    sql.execute(b"UPDATE book SET closed = true")
    sql.execute(later)


def test_budget(sql: Sql) -> None:
    row = {
        "tenant": "'a'", "budget_id": "'team'", "path": "'{org,team}'", "currency": "'USD'", "display_name": "''",
        "created_at": f"'{datetime(2026, 3, 1, tzinfo=UTC)}'", "version": "1", "credit_line": "0", "period": "'NONE'", "zone": "''",
        "rollover": "'NONE'", "thresholds": "'{50}'", "threshold_basis": "'USED'",
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
        refused(sql, insert("budget", row, **changes), law, law)
    sql.execute(insert("budget", row))
    refused(sql, b"UPDATE budget SET max_hold = 1", "grows by one with each change", "budget_version")
    refused(sql, b"UPDATE budget SET version = 3", "grows by one with each change", "budget_version")
    for changed in ("currency = 'EUR'", "created_at = now()", "tenant = 'b'"):
        statement = f"UPDATE budget SET version = version + 1, {changed}".encode()
        refused(sql, statement, "The name, currency and beginning of a budget never change.", "budget_identity")
    sql.execute(b"UPDATE budget SET version = 2, path = '{team}', closed_at = '2026-03-02'")
    for changed in ("NULL", "now()"):
        statement = f"UPDATE budget SET version = 3, closed_at = {changed}".encode()
        refused(sql, statement, "A budget that is closed stays closed.", "budget_closed")
