"""The usage document of a stream: its end counts, and only if it came."""

from typing import Any

import pytest

from ledger.usage import merge_stream, usage_document

START: dict[str, Any] = {
    "type": "message_start",
    "message": {
        "id": "msg_1",
        "model": "claude-sonnet-4-5-20250929",
        "content": [],
        "usage": {"input_tokens": 25, "output_tokens": 1, "cache_read_input_tokens": 3},
    },
}
TEXT = {"type": "content_block_delta", "delta": {"type": "text_delta", "text": "secret"}}
DELTA = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 15}}
STOP = {"type": "message_stop"}


def test_later_values_replace_earlier_ones() -> None:
    assert merge_stream("anthropic.messages", [START, TEXT, DELTA, STOP]) == {
        "model": "claude-sonnet-4-5-20250929",
        "usage": {"input_tokens": 25, "output_tokens": 15, "cache_read_input_tokens": 3},
    }


def test_a_null_says_nothing() -> None:
    delta = DELTA | {"usage": {"output_tokens": 15, "cache_read_input_tokens": None, "input_tokens": 26}}
    merged = merge_stream("anthropic.messages", [START, delta, STOP])
    assert merged is not None
    assert merged["usage"] == {"input_tokens": 26, "output_tokens": 15, "cache_read_input_tokens": 3}


@pytest.mark.parametrize(
    "events",
    [
        [],
        [START],
        [START, TEXT, DELTA],
        [TEXT, DELTA, STOP],
        [START, START, DELTA, STOP],
        [START, DELTA, {"type": "error", "error": {"type": "overloaded_error"}}, STOP],
        [{"type": "message_start", "message": {"usage": None}}, DELTA, STOP],
        [{"type": "message_start"}, DELTA, STOP],
        ["not an event", STOP],
    ],
)
def test_an_anthropic_stream_without_its_end_gives_nothing(events: list[Any]) -> None:
    assert merge_stream("anthropic.messages", events) is None


def chunk(text: str | None, *, finish: str | None = None, usage: dict[str, int] | None = None) -> dict[str, Any]:
    choices = [] if text is None else [{"index": 0, "delta": {"content": text}, "finish_reason": finish}]
    return {"id": "chatcmpl-1", "model": "gpt-5-2025-08-07", "choices": choices, "usage": usage}


LAST = chunk(None, usage={"prompt_tokens": 8, "completion_tokens": 4, "total_tokens": 12})


def test_the_last_chunk_has_the_usage() -> None:
    assert merge_stream("openai.chat", [chunk("Good"), chunk("", finish="stop"), LAST]) == {
        "model": "gpt-5-2025-08-07",
        "usage": {"prompt_tokens": 8, "completion_tokens": 4, "total_tokens": 12},
    }


@pytest.mark.parametrize(
    "events",
    [
        [],
        [chunk("Good"), chunk("", finish="stop")],
        # A running total of a stream that was cut.
        [chunk("Good", usage={"prompt_tokens": 8, "completion_tokens": 1})],
        [LAST],
        [chunk("Good"), LAST],
        [{"choices": ["not a choice"]}, LAST],
        ["not an event"],
    ],
)
def test_an_openai_stream_without_its_end_gives_nothing(events: list[Any]) -> None:
    assert merge_stream("openai.chat", events) is None


def test_a_flavour_without_a_stream() -> None:
    with pytest.raises(ValueError, match=r"unheard\.of"):
        merge_stream("unheard.of", [])


def test_the_document_of_a_whole_response_has_no_content() -> None:
    body = {
        "id": "chatcmpl-1",
        "model": "gpt-5",
        "service_tier": "default",
        "choices": [{"message": {"content": "secret"}}],
        "usage": {"prompt_tokens": 8, "completion_tokens": 4},
    }
    assert usage_document("openai.chat", body) == {
        "model": "gpt-5",
        "service_tier": "default",
        "usage": {"prompt_tokens": 8, "completion_tokens": 4},
    }
    assert usage_document("openai.chat", {"model": "gpt-5"}) is None
