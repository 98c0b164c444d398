"""The usage document of a response, streamed or not: the part of it that is evidence, without any content."""

from collections.abc import Iterable, Mapping
from typing import Any

Event = Mapping[str, Any]


def usage_document(flavor: str, response: Event) -> dict[str, Any] | None:
    """`{"model": …, "usage": {…}}` of a whole response body; None if it holds no usage object.

    With openai.chat the served tier stands beside the usage and is kept.
    """
    usage = response.get("usage")
    if not isinstance(usage, Mapping):
        return None
    kept = ("model", "service_tier") if flavor == "openai.chat" else ("model",)
    return {key: response[key] for key in kept if response.get(key) is not None} | {"usage": dict(usage)}


def merge_stream(flavor: str, events: Iterable[Event]) -> dict[str, Any] | None:
    """The usage document of a streamed response, from its events (the decoded `data:` of each, `[DONE]` left out).

    None if the event that ends the stream did not come, or there was no usage before it: what was counted until then is
    not what will be billed. Raises ValueError for a flavour without a stream.
    """
    if flavor == "openai.chat":
        return _openai(events)
    if flavor == "anthropic.messages":
        return _anthropic(events)
    raise ValueError(f"there is no stream of flavour {flavor!r}")


def _openai(events: Iterable[Event]) -> dict[str, Any] | None:
    """The last chunk with usage, if every choice was finished by then: running totals of a cut stream are not final."""
    final: dict[str, Any] | None = None
    open_choices: set[str] = set()
    finished = False
    for event in events:
        if not isinstance(event, Mapping):
            continue
        choices = event.get("choices")
        for choice in choices if isinstance(choices, list) else []:
            if not isinstance(choice, Mapping):
                return None
            index = str(choice.get("index", 0))
            if choice.get("finish_reason") is None:
                open_choices.add(index)
            else:
                open_choices.discard(index)
                finished = True
        final = usage_document("openai.chat", event) or final if finished and not open_choices else None
    return final


def _anthropic(events: Iterable[Event]) -> dict[str, Any] | None:
    """The usage of message_start, overwritten by what each message_delta says: its values are cumulative."""
    document: dict[str, Any] | None = None
    for event in events:
        if not isinstance(event, Mapping):
            continue
        kind = event.get("type")
        if kind == "message_start":
            message = event.get("message")
            if document is not None or not isinstance(message, Mapping):
                return None
            document = usage_document("anthropic.messages", message)
        elif kind == "message_delta" and document is not None:
            usage = event.get("usage")
            if isinstance(usage, Mapping):
                document["usage"] |= {key: value for key, value in usage.items() if value is not None}
        elif kind == "message_stop":
            return document
        elif kind == "error":
            return None
    return None
