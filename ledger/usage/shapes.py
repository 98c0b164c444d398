"""The API flavours that usage can be read from: those that genai-prices has an extractor for, by `provider.flavour`.

The extractors are those of the installed library, whose release is pinned, so that a document is always read in one way.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, NamedTuple

from genai_prices.data import providers

from ledger.domain.cards import STANDARD_TIER
from ledger.usage.extraction import Reader
from ledger.usage.fields import Object


class Form(StrEnum):
    """How a response of the flavour comes about, and where in it things are."""

    CHAT = "OpenAI chat completions, and what copies them"
    RESPONSES = "OpenAI responses"
    MESSAGES = "Anthropic messages"
    GEMINI = "Gemini"
    CONVERSE = "Bedrock Converse"
    COHERE = "Cohere chat"
    WHOLE = "without a stream"


class Flavor(NamedTuple):
    """One of them; its extractor is that of the library for `provider` and `api`."""

    name: str
    provider: str
    api: str
    reader: Reader
    form: Form

    def tier(self, body: Object, usage: Object) -> Any:
        """The served tier in the words of price cards, '' if the response does not say."""
        return served_tier(self.reader, body, usage)


def served_tier(reader: Reader, body: Object, usage: Object) -> Any:
    """The served tier that a response says, in the words of price cards: '' if it says none, as it is if it is no text."""
    said = next((t for t in (body.get("service_tier"), *map(usage.get, _TIERS)) if t not in (None, "")), None)
    if said is not None and not isinstance(said, str):
        return said
    tier = _STANDARD.get(said.lower(), said) if said else ""
    if _ANTHROPIC not in reader.mapped:
        return tier
    # Fast mode and a pinned region have rates of their own: tiers of their own, that a card must name to price them.
    marks = [mark for mark in (usage.get("speed"), usage.get("inference_geo")) if mark not in _UNMARKED]
    return "-".join([tier or STANDARD_TIER, *map(str, marks)]) if marks else tier


_ANTHROPIC = ("cache_creation_input_tokens",)
_TIERS = ("service_tier", "serviceTier", "trafficType")
_STANDARD = dict.fromkeys(("default", "standard", "on_demand"), STANDARD_TIER)
_UNMARKED = (None, "", "standard", "global", "not_available")
_COHERE = ("cohere.default", "cohere.tokens")
# Names that people know better than those of the library.
_ALSO = {
    "anthropic.messages": "anthropic.default",
    "gemini.generate_content": "google.default",
    "bedrock.converse": "aws.default",
    "cohere.chat": "cohere.default",
    "groq.chat": "groq.default",
    "mistral.chat": "mistral.default",
    "perplexity.chat": "perplexity.default",
}


def _form(reader: Reader, api: str) -> Form:
    if reader.root == ("usageMetadata",):
        return Form.GEMINI
    if api == "responses":
        return Form.RESPONSES
    for field, form in (
        (_ANTHROPIC, Form.MESSAGES),
        (("inputTokens",), Form.CONVERSE),
        (("completion_tokens",), Form.CHAT),
    ):
        if field in reader.mapped:
            return form
    return Form.WHOLE


def _flavors() -> dict[str, Flavor]:
    found = {}
    for provider in providers:
        for extractor in provider.extractors or ():
            name, reader = f"{provider.id}.{extractor.api_flavor}", Reader(extractor)
            form = Form.COHERE if name in _COHERE else _form(reader, extractor.api_flavor)
            found[name] = Flavor(name, provider.id, extractor.api_flavor, reader, form)
    return found | {also: found[name]._replace(name=also) for also, name in _ALSO.items()}


FLAVORS: Mapping[str, Flavor] = _flavors()
