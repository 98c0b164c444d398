"""The usage document of a response, streamed or not: the part of it that is evidence, without any content."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

from ledger.usage.fields import at
from ledger.usage.shapes import FLAVORS, Flavor, Form

Event: TypeAlias = Mapping[str, Any]
Document: TypeAlias = dict[str, Any]


def usage_document(flavor: str, response: Event) -> Document | None:
    """`{"model": …, "usage": {…}}` of a whole response body; None if it holds no usage object.

    Gemini calls them modelVersion and usageMetadata. Where the served tier stands beside the usage it is kept. Raises ValueError
    for a flavour that is not known.
    """
    return _document(_flavor(flavor), response)


def merge_stream(flavor: str, events: Iterable[Event]) -> Document | None:
    """The usage document of a streamed response, from its events (the decoded `data:` of each, `[DONE]` left out).

    None if the event that ends the stream did not come, or there was no usage before it: what was counted until then is
    not what will be billed. Values are cumulative: they replace each other, and the last wins. Raises ValueError for a
    flavour without a stream.
    """
    shape = _flavor(flavor)
    merge = _MERGERS.get(shape.form)
    if merge is None:
        raise ValueError(f"there is no stream of flavour {flavor!r}")
    return merge(shape, (event for event in events if isinstance(event, Mapping)))


def _flavor(name: str) -> Flavor:
    found = FLAVORS.get(name)
    if found is None:
        raise ValueError(f"there is no flavour {name!r}")
    return found


def _document(shape: Flavor, response: Event) -> Document | None:
    root, model_path = shape.reader.root, shape.reader.model_path
    usage = at(response, *root)
    if not isinstance(usage, Mapping):
        return None
    kept = [
        *(model_path if len(model_path) == 1 else ()),
        *(["service_tier"] if shape.form is not Form.MESSAGES else ()),
    ]
    found: Document = {key: response[key] for key in kept if response.get(key) is not None}
    for step in reversed(root):
        usage = {step: dict(usage)}
    return found | dict(usage)


def _chat(shape: Flavor, events: Iterable[Event]) -> Document | None:
    """The last chunk with usage, if every choice was finished by then: running totals of a cut stream are not final."""
    final: Document | None = None
    open_choices: set[str] = set()
    finished = False
    for event in events:
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
        final = _document(shape, _unwrapped(event)) or final if finished and not open_choices else None
    return final


def _unwrapped(event: Event) -> Event:
    """A chunk with its usage where a whole response has it: Groq puts that of a stream elsewhere."""
    usage = at(event, "x_groq", "usage")
    return {**event, "usage": usage} if isinstance(usage, Mapping) and "usage" not in event else event


def _messages(shape: Flavor, events: Iterable[Event]) -> Document | None:
    """The usage of message_start, overwritten by what each message_delta says."""
    document: Document | None = None
    for event in events:
        kind = event.get("type")
        if kind == "message_start":
            message = event.get("message")
            if document is not None or not isinstance(message, Mapping):
                return None
            document = _document(shape, message)
        elif kind == "message_delta" and document is not None:
            usage = event.get("usage")
            if isinstance(usage, Mapping):
                document["usage"] |= {key: value for key, value in usage.items() if value is not None}
        elif kind == "message_stop":
            return document
        elif kind == "error":
            return None
    return None


def _responses(shape: Flavor, events: Iterable[Event]) -> Document | None:
    """The response of the event that ends the stream; one that was cut short by a limit was served and is billed too."""
    for event in events:
        response = event.get("response")
        if event.get("type") in ("response.completed", "response.incomplete") and isinstance(response, Mapping):
            return _document(shape, response)
    return None


def _gemini(shape: Flavor, events: Iterable[Event]) -> Document | None:
    """The last chunk with usage, from the one on in which the candidates finish."""
    final: Document | None = None
    finished = False
    for event in events:
        candidates = event.get("candidates")
        held = [c for c in candidates if isinstance(c, Mapping)] if isinstance(candidates, list) else []
        finished = finished or any(c.get("finishReason") for c in held)
        final = _document(shape, event) or final if finished else None
    return final


def _converse(shape: Flavor, events: Iterable[Event]) -> Document | None:
    """The metadata that follows messageStop."""
    stopped = False
    for event in events:
        stopped = stopped or "messageStop" in event
        metadata = event.get("metadata")
        if stopped and isinstance(metadata, Mapping):
            return _document(shape, metadata)
    return None


def _cohere(shape: Flavor, events: Iterable[Event]) -> Document | None:
    """The delta of message-end."""
    for event in events:
        delta = event.get("delta")
        if event.get("type") == "message-end" and isinstance(delta, Mapping):
            return _document(shape, delta)
    return None


_MERGERS: Mapping[Form, Callable[[Flavor, Iterable[Event]], Document | None]] = {
    Form.CHAT: _chat,
    Form.MESSAGES: _messages,
    Form.RESPONSES: _responses,
    Form.GEMINI: _gemini,
    Form.CONVERSE: _converse,
    Form.COHERE: _cohere,
}
