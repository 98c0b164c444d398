"""Law 7: prices and digests, computed again by the rules themselves. Each function gives what is wrong, or None."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from ledger.domain.cards import GROUP_OF_BUCKET, MAX_RANGES
from ledger.domain.evidence import fact_of, passed_ceilings, priced_tier, reprice, resolution_digest
from ledger.domain.money import may_be_most_of, plain, total
from ledger.domain.quotes import QuoteKind
from ledger.domain.states import ResolutionKind
from ledger.store.laws import StoredCard, StoredEvidence, StoredPolicy, StoredQuote, StoredResolution, Unreadable


def card_fault(stored: StoredCard | Unreadable) -> str | None:
    if isinstance(stored, Unreadable):
        return _unreadable(stored)
    card = stored.card
    if card.digest == stored.digest:
        return None
    return f"version {card.version} of price card {card.card_id} of {card.tenant} has another digest than its content"


def quote_fault(stored: StoredQuote | Unreadable) -> str | None:
    """A FIXED quote is its amount. A METERED one is its lines, each the most that its group can come to at the rate it names."""
    if isinstance(stored, Unreadable):
        return _unreadable(stored)
    hold, card_digest = stored
    quote = hold.quote
    if quote.kind is QuoteKind.FIXED:
        return None
    name = f"the quote of operation {hold.operation_id} of {hold.tenant}"
    if card_digest is None:
        return f"{name} is pinned to version {quote.card_version} of price card {quote.card_id}, which is not there"
    if card_digest.hex() != quote.card_digest:
        return f"{name} is pinned to another content of price card {quote.card_id}"
    # A bucket is one line, or one for each of the ranges that its price may have.
    lines_of = {group: MAX_RANGES * buckets for group, buckets in Counter(GROUP_OF_BUCKET.values()).items()}
    if not all(may_be_most_of(q.amount, q.quantity, q.rate, q.per, lines_of[q.group]) for q in quote.lines):
        return f"{name} has a line that is not its quantity at its rate"
    lines = total(line.amount for line in quote.lines)
    return None if lines == quote.amount else f"{name} is {plain(quote.amount)}, its lines come to {plain(lines)}"


def price_fault(stored: StoredResolution | Unreadable) -> str | None:
    """The amount of a resolution on usage is what the rules make of the stored quote, card and usage."""
    if isinstance(stored, Unreadable):
        return _unreadable(stored)
    if stored.kind is not ResolutionKind.USAGE:
        return None
    if stored.body is None:
        return f"{_name(stored)} has no evidence to be priced from"
    try:
        amount = reprice(stored.hold.quote, stored.card, stored.body, stored.hold.dispatched_at)
    except (LookupError, ValueError, TypeError, ArithmeticError):
        return f"{_name(stored)} cannot be priced from its card and its evidence"
    if amount != stored.amount:
        return f"{_name(stored)} is {plain(stored.amount)}, priced again it is {plain(amount)}"
    lines = total(line.amount for line in stored.lines)
    if stored.lines and lines != amount:
        return f"{_name(stored)} is {plain(amount)}, its lines come to {plain(lines)}"
    return None


def ceilings_fault(stored: StoredResolution | Unreadable) -> str | None:
    if isinstance(stored, Unreadable):
        return _unreadable(stored)
    try:
        passed = passed_ceilings(stored.hold.quote, [line.to_document() for line in stored.lines])
    except LookupError:
        return f"{_name(stored)} has a line of no known bucket"
    said = stored.passed_ceilings
    return None if passed == said else f"{_name(stored)} passed {passed or 'no ceiling'}, and says {said or 'none'}"


def digest_fault(stored: StoredResolution | Unreadable) -> str | None:
    if isinstance(stored, Unreadable):
        return _unreadable(stored)
    lines = [line.to_document() for line in stored.lines]
    computed = resolution_digest(stored.hold, stored.kind, stored.attempt or 0, stored.amount, _tier(stored), lines)
    return None if computed == stored.digest else f"{_name(stored)} has another digest than its content"


def fact_fault(stored: StoredEvidence | Unreadable) -> str | None:
    if isinstance(stored, Unreadable):
        return _unreadable(stored)
    try:
        fact = fact_of(stored.body)
    except (LookupError, ValueError, TypeError):
        return f"{stored.name} says nothing that could be observed"
    return None if fact == stored.fact else f"{stored.name} has another fact than its content"


def policy_fault(stored: StoredPolicy | Unreadable) -> str | None:
    if isinstance(stored, Unreadable):
        return _unreadable(stored)
    policy = stored.policy
    if policy.digest == stored.digest:
        return None
    return f"version {policy.version} of the policy about {policy.provider} of {policy.tenant} has another digest than its content"


def _tier(stored: StoredResolution) -> str:
    """The service tier that is part of the digest: what usage says, or else what was quoted."""
    if stored.kind is ResolutionKind.NEVER_DISPATCHED:
        return ""
    body: Mapping[str, Any] = stored.body or {}
    return priced_tier(stored.hold.quote, body.get("tier", "") if stored.kind is ResolutionKind.USAGE else "")


def _name(stored: StoredResolution) -> str:
    return f"revision {stored.revision} of operation {stored.hold.operation_id} of {stored.hold.tenant}"


def _unreadable(stored: Unreadable) -> str:
    return f"{stored.name} cannot be read"
