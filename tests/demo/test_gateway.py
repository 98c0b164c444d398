"""What the example gateway makes of an answer, or of none: it says no more than it can know."""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import aiohttp
import pytest
from aiohttp import web
from aiohttp.abc import AbstractResolver, ResolveResult

from ledger.demo import replies
from ledger.demo.gateway import Answered, Call, NeverSent, Rejected, Seen, Unknown, send
from ledger.demo.provider import REQUEST_ID, FakeProvider, Mode
from ledger.v1 import hold_pb2

FLAVORS = ["openai.chat", "anthropic.messages"]
MODELS = {"openai.chat": replies.OPENAI_MODEL, "anthropic.messages": replies.ANTHROPIC_MODEL}
USAGES = {"openai.chat": replies.OPENAI_USAGE, "anthropic.messages": replies.ANTHROPIC_USAGE}
Answer = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


def call(
    url: str, flavor: str = "openai.chat", mode: Mode = Mode.NORMAL, stream: bool = False, patience: float = 5.0
) -> Call:
    return Call("op-1", url, flavor, MODELS[flavor], "team", {}, stream=stream, mode=mode, patience=patience)


def seen_of(flavor: str, mode: Mode, stream: bool) -> Seen:
    async def see() -> Seen:
        async with FakeProvider(delay=2.0).serving() as provider, aiohttp.ClientSession() as session:
            return await send(session, call(provider.url, flavor, mode, stream, patience=0.5))

    return asyncio.run(see())


@pytest.mark.parametrize("flavor", FLAVORS)
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("mode", "seen"),
    [
        (Mode.LOST_REPLY, Unknown("connection lost")),
        (Mode.LATE_RECORD, Unknown("connection lost")),
        (Mode.DELAYED, Unknown("time-out")),
    ],
)
def test_after_it_was_sent_no_answer_is_unknown(flavor: str, stream: bool, mode: Mode, seen: Seen) -> None:
    assert seen_of(flavor, mode, stream) == seen


@pytest.mark.parametrize("flavor", FLAVORS)
def test_a_stream_without_its_end_is_unknown(flavor: str) -> None:
    assert seen_of(flavor, Mode.CUT_STREAM, True) == Unknown("stream cut")


@pytest.mark.parametrize("flavor", FLAVORS)
@pytest.mark.parametrize("stream", [False, True])
def test_an_answer_has_the_usage_and_the_provider_s_receipt(flavor: str, stream: bool) -> None:
    seen = seen_of(flavor, Mode.NORMAL, stream)
    assert isinstance(seen, Answered)
    assert seen.document["usage"] == USAGES[flavor]
    assert seen.provider_receipt.endswith("-0001")
    assert "Good day." not in str(seen.document)


@pytest.mark.parametrize("flavor", FLAVORS)
def test_a_refusal_is_one_only_with_the_provider_s_request_id(flavor: str) -> None:
    assert seen_of(flavor, Mode.REFUSE, False) == Rejected(429, "req-0001")
    assert seen_by(lambda _: _json({"error": {}}, 429, None)) == Unknown("status 429")


@asynccontextmanager
async def answering(answer: Answer) -> AsyncIterator[str]:
    runner = web.ServerRunner(web.Server(answer), shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    await runner.cleanup()


async def _json(body: object, status: int = 200, request_id: str | None = "req-1") -> web.StreamResponse:
    headers = {} if request_id is None else {REQUEST_ID: request_id}
    return web.json_response(body, status=status, headers=headers)


async def _text(body: str) -> web.StreamResponse:
    return web.Response(text=body, content_type="application/json")


def seen_by(answer: Answer) -> Seen:
    async def see() -> Seen:
        async with answering(answer) as url, aiohttp.ClientSession() as session:
            return await send(session, call(url))

    return asyncio.run(see())


def test_a_failure_of_the_provider_proves_nothing() -> None:
    assert seen_by(lambda _: _json({"error": {}}, 500)) == Unknown("status 500")
    assert seen_by(lambda _: _json({"error": {}}, 503)) == Unknown("status 503")


def test_an_answer_without_usage_is_not_free() -> None:
    assert seen_by(lambda _: _json({"id": "chatcmpl-1", "choices": []})) == Unknown("the answer has no final usage")
    assert seen_by(lambda _: _text("<html>")) == Unknown("the answer is not JSON")


class NoNames(AbstractResolver):
    """A resolver that knows no host."""

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        raise socket.gaierror(socket.EAI_NONAME, f"{host}:{port} is not known in {family.name}")

    async def close(self) -> None:
        return None


def failing_with(url: str) -> Seen:
    async def see() -> Seen:
        connector = aiohttp.TCPConnector(resolver=NoNames())
        async with aiohttp.ClientSession(connector=connector) as session:
            return await send(session, call(url))

    return asyncio.run(see())


def test_without_a_connection_nothing_was_sent() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        assert failing_with(f"http://127.0.0.1:{port}") == NeverSent(hold_pb2.NEVER_SENT_CAUSE_CONNECTION_REFUSED)
    assert failing_with("http://provider.example") == NeverSent(hold_pb2.NEVER_SENT_CAUSE_DNS_FAILURE)


def test_a_peer_that_does_not_speak_tls_was_sent_nothing() -> None:
    async def see() -> Seen:
        async with answering(lambda _: _json({})) as url:
            connector = aiohttp.TCPConnector(ssl=ssl.create_default_context())
            async with aiohttp.ClientSession(connector=connector) as session:
                return await send(session, call(url.replace("http://", "https://")))

    assert asyncio.run(see()) == NeverSent(hold_pb2.NEVER_SENT_CAUSE_TLS_FAILURE)
