"""What a caller observed, to evidence. Usage objects are made into disjoint buckets here, before the rules see them.

Only what is malformed is refused. An observation that is well formed but cannot be right (a negative bucket, an absent field) goes
on, so that it is kept with the reasons for which it settles nothing.
"""

from decimal import Decimal

from ledger.domain.cards import GROUP_OF_BUCKET, MAX_QUANTITY
from ledger.domain.commands import NoCostProof, Usage
from ledger.service.translate.fields import (
    LEAST_NONCE,
    InvalidField,
    digest,
    empty_or_identifier,
    entries,
    identifier,
    money,
    named,
    number,
    observed,
    optional_identifier,
    text,
)
from ledger.usage import Normalized, normalize
from ledger.v1 import hold_pb2 as pb

MAX_DOCUMENT_BYTES = 8 * 1024
MAX_STATUS = 599

SOURCES = {int(number): name.removeprefix("EVIDENCE_SOURCE_") for name, number in pb.EvidenceSource.items() if number}
KINDS = {int(number): name.removeprefix("NO_COST_KIND_") for name, number in pb.NoCostKind.items() if number}
_CAUSES = {
    int(number): name.removeprefix("NEVER_SENT_CAUSE_") if number else "" for name, number in pb.NeverSentCause.items()
}


def usage(message: pb.UsageEvidence) -> Usage:
    kind = message.WhichOneof("usage")
    source = named(message.source, "usage.source", SOURCES)
    provider = identifier(message.provider, "usage.provider")
    model = empty_or_identifier(message.model, "usage.model")
    tier = empty_or_identifier(message.service_tier, "usage.service_tier")
    buckets: tuple[tuple[str, int], ...] = ()
    charged: Decimal | None = None
    charged_currency = document = flavor = ""
    defects: tuple[str, ...] = ()
    read_model = read_tier = ""
    if kind == "buckets":
        buckets = _buckets(message.buckets)
    elif kind == "provider_usage":
        document, flavor = message.provider_usage.json, message.provider_usage.api_flavor
        seen = _normalized(document, flavor)
        buckets, defects = seen.buckets, seen.defects
        read_model, read_tier = seen.model, seen.service_tier
    elif kind == "charged":
        charged, charged_currency = money(message.charged, "usage.charged")
    else:
        raise InvalidField("usage.usage", "must be given: provider_usage, buckets or charged")
    return Usage(
        source,
        provider,
        model,
        tier,
        text(message.adapter, "usage.adapter"),
        text(message.adapter_revision, "usage.adapter_revision"),
        buckets,
        charged,
        charged_currency,
        document,
        flavor,
        defects,
        optional_identifier(message.provider_receipt, "usage.provider_receipt"),
        empty_or_identifier(message.response_id, "usage.response_id"),
        observed(message, "usage.observe_time"),
        read_model,
        read_tier,
        _payload_digest(message, "usage.payload_digest"),
    )


def no_cost_proof(message: pb.NoCostProof) -> NoCostProof:
    return NoCostProof(
        named(message.kind, "no_cost.kind", KINDS),
        text(message.adapter, "no_cost.adapter"),
        text(message.adapter_revision, "no_cost.adapter_revision"),
        named(message.cause, "no_cost.cause", _CAUSES),
        number(message.provider_status, "no_cost.provider_status", 0, MAX_STATUS),
        empty_or_identifier(message.provider_request_id, "no_cost.provider_request_id"),
        observed(message, "no_cost.observe_time"),
        text(message.nonce, "no_cost.nonce", least=LEAST_NONCE) if message.nonce else "",
        _payload_digest(message, "no_cost.payload_digest"),
    )


def _buckets(message: pb.BucketUsage) -> tuple[tuple[str, int], ...]:
    buckets = entries(message.quantities)
    for bucket, quantity in buckets:
        if bucket not in GROUP_OF_BUCKET:
            raise InvalidField("usage.buckets.quantities", f"must be of the buckets {', '.join(GROUP_OF_BUCKET)}")
        if abs(quantity) > MAX_QUANTITY:
            raise InvalidField(f"usage.buckets.quantities[{bucket}]", f"must be at most {MAX_QUANTITY}")
    return buckets


def _normalized(document: str, flavor: str) -> Normalized:
    text(flavor, "usage.provider_usage.api_flavor", least=1)
    # The wire holds no lone surrogates (protobuf strings are UTF-8), and a document that writes one as \\uD800 stays text.
    if not 1 <= len(document.encode()) <= MAX_DOCUMENT_BYTES:
        raise InvalidField("usage.provider_usage.json", f"must have 1 to {MAX_DOCUMENT_BYTES} bytes")
    if "\0" in document:
        raise InvalidField("usage.provider_usage.json", "must not contain NUL")
    return normalize(flavor, document)


def _payload_digest(message: pb.UsageEvidence | pb.NoCostProof, path: str) -> bytes | None:
    return digest(message.payload_digest, path) if message.payload_digest else None
