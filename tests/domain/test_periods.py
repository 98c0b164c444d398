"""Where periods begin and end, to the instant. Times with an offset are what the clocks there showed, in UTC a few lines below."""

from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.domain.periods import CALENDAR, PeriodKind, Schedule, periods_between, span_at


def schedule(kind: str, zone: str = "", anchor: str = "", length: int = 0) -> Schedule:
    at = datetime.fromisoformat(anchor).astimezone(UTC) if anchor else None
    return Schedule(PeriodKind(kind), zone, at, timedelta(seconds=length) if length else None)


def starts(given: Schedule, first: str, count: int) -> list[str]:
    """The boundaries from the start of the period that contains an instant, in UTC; each period ends where the next begins."""
    zone = ZoneInfo(given.zone or "UTC")
    span = span_at(given, zone, datetime.fromisoformat(first))
    found = [span.start]
    while len(found) < count:
        assert span.end is not None
        assert span_at(given, zone, span.end - timedelta(microseconds=1)) == span
        span = span_at(given, zone, span.end)
        found.append(span.start)
    return [f"{start.astimezone(UTC):%Y-%m-%d %H:%M}" for start in found]


DAYS = [
    # Eight hours ahead of UTC, always.
    ("Asia/Shanghai", "2025-03-01T12:00+08:00", ["2025-02-28 16:00", "2025-03-01 16:00", "2025-03-02 16:00"]),
    # 30 March 2025 has 23 hours in Berlin: +01:00 before, +02:00 after.
    ("Europe/Berlin", "2025-03-29T12:00+01:00", ["2025-03-28 23:00", "2025-03-29 23:00", "2025-03-30 22:00"]),
    # 26 October 2025 has 25.
    ("Europe/Berlin", "2025-10-26T12:00+01:00", ["2025-10-25 22:00", "2025-10-26 23:00", "2025-10-27 23:00"]),
    # São Paulo went from 00:00 -03:00 to 01:00 -02:00 on 15 October 2017: its day began at one o'clock.
    ("America/Sao_Paulo", "2017-10-14T12:00-03:00", ["2017-10-14 03:00", "2017-10-15 03:00", "2017-10-16 02:00"]),
    # Havana went back from 01:00 to 00:00 on 2 November 2025: midnight came twice, and the day began with the first.
    ("America/Havana", "2025-11-02T12:00-05:00", ["2025-11-02 04:00", "2025-11-03 05:00", "2025-11-04 05:00"]),
    # Apia left 30 December 2011 out, from -10:00 to +14:00: the 31st followed on the 29th.
    ("Pacific/Apia", "2011-12-29T12:00-10:00", ["2011-12-29 10:00", "2011-12-30 10:00", "2011-12-31 10:00"]),
    # Moncton went back from 00:01 -03:00 to 23:01 -04:00 on 29 October 2006: its clocks showed the 28th again, the day went on.
    ("America/Moncton", "2006-10-28T23:30-04:00", ["2006-10-29 03:00", "2006-10-30 04:00"]),
    # Kathmandu is 5:45 ahead.
    ("Asia/Kathmandu", "2025-03-01T00:00+05:45", ["2025-02-28 18:15", "2025-03-01 18:15"]),
]


@pytest.mark.parametrize(("zone", "first", "expected"), DAYS, ids=[f"{zone}-{first[:10]}" for zone, first, _ in DAYS])
def test_days(zone: str, first: str, expected: list[str]) -> None:
    assert starts(schedule("DAY", zone), first, len(expected)) == expected


def test_a_day_may_begin_at_another_time() -> None:
    # 02:30 in Berlin: jumped over on 30 March 2025 (the clocks go from 02:00 to 03:00, at 01:00 UTC), shown twice on 26 October.
    half_past_two = schedule("DAY", "Europe/Berlin", "2025-01-01T02:30+01:00")
    assert starts(half_past_two, "2025-03-29T12:00+01:00", 3) == [
        "2025-03-29 01:30",
        "2025-03-30 01:00",
        "2025-03-31 00:30",
    ]
    assert starts(half_past_two, "2025-10-25T12:00+02:00", 3) == [
        "2025-10-25 00:30",
        "2025-10-26 00:30",
        "2025-10-27 01:30",
    ]


def test_a_boundary_within_a_jump_is_the_instant_after_it() -> None:
    # Moncton 2006: from 00:01 -04:00 to 01:01 -03:00 on 2 April. 00:30 was never shown, 01:01 was the first after it.
    assert starts(schedule("DAY", "America/Moncton", "2006-01-01T00:30-04:00"), "2006-04-01T12:00-04:00", 3) == [
        "2006-04-01 04:30",
        "2006-04-02 04:01",
        "2006-04-03 03:30",
    ]


def test_weeks_begin_on_monday_or_on_the_day_of_the_anchor() -> None:
    # 30 December 2024 was a Monday.
    assert starts(schedule("WEEK", "Europe/Berlin"), "2025-01-05T23:59:59+01:00", 2) == [
        "2024-12-29 23:00",
        "2025-01-05 23:00",
    ]
    # Wednesday noon; the week with 30 March has an hour less.
    noon = schedule("WEEK", "Europe/Berlin", "2025-01-01T12:00+01:00")
    assert starts(noon, "2025-03-30T12:00+02:00", 2) == ["2025-03-26 11:00", "2025-04-02 10:00"]
    assert starts(noon, "2024-12-31T12:00+01:00", 2) == ["2024-12-25 11:00", "2025-01-01 11:00"]


def test_months_begin_on_the_first() -> None:
    assert starts(schedule("MONTH", "Asia/Shanghai"), "2024-12-31T23:59+08:00", 4) == [
        "2024-11-30 16:00",
        "2024-12-31 16:00",
        "2025-01-31 16:00",
        "2025-02-28 16:00",
    ]


@pytest.mark.parametrize("year", ["2024", "2025"])
def test_the_31st_of_january_and_a_month(year: str) -> None:
    leap = "29" if year == "2024" else "28"
    # The end of a shorter month, and the 31st again where there is one.
    assert starts(schedule("MONTH", "UTC", "2023-01-31T09:00Z"), f"{year}-01-31T09:00Z", 5) == [
        f"{year}-01-31 09:00",
        f"{year}-02-{leap} 09:00",
        f"{year}-03-31 09:00",
        f"{year}-04-30 09:00",
        f"{year}-05-31 09:00",
    ]


def test_an_anchored_month_before_its_day() -> None:
    assert starts(schedule("MONTH", "UTC", "2025-06-15T00:00Z"), "2025-03-01T00:00Z", 3) == [
        "2025-02-15 00:00",
        "2025-03-15 00:00",
        "2025-04-15 00:00",
    ]


def test_a_fixed_length_does_not_look_at_clocks() -> None:
    ninety = schedule("FIXED", anchor="2025-03-30T00:00+01:00", length=90 * 60)
    assert starts(ninety, "2025-03-29T23:10:00Z", 3) == ["2025-03-29 23:00", "2025-03-30 00:30", "2025-03-30 02:00"]
    # Before the anchor too.
    assert starts(ninety, "2025-03-29T22:59:59Z", 2) == ["2025-03-29 21:30", "2025-03-29 23:00"]


def test_a_period_does_not_begin_before_the_end_of_the_last() -> None:
    noon, two = (datetime(2025, 3, 1, hour, tzinfo=UTC) for hour in (12, 14))
    days, berlin = schedule("DAY", "Europe/Berlin"), ZoneInfo("Europe/Berlin")
    midnight = datetime(2025, 3, 1, 23, tzinfo=UTC)
    assert span_at(days, berlin, two, noon) == (noon, midnight)
    assert span_at(days, berlin, midnight, noon) == (midnight, midnight + timedelta(days=1))
    assert span_at(schedule("NONE"), UTC, two, noon) == (noon, None)
    assert span_at(schedule("NONE"), UTC, two) == (two, None)


@pytest.mark.parametrize(
    ("given", "start", "end", "periods"),
    [
        (schedule("NONE"), "2025-03-01T00:00Z", "2025-03-01T00:00Z", 0),
        (schedule("DAY", "Europe/Berlin"), "2025-03-01T00:00+01:00", "2025-03-01T00:00+01:00", 0),
        (schedule("DAY", "Europe/Berlin"), "2025-03-01T00:00+01:00", "2025-04-01T00:00+02:00", 31),
        # The rest of the 1st is one, too: it begins where the settings changed.
        (schedule("DAY", "Europe/Berlin"), "2025-03-01T12:00+01:00", "2025-03-03T00:00+01:00", 2),
        # 30 December was not.
        (schedule("DAY", "Pacific/Apia"), "2011-12-29T00:00-10:00", "2012-01-02T00:00+14:00", 3),
        (schedule("MONTH", "UTC", "2025-01-31T00:00Z"), "2025-01-31T00:00Z", "2026-02-28T00:00Z", 13),
        (schedule("FIXED", anchor="2025-03-01T00:00Z", length=1), "2025-03-01T00:00Z", "2035-03-01T00:00Z", 315532800),
    ],
)  # fmt: skip
def test_periods_between_two_boundaries(given: Schedule, start: str, end: str, periods: int) -> None:
    zone = ZoneInfo(given.zone or "UTC")
    assert periods_between(given, zone, datetime.fromisoformat(start), datetime.fromisoformat(end)) == periods


# From 1975 to 2037, to the microsecond.
INSTANTS = st.integers(5 * 365 * 86_400 * 10**6, 67 * 365 * 86_400 * 10**6).map(
    lambda since: datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=since)
)
ZONES = ["UTC", "Europe/Berlin", "America/Havana", "America/Sao_Paulo", "Pacific/Apia", "Asia/Shanghai", "Africa/Cairo"]
ANCHORS = st.none() | INSTANTS.map(lambda at: at.replace(microsecond=0))


@given(st.sampled_from(sorted(CALENDAR)), st.sampled_from(ZONES), ANCHORS, INSTANTS)
def test_periods_follow_each_other_without_gap_and_contain_what_they_say(
    kind: PeriodKind, zone: str, anchor: datetime | None, at: datetime
) -> None:
    made, clocks = Schedule(kind, zone, anchor), ZoneInfo(zone)
    start, end = span_at(made, clocks, at)
    assert end is not None
    assert start <= at < end
    assert span_at(made, clocks, start) == span_at(made, clocks, end - timedelta(microseconds=1)) == (start, end)
    assert span_at(made, clocks, end).start == end
    assert span_at(made, clocks, start - timedelta(microseconds=1)).end == start
    assert periods_between(made, clocks, start, end) == 1
    later = span_at(made, clocks, at + timedelta(days=100)).start
    opened, there = 0, start
    while there < later:
        there = span_at(made, clocks, there).end or there
        opened += 1
    assert periods_between(made, clocks, start, later) == opened


@given(st.sampled_from(ZONES), INSTANTS)
def test_a_day_is_the_instants_at_which_the_clocks_show_its_date(zone: str, at: datetime) -> None:
    clocks = ZoneInfo(zone)

    def shown(instant: datetime) -> date:
        return instant.astimezone(clocks).date()

    start, end = span_at(Schedule(PeriodKind.DAY, zone), clocks, at)
    assert end is not None
    assert shown(start) == shown(at)
    # Clocks that are set back over midnight show the day before again; no zone does that by more than an hour.
    assert shown(end + timedelta(hours=1)) > shown(at) > shown(start - timedelta(microseconds=1))
