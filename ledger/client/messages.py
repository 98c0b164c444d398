"""The contract's messages from plain values: Decimal for amounts, timedelta for spans, names for everything else.

What a message holds is said in proto/ledger/v1; nothing is checked here that the ledger checks, except that an amount is exact.
"""

import json
from collections.abc import Mapping
from datetime import timedelta
from decimal import Decimal
from typing import Any, Final, TypeAlias

from google.protobuf.duration_pb2 import Duration

from ledger.v1 import hold_pb2 as pb
from ledger.v1 import money_pb2

Evidence: TypeAlias = pb.UsageEvidence | pb.NoCostProof
Amount: TypeAlias = Decimal | int
# Where providers put their usage, and what says by which price. Nothing else of a response leaves this process.
_KEPT: Final = ("model", "modelVersion", "service_tier", "usage", "usageMetadata", "usage_info", "tokenUsage")
_USAGES: Final = frozenset(_KEPT[3:])


def money(amount: Amount, currency: str) -> money_pb2.Money:
    return money_pb2.Money(amount=decimal(amount), currency=currency)


def decimal(amount: Amount) -> str:
    """The decimal string of an exact amount. Raises TypeError for a float: it has lost what it should have said."""
    if isinstance(amount, bool) or not isinstance(amount, (Decimal, int)):
        raise TypeError(f"an amount must be a Decimal or an int, and not a {type(amount).__name__}")
    return format(amount, "f") if isinstance(amount, Decimal) else str(amount)


def span(value: timedelta) -> Duration:
    message = Duration()
    message.FromTimedelta(value)
    return message


def metered_quote(
    card_id: str,
    *,
    ceilings: Mapping[str, int] | None = None,
    api_flavor: str = "",
    model: str = "",
    card_version: int = 0,
    service_tier: str = "",
    region: str = "",
    choices: int = 0,
    tolerance: Amount = 0,
) -> pb.QuoteSpec:
    """A quote by a price card. `ceilings` are tokens (or units of another bucket) by group: {"output_tokens": 4000}."""
    metered = pb.MeteredQuote(
        card_id=card_id,
        card_version=card_version,
        model=model,
        service_tier=service_tier,
        region=region,
        api_flavor=api_flavor,
        ceilings=ceilings,
        choices=choices,
    )
    return pb.QuoteSpec(metered=metered, tolerance=decimal(tolerance) if tolerance else "")


def fixed_quote(
    amount: Amount, currency: str, *, provider: str, reason: str, model: str = "", tolerance: Amount = 0
) -> pb.QuoteSpec:
    """A quote of an amount, for spend that is not tokens. `reason` says why the amount is right."""
    fixed = pb.FixedQuote(amount=money(amount, currency), provider=provider, model=model, reason=reason)
    return pb.QuoteSpec(fixed=fixed, tolerance=decimal(tolerance) if tolerance else "")


def dispatch(nonce: str, *, lease: timedelta | None = None, executor: str = "") -> pb.Dispatch:
    """Who will send. `nonce` is random, at least 16 characters, and in the memory of this process only."""
    return pb.Dispatch(nonce=nonce, executor=executor, lease=None if lease is None else span(lease))


def usage_in(response: Mapping[str, Any]) -> str:
    """The JSON of the usage object in a provider's response, with the model and the tier beside it, and no content.

    Raises ValueError if there is no usage object where providers put it.
    """
    kept = {name: response[name] for name in _KEPT if response.get(name) is not None}
    if not _USAGES & kept.keys():
        raise ValueError(f"the response has no usage object: none of {', '.join(sorted(_USAGES))} is in it")
    return json.dumps(kept, separators=(",", ":"))


def usage_evidence(
    provider: str,
    usage: Mapping[str, Any] | None = None,
    *,
    api_flavor: str = "",
    buckets: Mapping[str, int] | None = None,
    charged: tuple[Amount, str] | None = None,
    receipt: str = "",
    model: str = "",
    service_tier: str = "",
    adapter: str = "",
    adapter_revision: str = "",
    payload_digest: str = "",
    source: pb.EvidenceSource.ValueType = pb.EVIDENCE_SOURCE_PROVIDER_RESPONSE,
) -> pb.UsageEvidence:
    """What the provider counted or charged; exactly one of three. `receipt` is the provider's id for the accepted call.

    `usage`: its response (as JSON gives it), of which only the usage is taken; `api_flavor` says how to read it, such as
    "openai.chat". `buckets`: disjoint quantities by the names of BucketUsage. `charged`: an amount and its currency.
    `payload_digest`: SHA-256 of the whole response as it came, in hexadecimal, if you keep that.
    """
    if sum(given is not None for given in (usage, buckets, charged)) != 1:
        raise ValueError("give one of usage, buckets and charged")
    evidence = pb.UsageEvidence(
        source=source,
        provider=provider,
        model=model,
        service_tier=service_tier,
        adapter=adapter,
        adapter_revision=adapter_revision,
        provider_receipt=receipt,
        payload_digest=payload_digest,
    )
    if usage is not None:
        evidence.provider_usage.json = usage_in(usage)
        evidence.provider_usage.api_flavor = api_flavor
    elif buckets is not None:
        evidence.buckets.quantities.update(buckets)
        # Also of no bucket at all: the ledger says what is wrong with it.
        evidence.buckets.SetInParent()
    elif charged is not None:
        evidence.charged.CopyFrom(money(*charged))
    return evidence
