"""What the servicers' reads have in common."""

from collections.abc import Callable
from typing import Any, TypeVar

from sqlalchemy import Connection

from ledger.domain.refusals import Reason, Refusal
from ledger.engine.reader import Reader
from ledger.service.errors import Refused
from ledger.service.translate.answers import MOST_BYTES
from ledger.service.translate.pages import Place
from ledger.store import read

Answer = TypeVar("Answer")


async def ask(reader: Reader, question: Callable[[Connection], Answer]) -> Answer:
    """The answer of a read. Raises Refused if the database cannot answer."""
    answer = await reader.ask(question)
    if isinstance(answer, Refusal):
        raise Refused(answer)
    return answer


def fill(into: Any, page: read.Page[Answer], place: Place, write: Callable[[Any, Answer], None]) -> str:
    """Writes the items of a page into the repeated field of an answer, as long as one answer has room for them.

    Gives the token of the page that begins after them.
    """
    room = MOST_BYTES
    for count, item in enumerate(page.items):
        message = into.add()
        write(message, item)
        room -= message.ByteSize()
        if room < 0 and count:
            del into[-1]
            return place.token(page.key(page.items[count - 1]))
    return place.token(page.next)


def found(answer: Answer | None, kind: str, field: str, name: str) -> Answer:
    """The answer, or the refusal NOT_FOUND, which names the field of the request and what it asked for."""
    if answer is None:
        raise Refused(Refusal(Reason.NOT_FOUND, f"There is no {kind} {name!r}.", {"field": field, field: name}))
    return answer
