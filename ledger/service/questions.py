"""What the servicers' reads have in common."""

from collections.abc import Callable
from typing import TypeVar

from sqlalchemy import Connection

from ledger.domain.refusals import Reason, Refusal
from ledger.engine.reader import Reader
from ledger.service.errors import Refused

Answer = TypeVar("Answer")


async def ask(reader: Reader, question: Callable[[Connection], Answer]) -> Answer:
    """The answer of a read. Raises Refused if the database cannot answer."""
    answer = await reader.ask(question)
    if isinstance(answer, Refusal):
        raise Refused(answer)
    return answer


def found(answer: Answer | None, kind: str, field: str, name: str) -> Answer:
    """The answer, or the refusal NOT_FOUND, which names the field of the request and what it asked for."""
    if answer is None:
        raise Refused(Refusal(Reason.NOT_FOUND, f"There is no {kind} {name!r}.", {"field": field, field: name}))
    return answer
