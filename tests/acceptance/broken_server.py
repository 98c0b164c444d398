"""A server with one bug, by name: what checks the histories must find it.

python -m tests.acceptance.broken_server BUG
"""

import sys
from typing import Any

from ledger.cli import main
from ledger.domain import attempts, decide, holds
from ledger.domain.batch import Outcome
from ledger.domain.commands import Dispatch, Release
from ledger.domain.journal import OpenBook
from ledger.domain.model import Hold
from ledger.domain.money import ZERO
from ledger.domain.states import HoldState
from ledger.domain.work import Work


def refuses_what_fits() -> None:
    room = OpenBook.room

    def too_little(book: OpenBook) -> Any:
        found = room(book)
        return None if found is None else max(found - 3, ZERO)

    OpenBook.room = too_little  # type: ignore[method-assign, assignment]


def permits_twice() -> None:
    denied_by_now = attempts.denied_by_now  # type: ignore[attr-defined]

    def denied(work: Work, hold: Hold, dispatch: Dispatch) -> Any:
        return None if hold.state is HoldState.DISPATCHING else denied_by_now(work, hold, dispatch)

    attempts.denied_by_now = denied  # type: ignore[attr-defined]


def forgets_releases() -> None:
    def release(work: Work, command: Release) -> Outcome:
        hold = work.loaded.holds.get(command.hold_key)
        if hold is None or hold.state is not HoldState.RESERVED or hold.amount < 1:
            return holds.release(work, command)
        # It is answered, and not done.
        return Outcome(hold=hold._replace(state=HoldState.RELEASED))

    decide._RULES = {**decide._RULES, Release: release}


BUGS = {bug.__name__: bug for bug in (refuses_what_fits, permits_twice, forgets_releases)}

if __name__ == "__main__":
    BUGS[sys.argv[1]]()
    sys.exit(main(["serve"]))
