"""The clocks of time zones, from the IANA database of the system. The rules get them as they are, and read nothing."""

from datetime import UTC, tzinfo
from functools import cache
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError


@cache
def clocks_of(zone: str) -> tzinfo:
    """The clocks of a zone such as Europe/Berlin; "" and UTC need no database. Raises ZoneInfoNotFoundError if it has none."""
    if zone in ("", "UTC"):
        return UTC
    try:
        return ZoneInfo(zone)
    except (ValueError, OSError):
        # A name that cannot be one, or a folder of the database.
        raise ZoneInfoNotFoundError(zone) from None
