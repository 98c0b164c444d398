"""What the usage object of each API flavour holds: where its counts are, which must be there, and which must agree.

The counts are extracted by genai-prices. What is written here is what that library takes on trust: a field of another
type, or one that is missing, is left out by it without a word, and left out is not zero.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from ledger.domain.cards import STANDARD_TIER

Object = Mapping[str, Any]


class Count(NamedTuple):
    """A whole number at a path below `usage`. Without a bucket of ours (`billed` False) it must be zero."""

    path: tuple[str, ...]
    required: bool = False
    billed: bool = True


@dataclass(frozen=True, slots=True)
class Shape:
    """One flavour.

    `provider` and `extractor` name the extractor of genai-prices; they are pinned, so that a document is always read in
    one way. `disagreements` gives the sentences for counts that do not fit together; it is asked only when every count
    is well formed. `tier` gives the served tier in the words of price cards, '' if the document does not say.
    """

    provider: str
    extractor: str
    counts: tuple[Count, ...]
    disagreements: Callable[[Object], Iterable[str]]
    tier: Callable[[Object, Object], Any]


def at(data: Object, *path: str) -> Any:
    """The value at a path, None if it is absent, null, or below something that is not an object."""
    value: Any = data
    for step in path:
        if not isinstance(value, Mapping):
            return None
        value = value.get(step)
    return value


def _openai_disagreements(usage: Object) -> Iterable[str]:
    prompt, completion, total = usage["prompt_tokens"], usage["completion_tokens"], usage.get("total_tokens")
    if total is not None and total != prompt + completion:
        yield f"usage.total_tokens is {total}, but prompt_tokens and completion_tokens add up to {prompt + completion}"
    inside = (at(usage, "prompt_tokens_details", "cached_tokens") or 0) + (
        at(usage, "prompt_tokens_details", "cache_write_tokens") or 0
    )
    if inside > prompt:
        yield f"usage.prompt_tokens is {prompt}, less than the {inside} of them that were cached"
    reasoning = at(usage, "completion_tokens_details", "reasoning_tokens") or 0
    if reasoning > completion:
        yield f"usage.completion_tokens is {completion}, less than the {reasoning} of them that are reasoning_tokens"


def _openai_tier(body: Object, _usage: Object) -> Any:
    tier = body.get("service_tier")
    return STANDARD_TIER if tier == "default" else tier


def _anthropic_disagreements(usage: Object) -> Iterable[str]:
    split = at(usage, "cache_creation")
    if split is not None:
        parts = sum(at(split, key) or 0 for key in ("ephemeral_5m_input_tokens", "ephemeral_1h_input_tokens"))
        written = usage.get("cache_creation_input_tokens")
        if written is None and parts:
            yield "usage.cache_creation_input_tokens is absent, but usage.cache_creation is not zero"
        elif written is not None and written != parts:
            yield f"usage.cache_creation_input_tokens is {written}, but usage.cache_creation adds up to {parts}"
    # Turns of another model, or that compacted the context, are billed beside the totals: their price would be short.
    iterations = usage.get("iterations")
    if iterations is not None and not isinstance(iterations, list):
        yield "usage.iterations is not a list"
    elif iterations:
        for key in ("input_tokens", "output_tokens"):
            turns = [at(turn, key) for turn in iterations if isinstance(turn, Mapping)]
            together = sum(turn for turn in turns if type(turn) is int)
            if together != usage[key]:
                yield f"usage.{key} is {usage[key]}, but usage.iterations adds up to {together}"
    for tool, calls in (at(usage, "server_tool_use") or {}).items():
        # Fetching has no fee; what else the provider may come to count has one that no bucket stands for.
        if calls and tool not in ("web_search_requests", "web_fetch_requests"):
            yield f"usage.server_tool_use.{tool[:64]!a} is not zero, and there is no bucket for it"


def _anthropic_tier(_body: Object, usage: Object) -> Any:
    tier, speed, geo = usage.get("service_tier"), usage.get("speed"), usage.get("inference_geo")
    if tier is not None and not isinstance(tier, str):
        return tier
    # Fast mode and a pinned region have rates of their own: tiers of their own, that a card must name to price them.
    marks = [mark for mark in (speed, geo) if mark not in (None, "", "standard", "global", "not_available")]
    return "-".join([tier or STANDARD_TIER, *(str(mark) for mark in marks)]) if marks else tier


FLAVORS: Mapping[str, Shape] = {
    "openai.chat": Shape(
        provider="openai",
        extractor="chat",
        counts=(
            Count(("prompt_tokens",), required=True),
            Count(("completion_tokens",), required=True),
            Count(("total_tokens",)),
            Count(("prompt_tokens_details", "cached_tokens")),
            Count(("prompt_tokens_details", "cache_write_tokens")),
            Count(("prompt_tokens_details", "audio_tokens"), billed=False),
            Count(("prompt_tokens_details", "image_tokens"), billed=False),
            Count(("completion_tokens_details", "reasoning_tokens")),
            Count(("completion_tokens_details", "audio_tokens"), billed=False),
            Count(("completion_tokens_details", "image_tokens"), billed=False),
        ),
        disagreements=_openai_disagreements,
        tier=_openai_tier,
    ),
    "anthropic.messages": Shape(
        provider="anthropic",
        extractor="default",
        counts=(
            Count(("input_tokens",), required=True),
            Count(("output_tokens",), required=True),
            Count(("cache_read_input_tokens",)),
            Count(("cache_creation_input_tokens",)),
            Count(("cache_creation", "ephemeral_5m_input_tokens")),
            Count(("cache_creation", "ephemeral_1h_input_tokens")),
            Count(("server_tool_use", "web_search_requests")),
            Count(("output_tokens_details", "thinking_tokens")),
        ),
        disagreements=_anthropic_disagreements,
        tier=_anthropic_tier,
    ),
}
