"""Log lines are JSON, one object a line, with nothing in them that is not on the list."""

import io
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest

from ledger import logs


@pytest.fixture
def stream() -> Iterator[io.StringIO]:
    root, own = logging.getLogger(), logging.getLogger("ledger")
    before = (root.handlers[:], root.level, own.level)
    written = io.StringIO()
    logs.configure("info", written)
    yield written
    root.handlers[:], root.level, own.level = before


def lines(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_only_the_fields_of_the_list_get_through(stream: io.StringIO) -> None:
    log = logging.getLogger("ledger.service")
    log.info("call ended", extra={"method": "Reserve", "duration_ms": 1.5, "token": "hunter2", "payload": {"a": 1}})
    log.debug("not heard")
    (line,) = lines(stream)
    assert line.pop("time").endswith("+00:00")
    assert line == {
        "level": "info",
        "logger": "ledger.service",
        "message": "call ended",
        "method": "Reserve",
        "duration_ms": 1.5,
    }


def test_a_line_stays_a_line(stream: io.StringIO) -> None:
    logging.getLogger("ledger").warning("odd", extra={"operation_id": "a\nb" + "c" * 1000})
    (line,) = lines(stream)
    assert line["operation_id"] == "a\nb" + "c" * 197


def test_an_exception_gives_its_type_and_place_but_not_its_text(stream: io.StringIO) -> None:
    try:
        raise ValueError("hunter2")
    except ValueError:
        logging.getLogger("ledger.engine").exception("a batch failed")
    (line,) = lines(stream)
    assert line["exception"] == "ValueError"
    assert "test_logs.py" in line["where"][0]
    assert "hunter2" not in stream.getvalue()


def test_what_a_library_was_given_does_not_get_through(stream: io.StringIO) -> None:
    library = logging.getLogger("some.library")
    library.warning("cannot reach %s", "postgresql://me:hunter2@db")
    library.warning("cannot reach hunter2")  # a text that was put together by the caller
    library.info("not heard")
    assert [line["message"] for line in lines(stream)] == ["cannot reach %s", "(the text is withheld)"]
