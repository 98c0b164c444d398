from datetime import UTC, datetime, timedelta
from uuid import RFC_4122

from ledger.engine.ids import Ids

NOON = datetime(2026, 3, 1, 12, 0, 0, 123_456, tzinfo=UTC)


def test_an_id_is_a_uuid_of_version_7_and_says_its_millisecond() -> None:
    ids = Ids()
    ids.at(NOON)
    made = ids()
    assert (made.version, made.variant) == (7, RFC_4122)
    # 2026-03-01T12:00:00Z is 1 772 366 400 s after 1970.
    assert made.int >> 80 == 1_772_366_400_123


def test_ids_sort_by_the_clock_and_then_by_their_order() -> None:
    ids = Ids()
    made = []
    for micros in (0, 1, 2_000):
        ids.at(NOON + timedelta(microseconds=micros))
        made += [ids() for _ in range(700)]
    assert made == sorted(made)
    assert len(set(made)) == 2100


def test_two_sources_at_one_instant_give_different_ids() -> None:
    one, other = Ids(), Ids()
    one.at(NOON)
    other.at(NOON)
    assert not {one() for _ in range(1000)} & {other() for _ in range(1000)}
