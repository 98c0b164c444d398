"""The check finds nothing in good books, and each kind of damage in bad ones, done as a superuser could."""

import uuid
from collections.abc import Iterator
from decimal import Decimal

import psycopg
import pytest
from sqlalchemy import make_url, text

from ledger.audit.check import LawResult, check
from ledger.store.database import Database
from ledger.store.laws.schema import TRIGGERS
from tests.stories import (
    Ledger,
    tell_attempts,
    tell_corrections,
    tell_everything,
    tell_of_parking,
    tell_of_periods,
)

Urls = tuple[str, str]


def database_at(server_url: str, name: str) -> str:
    return make_url(server_url).set(database=name).render_as_string(hide_password=False)


@pytest.fixture(scope="module")
def told(server_url: str, template: str) -> str:
    """The name of a database in which everything has happened."""
    name = f"told_{uuid.uuid4().hex}"
    with psycopg.connect(server_url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name} TEMPLATE {template}".encode())
    database = Database(database_at(server_url, name), pool_size=1)
    ledger = Ledger(database)
    tell_everything(ledger)
    tell_of_parking(ledger)
    tell_corrections(ledger)
    tell_attempts(ledger)
    tell_of_periods(ledger)
    database.close()
    return name


@pytest.fixture
def books(server_url: str, told: str) -> Iterator[str]:
    """The URL of a copy of it."""
    name = f"copy_{uuid.uuid4().hex}"
    with psycopg.connect(server_url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name} TEMPLATE {told}".encode())
        yield database_at(server_url, name)
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())


def checked(url: str) -> dict[str, LawResult]:
    database = Database(url, pool_size=1)
    try:
        return {result.law: result for result in check(database)}
    finally:
        database.close()


def damage(url: str, statements: str) -> None:
    with psycopg.connect(url) as connection:
        connection.execute("SET session_replication_role = replica")
        connection.execute(statements.encode())


def test_good_books_keep_every_law(books: str) -> None:
    results = checked(books)
    assert [result for result in results.values() if result.violations] == []
    # And there was something to check, for every law.
    assert [law for law, result in results.items() if not result.checked] == []
    # 6 budgets, and one that has had at least two periods; of 2 providers one has 3 stripes and the other 2 or 3.
    assert results["2.10"].checked >= 6 + 2
    assert results["2.1"].checked - results["2.10"].checked in (5, 6)
    assert results["3.4"].checked == 22 + 2
    # 10 first revisions, 4 and 1; 1 + 2 + 1 + 2 more, of which 5 posted an entry.
    assert results["5.8"].checked == 14 + 1 + 6 + 5


def test_every_law_has_a_number_of_its_own(database: Database) -> None:
    numbers = [result.law for result in check(database)]
    assert len(set(numbers)) == len(numbers)


def test_empty_books_keep_every_law(database: Database) -> None:
    assert [result for result in check(database) if result.violations] == []


def test_every_digit_of_a_sum_counts(database: Database) -> None:
    ledger = Ledger(database)
    ledger.budget("org", None)
    most = "9999999999999999999.999999999999999999"
    ledger.reserve("one", most, "org", dispatch=True)
    ledger.charge("one", most)
    ledger.card(price="0.000000000001")
    ledger.reserve_tokens("two", 10**6, 1, "org")
    # 7 * 0.000000000001 / 10⁶ = 7e-18
    outcome = ledger.tokens("two", 7, 0)
    assert outcome.hold is not None
    assert outcome.hold.settled == Decimal("7e-18")
    assert [result for result in check(database) if result.violations] == []


def test_the_check_does_not_write(books: str) -> None:
    database = Database(books, pool_size=1)
    with database.engine.connect() as connection:
        before = connection.execute(
            text("SELECT pg_current_xact_id_if_assigned(), xact_commit FROM pg_stat_database")
        ).first()
    check(database)
    with database.read() as connection, pytest.raises(Exception, match="read-only"):
        connection.execute(text("UPDATE hold SET version = version + 1"))
    database.close()
    assert before is not None


def test_the_triggers_asked_for_are_those_of_the_migrations(database: Database) -> None:
    with database.read() as connection:
        rows = connection.execute(
            text("SELECT tgrelid::regclass::text, tgname FROM pg_trigger WHERE NOT tgisinternal ORDER BY 1, 2")
        )
        assert [tuple(row) for row in rows] == sorted(
            (table, name) for table, names in TRIGGERS.items() for name in names
        )


# What came free late in the first period of `second`, and was carried into the last.
INTO_THE_LAST = """
    account = 'AUTHORITY' AND book_id IN (SELECT book_id FROM book WHERE budget_id = 'second' AND NOT closed)
    AND entry_id IN (SELECT entry_id FROM entry WHERE kind = 'ROLLOVER' AND operation_id = 'outlives')
"""
DAMAGE = [
    ("1.1", "key#0", "UPDATE posting SET amount = amount + 1 WHERE book_id = 'key#0' AND version = 1"),
    ("1.2", "has no entry", "DELETE FROM entry WHERE operation_id = 'settled' AND kind = 'SETTLE'"),
    ("1.2", "has no book", "DELETE FROM book WHERE book_id = 'lab#0'"),
    ("1.2", "is in EUR, the entry in USD", "UPDATE book SET currency = 'EUR' WHERE book_id = 'lab#0'"),
    ("1.2", "account CASH", "UPDATE posting SET account = 'CASH' WHERE book_id = 'lab#0' AND version = 7"),
    ("1.3", "has no postings", "DELETE FROM posting WHERE book_id LIKE '%#0' AND version < 3"),
    ("1.3", "none: it is not there", "DELETE FROM hold WHERE operation_id = 'settled'"),
    ("1.3", "is in EUR", "UPDATE entry SET currency = 'EUR' WHERE operation_id = 'tokens'"),
    ("1.4", "trigger entry_balances on posting is off", "ALTER TABLE posting DISABLE TRIGGER entry_balances"),
    ("1.4", "hold_birth on hold is off", "ALTER TABLE hold ENABLE REPLICA TRIGGER hold_birth"),
    ("1.4", "entry_append_only on entry is not there", "DROP TRIGGER entry_append_only ON entry"),
    (
        "1.4",
        "refuses nothing",
        "CREATE OR REPLACE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'",
    ),
    ("1.4", "book_expense_equals_payable", "ALTER TABLE book DROP CONSTRAINT book_expense_equals_payable"),
    (
        "1.4",
        "was never held against the rows",
        "ALTER TABLE book DROP CONSTRAINT book_expense_equals_payable,"
        " ADD CONSTRAINT book_expense_equals_payable CHECK (expense = payable) NOT VALID",
    ),
    ("1.4", "posting_pkey on posting is not there", "ALTER TABLE posting DROP CONSTRAINT posting_pkey"),
    ("1.4", "index hold_one_open_per_exclusive_key", "DROP INDEX hold_one_open_per_exclusive_key"),
    ("2.1", "SPENT is", "UPDATE book SET available = available + 1, spent = spent - 1 WHERE book_id = 'key#0'"),
    ("2.2", "at version 8 has 7 postings", "UPDATE book SET version = 8 WHERE book_id = 'lab#0'"),
    ("2.2", "1 to 70", "UPDATE posting SET version = 70 WHERE book_id = 'lab#0' AND version = 7"),
    ("2.2", "0 to 6", "UPDATE posting SET version = version - 1 WHERE book_id = 'lab#0'"),
    (
        "2.3",
        "lab#0",
        "ALTER TABLE book DROP CONSTRAINT book_authority_and_deficit_equal_the_rest;"
        "UPDATE book SET authority = authority + 1 WHERE book_id = 'lab#0'",
    ),
    (
        "2.3",
        "#financial/openai#gpt-x#USD#3",
        "ALTER TABLE book DROP CONSTRAINT book_expense_equals_payable;"
        "UPDATE book SET expense = expense + 1 WHERE provider = 'openai'",
    ),
    (
        "2.4",
        "AVAILABLE is -1, below 0",
        "ALTER TABLE book DROP CONSTRAINT book_available_is_not_below_floor;"
        "ALTER TABLE book DROP CONSTRAINT book_available_above_floor_means_deficit_zero;"
        "UPDATE book SET available = -1, spent = spent + 1 WHERE book_id = 'lab#0'",
    ),
    ("2.4", "the floor is -100", "UPDATE book SET floor = -100 WHERE book_id = 'key#0'"),
    ("2.4", "the floor is absent", "UPDATE book SET floor = NULL WHERE book_id = 'key#0'"),
    (
        "2.4",
        "HELD is negative",
        "ALTER TABLE book DROP CONSTRAINT book_no_balance_but_available_is_negative;"
        "UPDATE book SET held = held - 100, spent = spent + 100 WHERE book_id = 'key#0'",
    ),
    (
        "2.5",
        "DEFICIT 1",
        "ALTER TABLE book DROP CONSTRAINT book_available_above_floor_means_deficit_zero;"
        "UPDATE book SET deficit = 1, authority = authority - 1 WHERE book_id = 'key#0'",
    ),
    (
        "2.6",
        "by a limit of 10, the budget has one of 11",
        "UPDATE budget SET limit_amount = 11 WHERE budget_id = 'key'",
    ),
    ("2.6", "were granted 90, its grants are 0", "DELETE FROM budget_grant"),
    ("2.7", "book lab#0 of acme has no budget", "DELETE FROM budget WHERE budget_id = 'lab'"),
    (
        "2.6",
        "neither limit nor grant nor carried",
        "UPDATE entry SET kind = 'SETTLE' WHERE kind = 'LIMIT'; UPDATE budget SET limit_amount = 10 WHERE budget_id = 'second'",
    ),
    ("2.7", "budget lab of acme has no open book", "DELETE FROM book WHERE book_id = 'lab#0'"),
    ("2.7", "not its parent's and itself", "UPDATE budget SET path = '{lab, key}' WHERE budget_id = 'key'"),
    ("2.7", "not its parent's and itself", "UPDATE budget SET path = '{none, key}' WHERE budget_id = 'key'"),
    ("2.7", "its parent in EUR", "UPDATE budget SET currency = 'EUR' WHERE budget_id = 'org'"),
    (
        "2.7",
        "book lab#0 of acme is not of budget key",
        "DROP INDEX book_one_open_per_budget; UPDATE book SET budget_id = 'key' WHERE book_id = 'lab#0'",
    ),
    ("2.10", "ends after the next one begins", "UPDATE book SET period_end = period_end + interval '9 s' WHERE closed"),
    ("2.10", "is closed, and is the last", "UPDATE book SET period_end = now(), closed = true WHERE book_id = 'lab#0'"),
    (
        "2.10",
        "is open, and has a later one",
        "DROP INDEX book_one_open_per_budget; UPDATE book SET closed = false WHERE budget_id = 'second'",
    ),
    ("2.10", "as if it were later than", "UPDATE book SET book_id = 'second#3' WHERE budget_id = 'second' AND closed"),
    ("2.11", "not of one budget", "UPDATE book SET budget_id = 'second2' WHERE budget_id = 'second' AND NOT closed"),
    ("2.11", "loses 2", f"UPDATE posting SET amount = amount - 2 WHERE {INTO_THE_LAST}"),
    (
        "2.11",
        "makes 2 out of nothing",
        f"UPDATE posting SET amount = amount + 2 WHERE {INTO_THE_LAST};"
        "UPDATE book SET period_start = (SELECT max(period_end) FROM book WHERE closed) WHERE budget_id = 'second' AND NOT closed",
    ),
    ("2.12", "was carried, rollovers brought", "UPDATE book SET carried = carried + 1 WHERE budget_id = 'second'"),
    (
        "2.8",
        "provider openai, model gpt-x in USD",
        "UPDATE book SET expense = expense + 1, payable = payable + 1 WHERE provider = 'openai'",
    ),
    ("2.8", "provider psp", "DELETE FROM book WHERE provider = 'psp'"),
    (
        "3.1",
        "HELD 5, its holds come to 2",
        "UPDATE hold SET state = 'OUTCOME_UNKNOWN' WHERE operation_id = 'dispatching'",
    ),
    ("3.2", "UNKNOWN 4, its holds come to 0", "UPDATE hold SET state = 'DISPATCHING' WHERE operation_id = 'unknown'"),
    ("3.2", "is on the path of a hold, and is not there", "DELETE FROM book WHERE book_id = 'team#0'"),
    (
        "3.5",
        "book org#0 of acme counts 9 open holds, and has",
        "UPDATE book SET open_holds = 9 WHERE book_id = 'org#0'",
    ),
    (
        "3.3",
        "operation dispatching of acme moved",
        "UPDATE entry SET operation_id = 'reserved' WHERE operation_id = 'dispatching'",
    ),
    ("3.3", "not on its path", "UPDATE hold SET books = '{key#0}' WHERE operation_id = 'settled'"),
    ("3.4", "its quote 3 USD", "UPDATE hold SET amount = 2 WHERE operation_id = 'dispatching'"),
    (
        "3.4",
        "has 4 books, of which 3 are there",
        "UPDATE hold SET books = books || 'none#0'::text WHERE operation_id = 'tokens'",
    ),
    ("3.4", "its books in {EUR,USD}", "UPDATE book SET currency = 'EUR' WHERE book_id = 'key#0'"),
    (
        "4.1",
        "operation dispatching of acme was dispatched, and is RELEASED",
        "ALTER TABLE hold DROP CONSTRAINT hold_once_dispatched_is_never_released;"
        "UPDATE hold SET state = 'RELEASED' WHERE operation_id = 'dispatching'",
    ),
    (
        "4.1",
        "was unknown, and is RELEASED",
        "UPDATE hold SET state = 'RELEASED', attempt = 0 WHERE operation_id = 'unknown'",
    ),
    ("4.1", "was dispatched, and is RESERVED", "UPDATE hold SET state = 'RESERVED' WHERE operation_id = 'unknown'"),
    (
        "4.1",
        "without an attempt",
        "ALTER TABLE hold DROP CONSTRAINT hold_beyond_reserved_has_an_attempt;"
        "UPDATE hold SET attempt = 0 WHERE operation_id = 'unknown'",
    ),
    ("4.1", "is GONE", "UPDATE hold SET state = 'GONE' WHERE operation_id = 'unknown'"),
    (
        "4.2",
        "DISPATCHING without a lease, and no failure",
        "ALTER TABLE hold DROP CONSTRAINT hold_dispatching_has_a_lease_or_a_failure;"
        "UPDATE hold SET lease_expires_at = NULL WHERE operation_id = 'dispatching'",
    ),
    (
        "4.2",
        "may be sent all the same",
        "ALTER TABLE hold DROP CONSTRAINT hold_failure_ends_the_permission;"
        "UPDATE hold SET nonce_hash = 'n' WHERE operation_id = 'failed'",
    ),
    ("4.2", "attempt 2 of generation 1", "UPDATE hold SET generation = 1 WHERE operation_id = 'retried'"),
    (
        "4.2",
        "retried of acme is at attempt 2, of those before it {} are recorded",
        "DELETE FROM observation WHERE operation_id = 'retried'",
    ),
    ("4.2", "is at attempt 3, of those before it {1}", "UPDATE hold SET attempt = 3, generation = 3 WHERE attempt = 2"),
    ("4.3", "operation cancelled of acme", "DELETE FROM observation WHERE operation_id = 'cancelled'"),
    ("5.1", "has no hold", "DELETE FROM hold WHERE operation_id = 'settled'"),
    ("5.1", "is SETTLED, with no resolution", "DELETE FROM resolution WHERE operation_id = 'settled'"),
    (
        "5.1",
        "is DISPATCHING, with resolution 1",
        "UPDATE hold SET state = 'DISPATCHING' WHERE operation_id = 'settled'",
    ),
    ("5.1", "says that it is resolved", "UPDATE hold SET settled = 1 WHERE operation_id = 'unknown'"),
    ("5.1", "USAGE 4, its resolution at 1, USAGE 4.5", "UPDATE hold SET settled = 4 WHERE operation_id = 'settled'"),
    ("5.1", "the digests differ", "UPDATE hold SET resolution_digest = 'x' WHERE operation_id = 'settled'"),
    (
        "5.1",
        "is RELEASED on NO_COST",
        "UPDATE hold SET resolution_kind = 'NO_COST' WHERE operation_id = 'released';"
        "UPDATE resolution SET kind = 'NO_COST' WHERE operation_id = 'released'",
    ),
    (
        "5.2",
        "is the 1. in its chain",
        "UPDATE resolution SET revision = 2, supersedes = 'x' WHERE operation_id = 'settled'",
    ),
    (
        "5.2",
        "does not name the digest before it",
        'INSERT INTO resolution SELECT (jsonb_populate_record(r, \'{"revision": 2, "supersedes": "\\\\x00"}\')).*'
        " FROM resolution r WHERE operation_id = 'settled'",
    ),
    ("5.2", "has 0 over the hold, not 2", "UPDATE resolution SET cost_over_hold = 0 WHERE operation_id = 'overrun'"),
    ("5.3", "is not there", "DELETE FROM evidence WHERE operation_id = 'late'"),
    ("5.3", "REJECTED USAGE", "UPDATE evidence SET classification = 'REJECTED' WHERE operation_id = 'late'"),
    ("5.3", "without evidence", "UPDATE resolution SET evidence_id = NULL WHERE operation_id = 'never-sent'"),
    (
        "5.3",
        "a provider receipt that nobody brought",
        "UPDATE hold SET provider_receipt = 'r-9' WHERE operation_id = 'settled'",
    ),
    (
        "5.9",
        "receipt r-10 of provider psp of acme is bound 2 times",
        "DROP INDEX observation_one_per_provider_receipt; INSERT INTO observation SELECT"
        " (jsonb_populate_record(o, jsonb_build_object('operation_id', 'cancelled'))).* FROM observation o WHERE provider = 'psp'",
    ),
    ("5.9", "bound to attempt 7", "UPDATE observation SET attempt = 7 WHERE provider_receipt = 'r-10'"),
    ("5.9", "which has none", "UPDATE hold SET provider_receipt = NULL WHERE operation_id = 'retried'"),
    (
        "5.3",
        "ended by NEVER_SENT, against usage of its call",
        "UPDATE hold SET execution_seen = true WHERE operation_id = 'never-sent'",
    ),
    ("5.3", "says that none was seen", "UPDATE hold SET execution_seen = false WHERE operation_id = 'late'"),
    ("5.3", "says that none was seen", "UPDATE hold SET usage_seen = false WHERE operation_id = 'late'"),
    ("5.3", "has no entry", "UPDATE resolution SET entry_id = NULL WHERE operation_id = 'late'"),
    (
        "5.3",
        "of another or not there",
        "UPDATE resolution SET entry_id = gen_random_uuid() WHERE operation_id = 'late'",
    ),
    ("5.4", "settled at 4, its entries posted 4.5", "UPDATE hold SET settled = 4 WHERE operation_id = 'settled'"),
    ("5.4", "settled at nothing", "UPDATE entry SET operation_id = 'unknown' WHERE operation_id = 'settled'"),
    (
        "5.11",
        "operation rejected of acme was classified by policy psp#7",
        "UPDATE evidence SET policy = 'psp#7' WHERE operation_id = 'rejected'",
    ),
    (
        "5.11",
        "operation tokens of acme was classified by policy psp#1",
        "UPDATE evidence SET policy = 'psp#1' WHERE operation_id = 'tokens'",
    ),
    ("6.1", "PutEvidencePolicy names psp#1", "DELETE FROM evidence_policy"),
    (
        "7.7",
        "revision 1 of operation tokens of acme passed no ceiling, and says ('input_tokens',)",
        "UPDATE resolution SET passed_ceilings = '{input_tokens}' WHERE operation_id = 'tokens'",
    ),
    (
        "7.7",
        "operation tokens of acme has a line of no known bucket",
        "UPDATE resolution SET lines = jsonb_set(lines, '{0,bucket}', '\"x\"') WHERE operation_id = 'tokens'",
    ),
    (
        "7.6",
        "version 1 of the policy about psp of acme has another digest",
        "UPDATE evidence_policy SET document = jsonb_set(document, '{rules,0,standing}', '\"ESTIMATE\"')",
    ),
    ("7.6", "of the policy about psp of acme cannot be read", "UPDATE evidence_policy SET document = '[]'"),
    (
        "5.7",
        "operation settled of acme has no body",
        "ALTER TABLE evidence DROP CONSTRAINT evidence_what_resolves_is_kept_whole;"
        "UPDATE evidence SET body = NULL WHERE operation_id = 'settled'",
    ),
    (
        "5.6",
        "operation rejected of acme is AUTHORITATIVE, and no resolution rests on it",
        "UPDATE evidence SET classification = 'AUTHORITATIVE' WHERE operation_id = 'rejected'",
    ),
    (
        "5.5",
        "exclusive key order-1 of acme has 2 open holds",
        "DROP INDEX hold_one_open_per_exclusive_key;"
        "UPDATE hold SET exclusive_key = 'order-1' WHERE operation_id = 'unknown'",
    ),
    (
        "2.4",
        "UNKNOWN is negative",
        "ALTER TABLE book DROP CONSTRAINT book_no_balance_but_available_is_negative;"
        "UPDATE book SET unknown = unknown - 100, spent = spent + 100 WHERE book_id = 'key#0'",
    ),
    (
        "2.9",
        "provider psp, model  in USD: EXPENSE is -",
        "UPDATE book SET expense = expense - 100, payable = payable - 100 WHERE book_id = '#financial/psp##USD#4'",
    ),
    (
        "2.9",
        "budget lab of acme has EXPENSE 1",
        "ALTER TABLE book DROP CONSTRAINT book_expense_is_the_financial_books;"
        "UPDATE book SET expense = 1, payable = 1 WHERE book_id = 'lab#0'",
    ),
    (
        "4.1",
        "operation billed-late of acme was dispatched, and is RELEASED",
        "ALTER TABLE hold DROP CONSTRAINT hold_once_dispatched_is_never_released,"
        " DROP CONSTRAINT hold_released_costs_only_by_correction;"
        "UPDATE hold SET revision = 1 WHERE operation_id = 'billed-late'",
    ),
    (
        "4.1",
        "at a cost that no correction brought",
        "ALTER TABLE hold DROP CONSTRAINT hold_released_costs_only_by_correction;"
        "UPDATE hold SET settled = 1 WHERE operation_id = 'released'",
    ),
    (
        "5.1",
        "operation not-free of acme stands at revision 1",
        "UPDATE hold SET revision = 1 WHERE operation_id = 'not-free'",
    ),
    (
        "5.2",
        "revision 3 of operation raised of acme is the 2. in its chain",
        "DELETE FROM resolution WHERE operation_id = 'raised' AND revision = 2",
    ),
    (
        "5.3",
        "operation not-free of acme ended by NEVER_SENT",
        "DELETE FROM resolution WHERE operation_id = 'not-free' AND revision = 2;"
        "UPDATE hold SET revision = 1 WHERE operation_id = 'not-free'",
    ),
    (
        "5.8",
        "revision 2 of operation not-free of acme changes the amount by 2, without an entry",
        "UPDATE resolution SET entry_id = NULL WHERE operation_id = 'not-free' AND revision = 2",
    ),
    (
        "5.8",
        "revision 1 of operation settled of acme posted an entry of kind CORRECT",
        "UPDATE entry SET kind = 'CORRECT' WHERE operation_id = 'settled' AND kind = 'SETTLE'",
    ),
    (
        "5.8",
        "revision 3 of operation raised of acme is linked to",
        "UPDATE entry SET corrects = (SELECT entry_id FROM resolution WHERE operation_id = 'raised' AND revision = 1)"
        " WHERE entry_id = (SELECT entry_id FROM resolution WHERE operation_id = 'raised' AND revision = 3)",
    ),
    ("5.8", "is linked to none", "UPDATE entry SET corrects = NULL WHERE operation_id = 'billed-late'"),
    (
        "5.8",
        "changes the amount by 2, its entry posted 1",
        "UPDATE posting p SET amount = amount / 2 FROM entry e WHERE e.entry_id = p.entry_id AND e.kind = 'CORRECT'"
        " AND e.operation_id = 'not-free'",
    ),
    (
        "5.8",
        "is a correction without a revision",
        "UPDATE entry SET kind = 'CORRECT' WHERE operation_id = 'dispatching'",
    ),
    ("6.1", "names none, which is not there", "UPDATE receipt SET resource = 'none' WHERE resource = 'settled'"),
    ("6.1", "CreateBudget names lab", "DELETE FROM budget WHERE budget_id = 'lab'"),
    ("6.1", "PutPriceCard names gpt#1", "DELETE FROM price_card WHERE card_id = 'gpt' AND version = 1"),
    ("6.1", "says OK with a refusal", "UPDATE receipt SET refusal = '{}' WHERE resource = 'settled'"),
    ("6.1", "without a refusal", "UPDATE receipt SET refusal = NULL"),
    ("6.2", "operation reserved", "DELETE FROM receipt WHERE resource = 'reserved'"),
    ("6.3", "evidence", "UPDATE evidence SET operation_id = 'none' WHERE operation_id = 'rejected'"),
    ("6.3", "observation", "UPDATE observation SET operation_id = 'none'"),
    ("6.3", "incident", "UPDATE incident SET operation_id = 'none'"),
    ("6.1", "which is not there", "UPDATE evidence SET classification = 'ESTIMATE' WHERE operation_id = 'waiting'"),
    ("6.3", "which has no hold", "UPDATE evidence SET classification = 'ESTIMATE' WHERE operation_id = 'waiting'"),
    ("6.3", "which has no hold", "UPDATE incident SET kind = 'DOUBLE_ACCEPTANCE' WHERE operation_id = 'orphan'"),
    ("6.4", "of operation waiting of acme", "DELETE FROM parked"),
    ("6.4", "of operation orphan of acme", "DELETE FROM incident WHERE operation_id = 'orphan'"),
    (
        "6.4",
        "of operation misfit of acme",
        "DELETE FROM evidence WHERE operation_id = 'misfit' AND classification <> 'PARKED'",
    ),
    ("6.5", "is not what was parked", "UPDATE parked SET evidence_id = gen_random_uuid()"),
    ("6.5", "is not what was parked", "UPDATE parked SET actor = 'another'"),
    ("6.3", "is 91, its entry posted 90", "UPDATE budget_grant SET amount = 91"),
    (
        "7.1",
        "version 2 of price card gpt",
        "UPDATE price_card SET document = jsonb_set(document, '{rates,0,price}', '\"9\"')",
    ),
    ("7.2", "which is not there", "DELETE FROM price_card WHERE card_id = 'gpt'"),
    ("7.2", "pinned to another content", "UPDATE price_card SET digest = 'x' WHERE card_id = 'gpt'"),
    (
        "7.2",
        "its lines come to",
        "UPDATE hold SET amount = 1, quote = jsonb_set(quote, '{amount}', '\"1\"') WHERE operation_id = 'tokens'",
    ),
    (
        "7.2",
        "not its quantity at its rate",
        "UPDATE hold SET quote = jsonb_set(quote, '{lines,0,1}', '\"1\"') WHERE operation_id = 'tokens'",
    ),
    (
        "7.3",
        "operation tokens of acme is 0.045171, priced again it is 0.045183",
        "UPDATE evidence SET body = jsonb_set(body, '{buckets,output_tokens}', '\"679\"') WHERE operation_id = 'tokens'",
    ),
    (
        "7.3",
        "operation settled of acme is 4.5, priced again it is 4",
        "UPDATE evidence SET body = jsonb_set(body, '{charged,0}', '\"4\"')"
        " WHERE operation_id = 'settled' AND classification = 'AUTHORITATIVE'",
    ),
    ("7.3", "priced again it is 0", "UPDATE evidence SET body = '{}' WHERE operation_id = 'tokens'"),
    ("7.3", "cannot be priced", "UPDATE evidence SET body = '{\"buckets\": {}}' WHERE operation_id = 'tokens'"),
    ("7.3", "cannot be priced", "DELETE FROM price_card WHERE card_id = 'gpt'"),
    ("7.1", "claude of acme cannot be read", "UPDATE price_card SET document = '{}' WHERE card_id = 'claude'"),
    ("7.2", "operation unknown of acme cannot be read", "UPDATE hold SET quote = '{}' WHERE operation_id = 'unknown'"),
    (
        "7.3",
        "operation tokens of acme cannot be read",
        "UPDATE resolution SET lines = '[{}]' WHERE operation_id = 'tokens'",
    ),
    ("7.3", "no evidence to be priced from", "DELETE FROM evidence WHERE operation_id = 'tokens'"),
    ("7.3", "its lines come to 0.037035", "UPDATE resolution SET lines = lines - 1 WHERE operation_id = 'tokens'"),
    (
        "7.4",
        "operation tokens",
        "UPDATE resolution SET lines = jsonb_set(lines, '{0,rate}', '\"4\"') WHERE operation_id = 'tokens'",
    ),
    (
        "7.5",
        "of operation tokens of acme has another fact than its content",
        "UPDATE evidence SET body = jsonb_set(body, '{model}', '\"gpt-y\"') WHERE operation_id = 'tokens'",
    ),
    (
        "7.5",
        "of operation tokens of acme cannot be read",
        "UPDATE evidence SET body = '[]' WHERE operation_id = 'tokens'",
    ),
    ("7.5", "says nothing that could be observed", "UPDATE evidence SET body = '{}' WHERE operation_id = 'tokens'"),
    ("7.4", "operation released", "UPDATE resolution SET digest = 'x' WHERE operation_id = 'released'"),
    (
        "7.3",
        "revision 3 of operation recounted of acme is 0.03, priced again it is 0.030012",
        "UPDATE evidence SET body = jsonb_set(body, '{buckets,output_tokens}', '\"2001\"')"
        " WHERE operation_id = 'recounted' AND body->'buckets'->>'output_tokens' = '2000'",
    ),
    (
        "7.3",
        "revision 1 of operation recounted of acme is 0.018, priced again it is 0.018012",
        "UPDATE evidence SET body = jsonb_set(body, '{buckets,output_tokens}', '\"501\"')"
        " WHERE operation_id = 'recounted' AND body->'buckets'->>'output_tokens' = '500'",
    ),
    ("7.4", "operation never-sent", "UPDATE resolution SET digest = 'x' WHERE operation_id = 'never-sent'"),
    ("8.1", "has 0 versions", "DELETE FROM outbox"),
    ("8.1", "out of order", "UPDATE outbox SET turn = -turn, position = 1000000000 - position, xid = 1"),
    ("8.1", "which has no hold", "DELETE FROM hold"),
    (
        "8.1",
        "its feed leads to",
        """UPDATE outbox SET events = replace(events::text, '"to":"SETTLED"', '"to":"RELEASED"')::json""",
    ),
    ("8.2", "is told 0 times", "DELETE FROM outbox"),
    (
        "8.2",
        "is told 2 times",
        "INSERT INTO outbox SELECT tenant, 9, position, turn, xid, 7, recorded_at, events FROM outbox",
    ),
    ("8.2", "which is not there", "DELETE FROM entry"),
    ("8.4", "grant", "DELETE FROM budget_grant"),
    ("8.4", "is told 0 times", "DELETE FROM outbox"),
    ("8.4", "incident", "DELETE FROM incident"),
    ("8.4", "price card", "DELETE FROM price_card"),
    ("8.5", "which bears no mark", "UPDATE book SET crossed = '{}'"),
    ("8.5", "its feed has 0", "DELETE FROM outbox"),
    ("8.5", "has 2 marks of", "UPDATE book SET crossed = crossed || crossed"),
    ("8.6", "and no mark of", "UPDATE book SET crossed = '{}'"),
    ("8.6", "has the thresholds", "UPDATE budget SET thresholds = '{1}'"),
    ("8.3", "which is not there", "DELETE FROM budget"),
    ("8.3", "has 0 versions", "DELETE FROM outbox"),
    (
        "8.3",
        "out of order",
        """UPDATE outbox SET events = regexp_replace(events::text, '("type":"BUDGET".*?"version":)1', '\\1 7')::json""",
    ),
]


@pytest.mark.parametrize(("law", "says", "statements"), DAMAGE, ids=[f"{law}: {says}" for law, says, _ in DAMAGE])
def test_damage_is_found(books: str, law: str, says: str, statements: str) -> None:
    damage(books, statements)
    result = checked(books)[law]
    assert result.violations > 0
    assert says in " | ".join(result.examples)
    assert result.violations <= result.checked


def test_at_most_five_examples_are_given(books: str) -> None:
    damage(books, "UPDATE posting SET amount = amount + 12345.678")
    result = checked(books)["1.1"]
    assert result.violations == result.checked
    assert len(result.examples) == 5
