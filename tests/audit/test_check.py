"""The check finds nothing in good books, and leaves them as they are."""

from decimal import Decimal

from sqlalchemy import text

from ledger.audit.check import check, check_within
from ledger.store.database import Database
from ledger.store.laws.schema import TRIGGERS
from tests.stories import Ledger


def test_good_books_keep_every_law(told: Database) -> None:
    results = {result.law: result for result in check(told)}
    assert [result for result in results.values() if result.violations] == []
    # And there was something to check, for every law.
    assert [law for law, result in results.items() if not result.checked] == []
    # 6 budgets, and one that has had at least two periods; of 2 providers one has 3 stripes and the other 2 or 3.
    assert results["2.10"].checked >= 6 + 2
    assert results["2.1"].checked - results["2.10"].checked in (5, 6)
    assert results["3.4"].checked == 22 + 2
    # 10 first revisions, 4 and 1; 1 + 2 + 1 + 2 more, of which 5 posted an entry.
    assert results["5.8"].checked == 14 + 1 + 6 + 5


def test_every_law_has_a_number_of_its_own(told: Database) -> None:
    numbers = [result.law for result in check(told)]
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


def test_the_check_writes_nothing_and_keeps_nobody_waiting(told: Database) -> None:
    # A transaction that could write: one that wrote or locked a row would have a number.
    with told.transaction() as connection:
        check_within(connection)
        number = connection.execute(text("SELECT pg_current_xact_id_if_assigned()::text")).scalar_one()
        modes = connection.execute(text("SELECT DISTINCT mode FROM pg_locks WHERE pid = pg_backend_pid()")).scalars()
        assert number is None
        assert set(modes) == {"AccessShareLock", "ExclusiveLock"}, "the exclusive one is of its own virtual number"


def test_the_triggers_asked_for_are_those_of_the_migrations(database: Database) -> None:
    with database.read() as connection:
        rows = connection.execute(
            text("SELECT tgrelid::regclass::text, tgname FROM pg_trigger WHERE NOT tgisinternal ORDER BY 1, 2")
        )
        assert [tuple(row) for row in rows] == sorted(
            (table, name) for table, names in TRIGGERS.items() for name in names
        )
