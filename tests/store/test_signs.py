"""Signs of a call before its hold, where there are more cases of an operation than are looked at."""

from datetime import timedelta
from uuid import uuid4

from ledger.domain.batch import Decision
from ledger.domain.commands import CreateBudget
from ledger.domain.model import Incident
from ledger.domain.parking import orphan_case
from ledger.domain.signs import ORPHAN
from ledger.store.database import Database
from tests.store import samples as s
from tests.store.samples import ADMIN, NOON, T

REJECTION = {"kind": "REJECTED_BEFORE_EXECUTION"}
USAGE = {"kind": "USAGE"}


def cases(database: Database, *made: Incident) -> None:
    s.write(database, Decision(incidents=list(made)))


def in_vain(number: int, detail: dict[str, str]) -> Incident:
    """A report of op-1 that waited in vain, so many minutes after noon."""
    return Incident(T, uuid4(), ORPHAN, "op-1", NOON + timedelta(minutes=number), detail)


def test_a_report_that_was_given_up_is_known_again_however_many_there_are(database: Database) -> None:
    report = s.settle()
    given_up = in_vain(200, USAGE)._replace(incident_id=orphan_case(report))
    cases(database, *(in_vain(number, USAGE) for number in range(150)), given_up)
    (outcome,) = s.apply(database, [report])
    assert (outcome.refusal, outcome.parked, outcome.applied) == (None, True, False)
    assert outcome.incident_id == given_up.incident_id
    assert s.column(database, "SELECT count(*) FROM parked") == [0]


def test_usage_among_many_rejections_still_says_that_the_call_was_executed(database: Database) -> None:
    s.apply(database, [CreateBudget(ADMIN, "k", "team", None, "USD", "", None)])
    cases(database, *(in_vain(number, REJECTION) for number in range(1, 150)), in_vain(500, USAGE))
    (outcome,) = s.apply(database, [s.reserve()])
    assert outcome.hold is not None
    assert outcome.hold.inferred
    assert outcome.hold.execution_seen
    # When it was made at the latest: the first sign of it.
    assert outcome.hold.dispatched_at == NOON + timedelta(minutes=1)
