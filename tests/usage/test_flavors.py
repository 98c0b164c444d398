"""What each provider's usage object is read as. The numbers are of the shapes that the providers document."""

import json
from typing import Any

import pytest

from ledger.usage import FLAVORS, merge_stream, normalize, usage_document

CHAT = {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120}
GEMINI = {"promptTokenCount": 9, "candidatesTokenCount": 1, "thoughtsTokenCount": 21, "totalTokenCount": 31}
CONVERSE = {"inputTokens": 30, "outputTokens": 5}

# flavour | usage object | buckets that are not zero
READINGS: list[tuple[str, dict[str, Any], dict[str, int]]] = [
    ("groq.chat", CHAT | {"queue_time": 0.1, "total_time": 0.5}, {"input_tokens": 100, "output_tokens": 20}),
    ("mistral.chat", CHAT, {"input_tokens": 100, "output_tokens": 20}),
    (
        "deepseek.chat",
        CHAT | {"prompt_tokens_details": {"cached_tokens": 60}, "prompt_cache_hit_tokens": 60, "prompt_cache_miss_tokens": 40},
        {"input_tokens": 40, "cache_read_tokens": 60, "output_tokens": 20},
    ),
    (
        "openrouter.chat",
        CHAT | {"cost": 0.0012, "cost_details": {"upstream_inference_cost": 0.001}, "is_byok": False},
        {"input_tokens": 100, "output_tokens": 20},
    ),
    (
        "openai.chat",
        CHAT | {"prompt_tokens_details": {"audio_tokens": 70}, "completion_tokens_details": {"audio_tokens": 15}},
        {"input_tokens": 30, "input_audio_tokens": 70, "output_tokens": 5, "output_audio_tokens": 15},
    ),
    (
        "openai.responses",
        {
            "input_tokens": 50, "input_tokens_details": {"cached_tokens": 40}, "output_tokens": 30,
            "output_tokens_details": {"reasoning_tokens": 10}, "total_tokens": 80,
        },
        {"input_tokens": 10, "cache_read_tokens": 40, "output_tokens": 20, "output_reasoning_tokens": 10},
    ),
    # Thoughts are beside the candidates; what tools put into the prompt is beside the prompt.
    ("gemini.generate_content", GEMINI, {"input_tokens": 9, "output_tokens": 1, "output_reasoning_tokens": 21}),
    (
        "gemini.generate_content",
        {"promptTokenCount": 9, "toolUsePromptTokenCount": 4, "candidatesTokenCount": 1, "totalTokenCount": 14},
        {"input_tokens": 13, "output_tokens": 1},
    ),
    # A provider that leaves out zeros, and whose total proves it.
    ("gemini.generate_content", {"promptTokenCount": 9, "totalTokenCount": 9}, {"input_tokens": 9}),
    (
        "gemini.generate_content",
        {
            "promptTokenCount": 300, "cachedContentTokenCount": 100, "candidatesTokenCount": 5, "totalTokenCount": 305,
            "promptTokensDetails": [{"modality": "TEXT", "tokenCount": 42}, {"modality": "IMAGE", "tokenCount": 258}],
            "cacheTokensDetails": [{"modality": "IMAGE", "tokenCount": 100}],
        },
        {"input_tokens": 42, "input_image_tokens": 158, "cache_image_read_tokens": 100, "output_tokens": 5},
    ),
    # Bedrock counts what was cached beside inputTokens, or inside them: the total tells.
    (
        "bedrock.converse",
        CONVERSE | {"cacheReadInputTokens": 20, "cacheWriteInputTokens": 4, "totalTokens": 59},
        {"input_tokens": 30, "cache_read_tokens": 20, "cache_write_tokens": 4, "output_tokens": 5},
    ),
    (
        "bedrock.converse",
        CONVERSE | {"cacheReadInputTokens": 20, "cacheWriteInputTokens": 4, "totalTokens": 35},
        {"input_tokens": 6, "cache_read_tokens": 20, "cache_write_tokens": 4, "output_tokens": 5},
    ),
    ("cohere.chat", {"billed_units": {"input_tokens": 7, "output_tokens": 3}}, {"input_tokens": 7, "output_tokens": 3}),
    (
        "cohere.tokens",
        {"tokens": {"input_tokens": 70, "output_tokens": 3}, "cached_tokens": 60},
        {"input_tokens": 10, "cache_read_tokens": 60, "output_tokens": 3},
    ),
    (
        "perplexity.chat",
        CHAT | {"num_search_queries": 2, "citation_tokens": 8, "total_tokens": 128},
        {"input_tokens": 100, "output_tokens": 20, "output_citation_tokens": 8, "web_searches": 2},
    ),
    ("openai.embeddings", {"prompt_tokens": 11, "total_tokens": 11}, {"input_tokens": 11}),
]  # fmt: skip


def document(flavor: str, usage: dict[str, Any]) -> str:
    inner: Any = usage
    for step in reversed(FLAVORS[flavor].reader.root if flavor != "cohere.chat" else ("usage",)):
        inner = {step: inner}
    return json.dumps(inner)


@pytest.mark.parametrize(("flavor", "usage", "buckets"), READINGS)
def test_each_shape_becomes_disjoint_buckets(flavor: str, usage: dict[str, Any], buckets: dict[str, int]) -> None:
    read = normalize(flavor, document(flavor, usage))
    assert read.defects == ()
    assert {bucket: quantity for bucket, quantity in read.buckets if quantity} == buckets


# flavour | usage object | the sentence about it
DEFECTS: list[tuple[str, dict[str, Any], str]] = [
    ("groq.chat", CHAT | {"total_tokens": 121}, "usage.total_tokens is 121, but input_tokens and output_tokens come to 120"),
    ("deepseek.chat", CHAT | {"prompt_cache_hit_tokens": 60}, "prompt_cache_hit_tokens is 60, but cache_read_tokens come to 0"),
    ("mistral.chat", CHAT | {"prompt_audio_seconds": 3}, "usage.prompt_audio_seconds is not zero (3), and nothing is known"),
    ("mistral.chat", CHAT | {"completion_tokens": None}, "usage.completion_tokens is absent"),
    ("gemini.generate_content", GEMINI | {"totalTokenCount": 10}, "totalTokenCount is 10, but input_tokens and output_tokens"),
    ("gemini.generate_content", {"promptTokenCount": 9}, "output_tokens is absent"),
    ("gemini.generate_content", {"promptTokenCount": 9, "totalTokenCount": 12}, "totalTokenCount is 12, but"),
    (
        "gemini.generate_content",
        GEMINI | {"promptTokensDetails": [{"modality": "SMELL", "tokenCount": 5}]},
        "usageMetadata.promptTokensDetails[smell].tokenCount is not zero (5), and nothing is known to count it",
    ),
    (
        "gemini.generate_content",
        GEMINI | {"promptTokensDetails": [{"modality": "TEXT", "tokenCount": 5}, {"modality": "TEXT", "tokenCount": 4}]},
        "usageMetadata.promptTokensDetails[1].tokenCount is not zero (4), and nothing is known to count it",
    ),
    (
        "gemini.generate_content",
        GEMINI | {"promptTokensDetails": [{"modality": "TEXT", "tokenCount": 5.0}]},
        "usageMetadata.promptTokensDetails[text].tokenCount is not a whole number",
    ),
    (
        "gemini.generate_content",
        GEMINI | {"promptTokensDetails": [{"modality": "IMAGE", "tokenCount": 9}], "cachedContentTokenCount": 4},
        "it is not reported how many of the input_image_tokens are cache_image_read_tokens",
    ),
    ("bedrock.converse", CONVERSE | {"cacheReadInputTokens": 20, "totalTokens": 40}, "totalTokens is 40, but"),
    ("bedrock.converse", CONVERSE | {"cacheReadInputTokenCount": 20, "totalTokens": 35}, "cacheReadInputTokenCount is 20, but"),
    (
        "anthropic.default",
        {"input_tokens": 1, "output_tokens": 1, "cache_creation": {"ephemeral_1h_input_tokens": 3}},
        "cache_write_tokens is not",
    ),
    ("anthropic.default", {"input_tokens": 1, "output_tokens": 1, "iterations": 3}, "usage.iterations is not a list"),
    ("openai.responses", {"output_tokens": 3}, "usage.input_tokens is absent"),
    ("cohere.chat", {"tokens": {"input_tokens": 3}}, "usage.billed_units is absent"),
]  # fmt: skip


@pytest.mark.parametrize(("flavor", "usage", "sentence"), DEFECTS)
def test_what_does_not_add_up_or_is_not_known_settles_nothing(
    flavor: str, usage: dict[str, Any], sentence: str
) -> None:
    read = normalize(flavor, document(flavor, usage))
    assert read.buckets == ()
    assert any(sentence in defect for defect in read.defects), read.defects


@pytest.mark.parametrize(
    ("flavor", "text", "tier"),
    [
        ("gemini.generate_content", json.dumps({"usageMetadata": GEMINI | {"trafficType": "ON_DEMAND"}}), "standard"),
        ("gemini.generate_content", json.dumps({"usageMetadata": GEMINI | {"serviceTier": "flex"}}), "flex"),
        ("groq.chat", json.dumps({"service_tier": "on_demand", "usage": CHAT}), "standard"),
    ],
)
def test_the_words_of_other_providers_for_a_tier(flavor: str, text: str, tier: str) -> None:
    assert normalize(flavor, text).service_tier == tier


RESPONSE = {"model": "gpt-5", "usage": {"input_tokens": 1, "output_tokens": 2}}
# flavour | events | the usage document; without its last event there is none
STREAMS: list[tuple[str, list[dict[str, Any]], dict[str, Any]]] = [
    ("openai.responses", [{"type": "response.created", "response": {"model": "gpt-5", "usage": None}},
                          {"type": "response.completed", "response": RESPONSE | {"output": ["secret"]}}], RESPONSE),
    ("gemini.generate_content", [{"candidates": [{"content": "secret"}], "usageMetadata": {"promptTokenCount": 9}},
                                 {"candidates": [{"finishReason": "STOP"}], "modelVersion": "g", "usageMetadata": GEMINI}],
     {"modelVersion": "g", "usageMetadata": GEMINI}),
    ("bedrock.converse", [{"messageStop": {"stopReason": "end_turn"}}, {"metadata": {"usage": CONVERSE, "metrics": {}}}],
     {"usage": CONVERSE}),
    ("cohere.chat", [{"type": "content-delta"},
                     {"type": "message-end", "delta": {"usage": {"billed_units": {"input_tokens": 7, "output_tokens": 3}}}}],
     {"usage": {"billed_units": {"input_tokens": 7, "output_tokens": 3}}}),
    ("groq.chat", [{"model": "m", "choices": [{"index": 0, "delta": {}}]},
                   {"model": "m", "choices": [{"index": 0, "finish_reason": "stop"}], "x_groq": {"usage": CHAT}}],
     {"model": "m", "usage": CHAT}),
]  # fmt: skip


@pytest.mark.parametrize(("flavor", "events", "expected"), STREAMS)
def test_the_end_of_a_stream_brings_its_usage(
    flavor: str, events: list[dict[str, Any]], expected: dict[str, Any]
) -> None:
    assert merge_stream(flavor, events) == expected
    assert merge_stream(flavor, events[:-1]) is None


def test_a_flavour_without_a_stream_and_one_that_is_not_known() -> None:
    with pytest.raises(ValueError, match="no stream"):
        merge_stream("openai.embeddings", [])
    with pytest.raises(ValueError, match="no flavour"):
        usage_document("sounds.like", {})
    assert usage_document("cohere.chat", {"usage": {}}) is None
