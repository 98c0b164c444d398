"""What the fake provider answers: bodies and streams in the shapes of OpenAI chat and Anthropic messages."""

import json
from collections.abc import Mapping
from typing import Any

OPENAI_MODEL = "gpt-4o-2024-08-06"
ANTHROPIC_MODEL = "claude-sonnet-4-5-20250929"

OPENAI_USAGE = {
    "prompt_tokens": 4_000,
    "completion_tokens": 500,
    "total_tokens": 4_500,
    "prompt_tokens_details": {"cached_tokens": 2_400, "audio_tokens": 0},
    "completion_tokens_details": {"reasoning_tokens": 0, "audio_tokens": 0},
}
OPENAI_ZERO = {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}
ANTHROPIC_USAGE = {
    "input_tokens": 1_000,
    "cache_creation_input_tokens": 2_000,
    "cache_read_input_tokens": 0,
    "cache_creation": {"ephemeral_5m_input_tokens": 2_000, "ephemeral_1h_input_tokens": 0},
    "output_tokens": 400,
    "service_tier": "standard",
}
ANTHROPIC_ZERO = {"input_tokens": 0, "output_tokens": 0, "service_tier": "standard"}

Body = dict[str, Any]


def openai_body(receipt: str, usage: Mapping[str, Any]) -> Body:
    message = {"role": "assistant", "content": "Good day."}
    return {
        "id": receipt,
        "object": "chat.completion",
        "model": OPENAI_MODEL,
        "service_tier": "default",
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
        "usage": dict(usage),
    }


def openai_stream(receipt: str, usage: Mapping[str, Any]) -> list[str]:
    """The lines of the stream; the usage is in the last chunk, which has no choices."""

    def chunk(choices: list[Body], usage: Mapping[str, Any] | None = None) -> Body:
        return {
            "id": receipt,
            "object": "chat.completion.chunk",
            "model": OPENAI_MODEL,
            "service_tier": "default",
            "choices": choices,
            "usage": usage,
        }

    texts = [chunk([{"index": 0, "delta": {"content": text}, "finish_reason": None}]) for text in ("Good ", "day.")]
    chunks = [*texts, chunk([{"index": 0, "delta": {}, "finish_reason": "stop"}]), chunk([], usage)]
    return [*(f"data: {json.dumps(each)}\n\n" for each in chunks), "data: [DONE]\n\n"]


def anthropic_body(receipt: str, usage: Mapping[str, Any]) -> Body:
    return {
        "id": receipt,
        "type": "message",
        "role": "assistant",
        "model": ANTHROPIC_MODEL,
        "content": [{"type": "text", "text": "Good day."}],
        "stop_reason": "end_turn",
        "usage": dict(usage),
    }


def anthropic_stream(receipt: str, usage: Mapping[str, Any]) -> list[str]:
    """The lines of the stream; its first event counts one token of output, a later one all of them."""
    output = usage["output_tokens"]
    first = anthropic_body(receipt, {**usage, "output_tokens": min(1, output)}) | {"content": [], "stop_reason": None}
    events: list[Body] = [
        {"type": "message_start", "message": first},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Good day."}},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": output}},
        {"type": "message_stop"},
    ]
    return [f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events]
