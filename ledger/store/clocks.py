"""The clocks of time zones, from the IANA database of the system. The rules get them as they are, and read nothing."""

from datetime import UTC, tzinfo
from functools import cache
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError


class NoClocks(Exception):
    """The time zone database of this machine has no zone of the name `zone`."""

    def __init__(self, zone: str) -> None:
        super().__init__(zone)
        self.zone = zone


@cache
def clocks_of(zone: str) -> tzinfo:
    """The clocks of a zone such as Europe/Berlin; "" and UTC need no database. Raises NoClocks if it has none."""
    if zone in ("", "UTC"):
        return UTC
    try:
        return ZoneInfo(zone)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        # It is not there, or the name cannot be one, or it is a folder of the database.
        raise NoClocks(zone) from None
