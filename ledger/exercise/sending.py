"""How a caller speaks to the provider: one request is sent once, and its answer is read step by step."""

import http.client
import json
from typing import Any, Final
from urllib.parse import quote, urlsplit

CALLS: Final = "/v1/calls"
IDEMPOTENCY_KEY: Final = "Idempotency-Key"
PATIENCE_SECONDS: Final = 10.0
# What can go wrong once a connection is there. None of it tells whether the request was executed.
LOST: Final = (http.client.HTTPException, OSError)


class Answer:
    """An answer whose status was read, and no more."""

    def __init__(self, response: http.client.HTTPResponse) -> None:
        self._response = response

    def receipt(self) -> str:
        """The provider's id of the call: the first line."""
        return str(self._line()["id"])

    def document(self) -> dict[str, Any] | None:
        """The usage, from the last line; None if the provider does not have it yet."""
        document: dict[str, Any] | None = self._line()["document"]
        return document

    def all(self) -> tuple[str, dict[str, Any] | None]:
        """The receipt and the usage, of an answer of which nothing was read."""
        receipt = self.receipt()
        return receipt, self.document()

    def _line(self) -> dict[str, Any]:
        line = self._response.readline()
        if not line.endswith(b"\n"):
            raise http.client.IncompleteRead(line)
        read: dict[str, Any] = json.loads(line)
        return read


def send(url: str, key: str) -> Answer:
    """Sends the request, once. ConnectionRefusedError: it was not sent. Any other of LOST: it may have been executed."""
    connection = _connect(url)
    connection.request("POST", CALLS, b"{}", {IDEMPOTENCY_KEY: key})
    return Answer(connection.getresponse())


def look_up(url: str, key: str) -> list[dict[str, Any]]:
    """What the provider says that it accepted under a key. None of it is no proof. Raises one of LOST."""
    connection = _connect(url)
    try:
        connection.request("GET", f"{CALLS}?key={quote(key)}")
        response = connection.getresponse()
        calls: list[dict[str, Any]] = json.load(response)["calls"] if response.status == 200 else []
        return calls
    finally:
        connection.close()


def _connect(url: str) -> http.client.HTTPConnection:
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=PATIENCE_SECONDS)
    connection.connect()
    return connection
