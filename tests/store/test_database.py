"""What a transaction keeps and what it does not, and what happens when two want the same."""

import traceback
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from decimal import Decimal
from threading import Barrier
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from sqlalchemy import Connection, text
from sqlalchemy.exc import IntegrityError, InternalError, OperationalError

from ledger.domain.batch import Decision
from ledger.domain.commands import CreateBudget
from ledger.domain.decide import decide
from ledger.domain.model import Account
from ledger.domain.needs import financial_book
from ledger.domain.quotes import QuoteKind, QuoteSpec
from ledger.store.database import Database, memory_of
from ledger.store.load import load
from ledger.store.pipeline import StaleRow
from ledger.store.save import save
from tests.store import samples as s
from tests.store.samples import ADMIN, T


def new_hold(operation_id: str = "op-1", **changes: Any) -> Decision:
    return Decision(holds={(T, operation_id): s.hold(operation_id, books=(), **changes)})


def holds(database: Database) -> list[Any]:
    return s.column(database, "SELECT operation_id FROM hold ORDER BY 1")


def test_without_commit_nothing_is_kept(database: Database) -> None:
    with database.transaction() as connection:
        save(connection, new_hold(), s.nothing_loaded())
    assert holds(database) == []


def test_commit_keeps_it(database: Database) -> None:
    with database.transaction() as connection:
        save(connection, new_hold(), s.nothing_loaded())
        connection.commit()
    assert holds(database) == ["op-1"]


def test_error_undoes_the_batch_and_gives_the_connection_back(database: Database) -> None:
    def failing() -> None:
        with database.transaction() as connection:
            save(connection, new_hold(), s.nothing_loaded())
            raise KeyError

    with pytest.raises(KeyError):
        failing()
    assert holds(database) == []
    assert database.engine.pool.status().endswith("Current Checked out connections: 0")


def test_one_refused_row_undoes_all_of_its_transaction(database: Database) -> None:
    decision = new_hold()
    decision.postings.append(s.posting(1, Account.HELD, "1"))
    with pytest.raises(IntegrityError, match="An entry balances in each of its books") as error:
        s.write(database, decision)
    assert not error.value.connection_invalidated
    assert holds(database) == []


def test_taken_key_is_an_integrity_error(database: Database) -> None:
    s.write(database, new_hold())
    with pytest.raises(IntegrityError, match="hold_pkey") as error:
        s.write(database, new_hold())
    assert isinstance(error.value.orig, psycopg.errors.UniqueViolation)
    assert error.value.orig.diag.constraint_name == "hold_pkey"


def test_errors_do_not_quote_rows(database: Database) -> None:
    secret = uuid4().hex
    with pytest.raises(IntegrityError, match="hold_amount_is_not_negative") as error:
        s.write(database, new_hold(labels={"name": secret}, amount=Decimal(-1)))
    assert secret not in "".join(traceback.format_exception(error.value))
    assert isinstance(error.value.orig, psycopg.Error)
    assert secret in str(error.value.orig.diag.message_detail)


def test_reads_cannot_write(database: Database) -> None:
    with database.read() as connection, pytest.raises(InternalError, match="read-only transaction"):
        connection.execute(text("INSERT INTO alembic_version VALUES ('x')"))


def test_read_sees_one_snapshot(database: Database) -> None:
    count = text("SELECT count(*) FROM hold")
    with database.read() as connection:
        assert connection.execute(count).scalar() == 0
        s.write(database, new_hold())
        assert connection.execute(count).scalar() == 0
    with database.read() as connection:
        assert connection.execute(count).scalar() == 1


def kill(connection: Connection, url: str) -> None:
    """Ends the server's process behind a connection."""
    pid = connection.execute(text("SELECT pg_backend_pid()")).scalar()
    with psycopg.connect(url, autocommit=True) as other:
        other.execute("SELECT pg_terminate_backend(%s, 5000)", [pid])


def test_lost_connection_is_reported_and_replaced(database: Database, database_url: str) -> None:
    with database.transaction() as connection:
        kill(connection, database_url)
        with pytest.raises(OperationalError) as error:
            save(connection, new_hold(), s.nothing_loaded())
    assert error.value.connection_invalidated
    s.write(database, new_hold())
    assert holds(database) == ["op-1"]


def test_lost_connection_at_commit_is_an_error_too(database: Database, database_url: str) -> None:
    with database.transaction() as connection:
        save(connection, new_hold(), s.nothing_loaded())
        kill(connection, database_url)
        with pytest.raises(OperationalError) as error:
            connection.commit()
    assert error.value.connection_invalidated
    assert holds(database) == []


# --- rows that are not as they were read ----------------------------------------------------------------------------


def test_stale_hold(database: Database) -> None:
    s.write(database, new_hold())
    stale = s.read(database, [s.never_sent()])
    later = s.hold(books=(), **s.DISPATCHED, version=2)
    s.write(database, Decision(holds={(T, "op-1"): later}), stale)
    with pytest.raises(StaleRow, match="1 of 1 rows of hold changed"):
        s.write(database, Decision(holds={(T, "op-1"): later._replace(executor="pod-8")}), stale)
    assert s.read(database, [s.never_sent()]).holds[(T, "op-1")] == later


def test_hold_that_was_never_there_is_not_made_by_a_change(database: Database) -> None:
    ghost = s.hold(books=(), **s.DISPATCHED, version=2)
    with pytest.raises(IntegrityError, match="A hold is born RESERVED or DISPATCHING, at version 1"):
        s.write(database, Decision(holds={(T, "op-1"): ghost}), s.nothing_loaded(holds={(T, "op-1"): s.hold()}))


def test_stale_book(database: Database) -> None:
    before = s.book(version=3)
    s.write(database, Decision(books={(T, "team#0"): before}))
    with pytest.raises(StaleRow, match="1 of 1 rows of book changed"):
        s.write(
            database,
            Decision(books={(T, "team#0"): replace(before, version=2)}),
            s.nothing_loaded(books={(T, "team#0"): before}),
        )


def test_new_book_does_not_overwrite(database: Database) -> None:
    s.write(database, Decision(books={(T, "team#0"): s.book(version=3)}))
    with pytest.raises(IntegrityError, match="book_pkey"):
        s.write(database, Decision(books={(T, "team#0"): s.book(version=5)}))


# --- two at the same time -------------------------------------------------------------------------------------------


def test_batches_on_one_budget_queue_on_its_book(database: Database) -> None:
    s.apply(database, [CreateBudget(ADMIN, "k", "team", None, "USD", "", Decimal("10"))])
    start = Barrier(4)

    def batch(number: int) -> list[bool]:
        start.wait()
        outcomes = s.apply(database, [s.reserve(f"op-{number}-{i}", amount="0.9") for i in range(5)])
        return [outcome.refusal is None for outcome in outcomes]

    with ThreadPoolExecutor(4) as pool:
        accepted = [ok for oks in pool.map(batch, range(4)) for ok in oks]
    # 20 reserves of 0.9 came; 11 of them are 9.9, and a twelfth would be 10.8.
    assert accepted.count(True) == 11
    assert s.column(database, "SELECT held FROM book") == [Decimal("9.9")]
    assert s.column(database, "SELECT max(version) FROM posting") == [2 + 2 * 11]


def test_first_settlements_of_a_stripe_at_the_same_time(database: Database) -> None:
    s.apply(database, [CreateBudget(ADMIN, "k", "team", None, "USD", "", None)])
    s.apply(database, [s.dispatched(f"op-{i}") for i in range(4)])
    start = Barrier(4)

    def batch(number: int) -> None:
        start.wait()
        assert [o.refusal for o in s.apply(database, [s.settle(f"op-{number}")])] == [None]

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(batch, range(4)))
    assert s.column(database, "SELECT expense FROM book WHERE provider = 'stripe'") == [Decimal(4)]


def test_reserves_of_one_operation_at_the_same_time(database: Database) -> None:
    """The second looked for the hold before the first had made it: the key of the table tells, and it may try again."""
    s.apply(database, [CreateBudget(ADMIN, "k", "team", None, "USD", "", None)])
    first, second = s.reserve(key="key-1"), s.reserve(key="key-2")
    with ThreadPoolExecutor(1) as pool, database.transaction() as connection:
        loaded, _ = load(connection, [first], 0, uuid4)
        other = pool.submit(s.apply, database, [second])
        s.until_waiting(database, other)
        save(connection, decide(loaded, [first]), loaded)
        connection.commit()
        with pytest.raises(IntegrityError, match="hold_pkey"):
            other.result(timeout=10)
    (outcome,) = s.apply(database, [second])
    assert outcome.matched_by_operation


# --- what a process remembers ---------------------------------------------------------------------------------------

STRIPE = (T, financial_book(s.hold(), 0).book_id)


def test_opened_book_is_remembered_only_once_it_is_committed(database: Database) -> None:
    s.write(database, new_hold(**s.DISPATCHED))
    with database.transaction() as connection:
        load(connection, [s.settle()], 0, uuid4)
        assert memory_of(connection).books == set()
    with database.transaction() as connection:
        load(connection, [s.settle()], 0, uuid4)
        connection.commit()
    assert database.memory.books == set()
    s.read(database, [s.settle()])
    assert database.memory.books == {STRIPE}


def test_remembered_book_that_is_gone_is_opened_again(database: Database) -> None:
    s.write(database, new_hold(**s.DISPATCHED))
    database.memory.books.add(STRIPE)
    with pytest.raises(StaleRow, match="1 of 1 books are not there any more"):
        s.read(database, [s.settle()])
    assert s.read(database, [s.settle()]).books.keys() == {STRIPE}


def test_memory_is_bounded(database: Database) -> None:
    database.memory.books.update((T, f"book-{i}") for i in range(200_001))
    database.memory.trim()
    assert database.memory.books == set()


METERED = QuoteSpec(QuoteKind.METERED, Decimal(0), card_id="gpt-x", card_version=1)


def test_a_card_that_is_forgotten_while_a_batch_waits_is_not_missing_from_it(
    database: Database, database_url: str
) -> None:
    """Another lane may trim the memory, which they share, between the look into it and the end of the load."""
    s.apply(database, [CreateBudget(ADMIN, "k", "team", None, "USD", "", None)])
    s.write(database, Decision(cards=[s.card()]))
    asked = [s.reserve(quote=METERED)]
    assert s.read(database, asked).cards == {(T, "gpt-x", 1): s.card()}
    with ThreadPoolExecutor(1) as pool, psycopg.connect(database_url) as other:
        other.execute("SELECT 1 FROM book FOR UPDATE")
        loading = pool.submit(s.read, database, asked)
        s.until_waiting(database, loading)
        database.memory.forget()
        other.rollback()
        assert loading.result(timeout=10).cards == {(T, "gpt-x", 1): s.card()}


def test_after_a_loss_of_the_connection_nothing_is_remembered(database: Database) -> None:
    """The one who answers next may be a standby that lacks the last writes, and has other rows under their keys."""
    s.write(database, Decision(cards=[s.card()]))
    s.read(database, [s.reserve(quote=METERED)])
    database.memory.books.add(STRIPE)
    assert database.memory.cards
    database.close()
    assert (database.memory.cards, database.memory.books) == ({}, set())
