"""Messages that are large: what was done is told all the same, and a stranger's are not read."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import grpc
import grpc.aio
import pytest

from ledger.client import connect
from ledger.domain.model import Role
from ledger.service.interceptor import Boundary, Handler
from ledger.v1 import error_pb2, hold_pb2, journal_pb2
from tests.service.harness import NONCE, reserve_request, serving

# 33 KB, the most that labels can have.
LABELS = {f"label-{i:02}": "\N{COIN}" * 256 for i in range(32)}
CLIENTS_DEFAULT = 4 * 1024 * 1024


def reserves(numbers: range) -> list[hold_pb2.Command]:
    return [hold_pb2.Command(reserve=reserve_request(f"op-{i:03}", "0.1", labels=LABELS)) for i in numbers]


def begin(operation_id: str) -> hold_pb2.Command:
    request = hold_pb2.BeginDispatchRequest(
        idempotency_key=f"b-{operation_id}", operation_id=operation_id, dispatch=hold_pb2.Dispatch(nonce=NONCE)
    )
    return hold_pb2.Command(begin_dispatch=request)


async def test_no_answer_is_too_long_for_a_client_with_the_usual_limit(database_url: str, tmp_path: Path) -> None:
    async with serving(database_url, tmp_path) as ledger:
        await ledger.budget()
        async with (
            connect(ledger.address, ledger.token("acme", Role.GATEWAY), max_message_bytes=CLIENTS_DEFAULT) as gateway,
            connect(ledger.address, ledger.token("acme", Role.AUDITOR), max_message_bytes=CLIENTS_DEFAULT) as auditor,
        ):
            for numbers in (range(80), range(80, 150)):
                await gateway.holds.BatchExecute(hold_pb2.BatchExecuteRequest(commands=reserves(numbers)))
            # The requests are short, their answers are not; and the permission to send is given once.
            commands = [begin(f"op-{i:03}") for i in range(150)]
            sent, asked = 0, commands
            rounds = 0
            while asked:
                rounds += 1
                answer = await gateway.holds.BatchExecute(hold_pb2.BatchExecuteRequest(commands=asked))
                assert answer.ByteSize() < CLIENTS_DEFAULT
                missing = []
                for command, result in zip(asked, answer.results, strict=True):
                    if result.HasField("error"):
                        assert result.error.reason == error_pb2.ERROR_REASON_UNKNOWN_WRITE_OUTCOME
                        assert result.error.metadata["recovery_action"] == "retry_same_key"
                        missing.append(command)
                    else:
                        assert result.begin_dispatch.replayed == (rounds > 1)
                        sent += result.begin_dispatch.may_send
                assert len(missing) < len(asked)
                asked = missing
            assert (sent, rounds) == (150, 2)
            await every_row(auditor.holds.ListHolds, hold_pb2.ListHoldsRequest(page_size=1000), "holds", 150)
            # One of the budget, and one of each hold.
            await every_row(auditor.journal.ListEntries, journal_pb2.ListEntriesRequest(page_size=1000), "entries", 151)


async def every_row(call: Any, request: Any, rows: str, number: int) -> None:
    """Walks a list in pages that are cut short by their size: each row comes once."""
    found: list[str] = []
    pages = 0
    while not pages or request.page_token:
        answer = await call(request)
        found += [getattr(row, "entry_id", "") or row.operation_id for row in getattr(answer, rows)]
        request.page_token = answer.next_page_token
        pages += 1
    assert (pages, len(found), len(set(found))) == (2, number, number)


async def test_the_message_of_a_stranger_is_not_read() -> None:
    """gRPC hands over the bytes; they become a message, which can be fifty times as large, when it is known whose they are."""
    read: list[bytes] = []
    handler: Handler = grpc.unary_unary_rpc_method_handler(_never, read.append)

    async def continuation(_details: grpc.HandlerCallDetails) -> Handler:
        return handler

    details: Any = SimpleNamespace(method="/ledger.v1.HoldService/BatchExecute")
    wrapped = await Boundary(_NobodyIsKnown(), limit=1).intercept_service(continuation, details)
    assert wrapped is not None
    assert wrapped.request_deserializer is None
    told: list[tuple[Any, ...]] = []

    class Context:
        def invocation_metadata(self) -> tuple[()]:
            return ()

        async def abort(self, *status: Any) -> None:
            told.append(status)
            raise grpc.aio.AbortError

    assert wrapped.unary_unary is not None
    with pytest.raises(grpc.aio.AbortError):
        await wrapped.unary_unary(b"\x0a\x00" * 1000, Context())  # type: ignore[arg-type]  # the parts that are used
    assert told[0][0] is grpc.StatusCode.UNAUTHENTICATED
    assert read == []


def _never(_request: Any, _context: Any) -> None:
    raise AssertionError("a stranger was let in")


class _NobodyIsKnown:
    def lookup(self, _token: str, /) -> None:
        return None
