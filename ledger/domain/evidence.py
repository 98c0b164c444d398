"""Evidence: is it about this hold, is its source authoritative, and what does it come to?

An appraisal is pure arithmetic over the hold's quote, the pinned price card and the observation. It is made in the same way
for a first resolution, for a replay, and by an auditor who reprices the books.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from ledger.domain.canonical import digest
from ledger.domain.cards import GROUP_OF_BUCKET, INPUT_GROUP, OUTPUT_GROUP, STANDARD_TIER, PriceCard
from ledger.domain.commands import NoCostProof, Usage
from ledger.domain.model import Caller, Classification, Hold, Role
from ledger.domain.money import ZERO, fits, plain, total
from ledger.domain.policies import STATUS_PROOF, EvidencePolicy
from ledger.domain.pricing import Line, price
from ledger.domain.quotes import Quote, QuoteKind
from ledger.domain.states import TERMINAL, HoldState, ResolutionKind

_HEARD = frozenset({Classification.AUTHORITATIVE, Classification.CORROBORATING})


@dataclass(frozen=True, slots=True)
class Appraisal:
    """What an observation comes to.

    `reasons` says why it cannot settle the hold, and `kept_as` what it is worth then: CORROBORATING if only the policy speaks
    against it. Without reasons, and if CORROBORATING, `amount` and `lines` are its price. `about_this_hold` is true
    if it shows that this hold's call was made, whether or not it can be priced. A mere claim (a gateway's own count) shows that
    much: money that may be gone is not freed by the weakness of the evidence that it is.
    """

    kind: ResolutionKind
    reasons: tuple[str, ...] = ()
    about_this_hold: bool = True
    amount: Decimal = ZERO
    service_tier: str = ""
    lines: tuple[Line, ...] = ()
    kept_as: Classification = Classification.REJECTED


def appraise_usage(
    hold: Hold,
    usage: Usage,
    card: PriceCard | None,
    caller: Caller,
    policy: EvidencePolicy,
    now: datetime | None = None,
) -> Appraisal:
    """Holds usage against the quote, and prices it.

    Prices by the time of the day are those of the dispatch, or of `now` if this is the first that is known of the attempt.
    """
    quote = hold.quote
    foreign = _foreign(quote, usage, card)
    standing = policy.standing(usage.source, caller.role)
    claims = _no_say(f"source {usage.source}", standing, caller, policy)
    tier = priced_tier(quote, usage.served_tier)
    if quote.kind is QuoteKind.FIXED:
        amount, lines, unpriced = _charged(hold, usage)
    else:
        amount, lines, unpriced = _metered(quote, usage, card, tier, hold.dispatched_at or now)
    return Appraisal(
        ResolutionKind.USAGE,
        reasons=foreign + claims + unpriced,
        about_this_hold=not foreign,
        amount=amount,
        service_tier=tier,
        lines=lines,
        kept_as=_kept_as(standing, bool(foreign), bool(unpriced)),
    )


def priced_tier(quote: Quote, served: str) -> str:
    """The service tier that usage is priced in: the one that served, or else the one that was quoted. A fixed amount has none."""
    return served if served and quote.kind is QuoteKind.METERED else quote.service_tier


def _foreign(quote: Quote, usage: Usage, card: PriceCard | None) -> tuple[str, ...]:
    """Why the usage is of another call than the quoted one."""
    reasons = []
    if quote.provider and usage.provider != quote.provider:
        reasons.append(f"provider is {usage.provider or 'not given'}, quoted was {quote.provider}")
    serves = card.serves if card is not None else quote.model.__eq__
    # What the caller states does not outweigh what the provider's own document says.
    named = dict.fromkeys((usage.model, usage.read_model)) if quote.model else ()
    reasons += [
        f"served model {served} is not {quote.model} or one of its aliases"
        for served in named
        if served and not serves(served)
    ]
    return tuple(reasons)


def _no_say(evidence: str, standing: Classification, caller: Caller, policy: EvidencePolicy) -> tuple[str, ...]:
    """Why evidence with this standing does not settle a hold."""
    if standing is Classification.AUTHORITATIVE:
        return ()
    if standing is Classification.CORROBORATING:
        return (f"{evidence} from role {caller.role} corroborates and does not settle, by policy {policy.name}",)
    return (f"{evidence} is not authoritative from role {caller.role}",)


def _kept_as(standing: Classification, is_foreign: bool, is_wrong: bool) -> Classification:
    """What evidence is kept as that does not settle its hold."""
    if standing is Classification.ESTIMATE and not is_foreign:
        return standing
    if standing is Classification.CORROBORATING and not is_foreign and not is_wrong:
        return standing
    return Classification.REJECTED


def _charged(hold: Hold, usage: Usage) -> tuple[Decimal, tuple[Line, ...], tuple[str, ...]]:
    if usage.charged is None:
        return ZERO, (), ("a FIXED quote is resolved by the amount charged, which is absent",)
    if usage.charged_currency != hold.currency:
        return ZERO, (), (f"charged in {usage.charged_currency}, the hold is in {hold.currency}",)
    return usage.charged, (), ()


def _metered(
    quote: Quote, usage: Usage, card: PriceCard | None, tier: str, at: datetime | None
) -> tuple[Decimal, tuple[Line, ...], tuple[str, ...]]:
    if usage.charged is not None:
        return ZERO, (), ("a METERED quote is resolved by usage, not by an amount",)
    if usage.defects:
        return ZERO, (), usage.defects
    if usage.service_tier and usage.read_tier not in ("", STANDARD_TIER, usage.service_tier):
        # Of a batch a provider may say that it is standard. Any other tier that it names is the one that it charges.
        return ZERO, (), (f"the usage object says tier {usage.read_tier}, stated was {usage.service_tier}",)
    if tier not in quote.service_tiers:
        return ZERO, (), (f"served tier {tier} is not in the quote",)
    there = _prices(quote, card)
    if there is None:
        return ZERO, (), (f"price card {quote.card_id} version {quote.card_version} is missing",)
    buckets = dict(usage.buckets)
    quoted = {line.group for line in quote.lines}
    absent = [g for g in (INPUT_GROUP, OUTPUT_GROUP) if g in quoted and g not in buckets]
    if absent:
        return ZERO, (), tuple(f"{group} is absent, which is not zero" for group in absent)
    if "requests" in quoted:
        # Whatever a provider reports of tokens, the request itself was one.
        buckets.setdefault("requests", 1)
    lines, reasons = price(there, buckets, tier, at)
    amount = total(line.amount for line in lines)
    if not fits(amount):
        reasons += ("the amount is above what the ledger can hold",)
    return amount, lines, reasons


def _prices(quote: Quote, card: PriceCard | None) -> PriceCard | None:
    """What the pinned card says in the quote's region, which it has if it is the card that the quote was made from."""
    return None if card is None else card.in_region(quote.region)


def appraise_proof(hold: Hold, proof: NoCostProof, caller: Caller, policy: EvidencePolicy) -> Appraisal:
    """Holds a no-cost proof against the hold and the policy. An absent record is not a proof, and neither is a failure."""
    standing = policy.standing(proof.kind, caller.role)
    wrong = _wrong_with(hold, proof, caller, policy)
    return Appraisal(
        ResolutionKind.NO_COST,
        _no_say(proof.kind, standing, caller, policy) + wrong,
        about_this_hold=proof.kind == STATUS_PROOF,
        service_tier=hold.quote.service_tier,
        kept_as=_kept_as(standing, False, bool(wrong)),
    )


def _wrong_with(hold: Hold, proof: NoCostProof, caller: Caller, policy: EvidencePolicy) -> tuple[str, ...]:
    """What speaks against a proof, whoever is believed about it."""
    reasons: list[str] = []
    is_open = hold.state not in TERMINAL
    trusted = caller.role is Role.FINANCE
    if hold.provider_receipt is not None and is_open:
        reasons.append(f"the provider accepted the call: receipt {hold.provider_receipt}")
    if hold.state is HoldState.OUTCOME_UNKNOWN and not trusted:
        # A gateway may have sent again since: the refusal of a resend says nothing of the first call.
        reasons.append(f"{proof.kind} after the outcome became unknown needs a finance actor")
    if proof.kind == STATUS_PROOF:
        if hold.usage_seen and is_open and not trusted:
            # For the same reason: that call was made, and this may be the refusal of another.
            reasons.append(f"{proof.kind} after usage of the call was reported needs a finance actor")
        if not policy.says_not_begun(proof.provider_status, caller.role):
            reasons.append(f"status {proof.provider_status} does not say that the provider did not execute the call")
        if not proof.provider_request_id:
            reasons.append("the provider's request id is absent")
        return tuple(reasons)
    if hold.execution_seen and is_open:
        reasons.append(
            f"{proof.kind} is ruled out by the usage that was reported; usage of zero is what can still free the hold"
        )
    if not trusted and hold.state is not HoldState.OUTCOME_UNKNOWN and proof.nonce_hash != hold.owner:
        reasons.append(
            f"{proof.kind} needs the nonce of the attempt: file it from the process that was given the permission to send,"
            " or through finance"
        )
    if proof.kind == "NEVER_SENT" and not proof.cause:
        reasons.append("the cause is absent")
    return tuple(reasons)


def is_witness(hold: Hold, evidence: Usage | NoCostProof, first: str, caller: Caller, policy: EvidencePolicy) -> bool:
    """Whether an observation that resolved the hold, told by the source `first`, is borne out by the caller's of the same.

    What it comes to is not asked: that was decided when it resolved the hold, whatever a later release would read in it.
    """
    if isinstance(evidence, Usage):
        return evidence.source == first or policy.standing(evidence.source, caller.role) in _HEARD
    return evidence.kind == STATUS_PROOF or caller.role is Role.FINANCE or evidence.nonce_hash == hold.owner


def fact_of(body: Mapping[str, Any]) -> bytes:
    """The identity of what was observed: equal for the same observation, whoever saw it, when, and whatever is read from it.

    `body` is the observation as it is kept. Of a provider's document it is the document and what the caller said beside it,
    never what a library made of it.
    """
    named: tuple[str, ...]
    if "kind" in body:
        named = ("kind", "cause", "status", "request_id")
    elif "charged" in body:
        named = ("provider", "model", "charged")
    elif "document" in body:
        named = ("provider", "stated", "flavor", "document")
    else:
        named = ("provider", "model", "tier", "buckets")
    return digest("fact", 1, {name: body[name] for name in named})


def resolution_digest(
    hold: Hold,
    kind: ResolutionKind,
    attempt: int,
    amount: Decimal,
    service_tier: str = "",
    lines: Iterable[Mapping[str, str]] = (),
) -> bytes:
    """The identity of a resolution: equal for the same fact, whoever saw it, when and in whatever response.

    `lines` are the documents of its priced lines, sorted by bucket, as the resolution keeps them.
    """
    return digest(
        "resolution",
        1,
        {
            "tenant": hold.tenant,
            "hold": hold.operation_id,
            "attempt": str(attempt),
            "kind": kind.value,
            "quote": hold.quote.digest.hex(),
            "provider": hold.quote.provider,
            "sku": hold.quote.model,
            "tier": service_tier,
            "lines": [[line["bucket"], line["quantity"], line["rate"], line["per"], line["amount"]] for line in lines],
            "amount": plain(amount),
            "currency": hold.currency,
        },
    )


def passed_ceilings(quote: Quote, lines: Iterable[Mapping[str, str]]) -> tuple[str, ...]:
    """The groups of a quote in which the priced lines of a resolution are above its ceiling, in the quote's order."""
    used: Counter[str] = Counter()
    for line in lines:
        used[GROUP_OF_BUCKET[line["bucket"]]] += int(line["quantity"])
    return tuple(quoted.group for quoted in quote.lines if used[quoted.group] > quoted.quantity)


def reprice(
    quote: Quote, card: PriceCard | None, body: Mapping[str, Any], dispatched_at: datetime | None = None
) -> Decimal:
    """The amount of an accepted observation, computed again from what was stored: quote, its card, evidence body, dispatch.

    `card` is None for a FIXED quote. Raises ValueError if a METERED one is without its card: no amount can be told.
    """
    if "charged" in body:
        return Decimal(body["charged"][0])
    if "buckets" not in body:
        return ZERO
    there = _prices(quote, card)
    if there is None:
        raise ValueError(f"price card {quote.card_id} version {quote.card_version} is missing")
    buckets = {bucket: int(quantity) for bucket, quantity in body["buckets"].items()}
    if any(line.group == "requests" for line in quote.lines):
        buckets.setdefault("requests", 1)
    lines, _ = price(there, buckets, priced_tier(quote, body["tier"]), dispatched_at)
    return total(line.amount for line in lines)
