"""The fake provider by itself: what each mode lets the caller see, and what is on record afterwards."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import aiohttp
import pytest

from ledger.demo import replies
from ledger.demo.provider import IDEMPOTENCY_KEY, MODE, REQUEST_ID, FakeProvider, Mode
from ledger.usage import merge_stream, normalize

PATHS = {"openai.chat": "/v1/chat/completions", "anthropic.messages": "/v1/messages"}
Scene = Callable[[FakeProvider, aiohttp.ClientSession], Awaitable[None]]


def play(scene: Scene, delay: float = 5.0) -> None:
    async def play_it() -> None:
        async with FakeProvider(delay).serving() as provider, aiohttp.ClientSession(provider.url) as session:
            await scene(provider, session)

    asyncio.run(play_it())


async def send(
    session: aiohttp.ClientSession, flavor: str, mode: Mode, key: str, stream: bool = False, timeout: float = 5.0
) -> tuple[int, str, bytes]:
    headers = {MODE: mode, IDEMPOTENCY_KEY: key}
    limit = aiohttp.ClientTimeout(timeout)
    async with session.post(PATHS[flavor], json={"stream": stream}, headers=headers, timeout=limit) as answer:
        return answer.status, answer.headers.get(REQUEST_ID, ""), await answer.read()


async def read_until_cut(answer: aiohttp.ClientResponse) -> bytes:
    seen = b""
    try:
        async for line in answer.content:
            seen += line
    except aiohttp.ClientPayloadError:
        return seen
    raise AssertionError("the stream came to its end")


def events(body: bytes) -> list[dict[str, Any]]:
    data = [line.removeprefix("data: ") for line in body.decode().splitlines() if line.startswith("data: ")]
    return [json.loads(each) for each in data if each != "[DONE]"]


@pytest.mark.parametrize("flavor", PATHS)
def test_a_normal_call_is_answered_and_on_record(flavor: str) -> None:
    async def scene(provider: FakeProvider, session: aiohttp.ClientSession) -> None:
        status, receipt, body = await send(session, flavor, Mode.NORMAL, "op-1")
        assert (status, json.loads(body)["id"]) == (200, receipt)
        assert not normalize(flavor, body.decode()).defects
        async with session.get(f"/records/{receipt}") as answer:
            record = await answer.json()
        assert (record["receipt"], record["idempotency_key"]) == (receipt, "op-1")
        assert record["usage"] == json.loads(body)["usage"]
        assert provider.acceptances("op-1") == 1

    play(scene)


@pytest.mark.parametrize("flavor", PATHS)
def test_a_stream_comes_to_the_same_usage(flavor: str) -> None:
    async def scene(provider: FakeProvider, session: aiohttp.ClientSession) -> None:
        _, _, whole = await send(session, flavor, Mode.NORMAL, "op-1")
        _, _, streamed = await send(session, flavor, Mode.NORMAL, "op-2", stream=True)
        merged = merge_stream(flavor, events(streamed))
        assert merged is not None
        assert normalize(flavor, json.dumps(merged)) == normalize(flavor, whole.decode())

    play(scene)


@pytest.mark.parametrize("flavor", PATHS)
@pytest.mark.parametrize("stream", [False, True])
def test_a_lost_reply_is_charged_and_on_record(flavor: str, stream: bool) -> None:
    async def scene(provider: FakeProvider, session: aiohttp.ClientSession) -> None:
        with pytest.raises(aiohttp.ClientError):
            await send(session, flavor, Mode.LOST_REPLY, "op-1", stream)
        assert provider.acceptances("op-1") == 1
        async with session.get("/records", params={"idempotency_key": "op-1"}) as answer:
            (record,) = (await answer.json())["records"]
        assert record["idempotency_key"] == "op-1"

    play(scene)


def test_a_late_record_is_charged_and_not_to_be_found() -> None:
    async def scene(provider: FakeProvider, session: aiohttp.ClientSession) -> None:
        with pytest.raises(aiohttp.ClientError):
            await send(session, "openai.chat", Mode.LATE_RECORD, "op-1")
        assert provider.acceptances("op-1") == 1
        async with session.get("/records", params={"idempotency_key": "op-1"}) as answer:
            assert await answer.json() == {"records": []}
        async with session.get("/records/chatcmpl-0001") as answer:
            assert answer.status == 404

    play(scene)


@pytest.mark.parametrize("flavor", PATHS)
def test_a_cut_stream_has_no_final_usage(flavor: str) -> None:
    async def scene(provider: FakeProvider, session: aiohttp.ClientSession) -> None:
        headers = {MODE: Mode.CUT_STREAM, IDEMPOTENCY_KEY: "op-1"}
        async with session.post(PATHS[flavor], json={"stream": True}, headers=headers) as answer:
            seen = await read_until_cut(answer)
        assert events(seen)
        assert merge_stream(flavor, events(seen)) is None
        assert provider.acceptances("op-1") == 1

    play(scene)


def test_a_delayed_answer_is_charged_even_if_nobody_waits_for_it() -> None:
    async def scene(provider: FakeProvider, session: aiohttp.ClientSession) -> None:
        with pytest.raises(TimeoutError):
            await send(session, "openai.chat", Mode.DELAYED, "op-1", timeout=0.1)
        assert provider.acceptances("op-1") == 1
        provider.delay = 0.01
        status, _, _ = await send(session, "openai.chat", Mode.DELAYED, "op-1")
        assert status == 200
        # It was sent twice, so it was executed twice.
        assert provider.acceptances("op-1") == 2

    play(scene)


@pytest.mark.parametrize("flavor", PATHS)
def test_a_refusal_is_not_an_acceptance(flavor: str) -> None:
    async def scene(provider: FakeProvider, session: aiohttp.ClientSession) -> None:
        status, request_id, _ = await send(session, flavor, Mode.REFUSE, "op-1")
        assert status == 429
        assert request_id
        assert provider.acceptances("op-1") == 0

    play(scene)


@pytest.mark.parametrize("flavor", PATHS)
def test_zero_usage_is_said_and_not_left_out(flavor: str) -> None:
    async def scene(provider: FakeProvider, session: aiohttp.ClientSession) -> None:
        _, _, body = await send(session, flavor, Mode.ZERO_USAGE, "op-1")
        assert normalize(flavor, body.decode()).buckets == (("input_tokens", 0), ("output_tokens", 0))

    play(scene)


def test_the_usages_are_what_the_story_prices() -> None:
    openai = normalize("openai.chat", json.dumps(replies.openai_body("r", replies.OPENAI_USAGE)))
    assert dict(openai.buckets) == {"input_tokens": 1600, "cache_read_tokens": 2400, "output_tokens": 500}
    anthropic = normalize("anthropic.messages", json.dumps(replies.anthropic_body("r", replies.ANTHROPIC_USAGE)))
    assert dict(anthropic.buckets) == {"input_tokens": 1000, "cache_write_tokens": 2000, "output_tokens": 400}
