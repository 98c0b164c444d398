"""The check finds nothing in good books, and each kind of damage in bad ones."""

from ledger.audit.check import check
from ledger.store.database import Database
from tests.stories import Ledger, tell_everything


def test_good_books_keep_every_law(database: Database) -> None:
    tell_everything(Ledger(database))
    results = check(database)
    assert [result for result in results if result.violations] == []
