"""What was observed, apart from who saw it and when, and apart from what a library reads out of it."""

import hashlib
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest

from ledger.domain.commands import NoCostProof, Resolve, Usage
from ledger.domain.evidence import fact_of
from ledger.domain.model import Caller, Role
from tests.domain.table import run

GATEWAY = Caller("t1", "gw", Role.GATEWAY)
RAW = Usage(
    "PROVIDER_RESPONSE",
    "acme",
    "",
    "",
    "sdk",
    "7",
    buckets=(("input_tokens", 10), ("output_tokens", 5)),
    document='{"usage": {}}',
    flavor="acme.chat",
    read_model="gpt-2025",
    read_tier="standard",
)
COUNTED = Usage("PROVIDER_RESPONSE", "acme", "gpt", "", "sdk", "7", buckets=(("input_tokens", 10),))
CHARGED = Usage("WEBHOOK", "acme", "", "", "sdk", "7", charged=Decimal("4.50"), charged_currency="USD")
REFUSED = NoCostProof("REJECTED_BEFORE_EXECUTION", "sdk", "7", provider_status=429, provider_request_id="q1")
# Who saw it, by which release of what, when and in which message.
OTHER_WITNESS: dict[str, Any] = {
    "adapter": "litellm", "adapter_revision": "8", "observed_at": datetime.now(UTC), "payload_digest": b"p" * 32,
}  # fmt: skip
OTHER_USE: dict[str, Any] = {"source": "PROVIDER_RECORD", "provider_receipt": "r1", "response_id": "msg-1"}
# What another release of the library might read.
OTHER_READING: dict[str, Any] = {
    "buckets": (("input_tokens", 1), ("cache_read_tokens", 9), ("output_tokens", 5)),
    "read_model": "gpt",
    "read_tier": "priority",
    "defects": ("usage.new is not known",),
}


def fingerprint(evidence: Usage | NoCostProof) -> bytes:
    return Resolve(GATEWAY, "k", "op1", evidence).fingerprint


@pytest.mark.parametrize(
    ("evidence", "canonical"),
    [
        (
            RAW,
            '{"document":"{\\"usage\\": {}}","flavor":"acme.chat","provider":"acme","stated":["",""]}',
        ),
        (COUNTED, '{"buckets":{"input_tokens":"10"},"model":"gpt","provider":"acme","tier":""}'),
        (CHARGED, '{"charged":["4.5","USD"],"model":"","provider":"acme"}'),
        (REFUSED, '{"cause":"","kind":"REJECTED_BEFORE_EXECUTION","request_id":"q1","status":"429"}'),
    ],
)
def test_a_fact_is_the_hash_of_what_was_observed(evidence: Usage | NoCostProof, canonical: str) -> None:
    assert fact_of(evidence.body()) == hashlib.sha256(b"ledger/fact/v1\n" + canonical.encode()).digest()


@pytest.mark.parametrize("evidence", [RAW, COUNTED, CHARGED, REFUSED])
def test_another_witness_is_the_same_fact_and_the_same_request(evidence: Usage | NoCostProof) -> None:
    seen = replace(evidence, **OTHER_WITNESS)
    assert fact_of(seen.body()) == fact_of(evidence.body())
    assert fingerprint(seen) == fingerprint(evidence)


@pytest.mark.parametrize("evidence", [RAW, COUNTED, CHARGED])
def test_another_source_or_receipt_is_the_same_fact_in_another_request(evidence: Usage) -> None:
    for name, value in OTHER_USE.items():
        seen = replace(evidence, **{name: value})
        assert fact_of(seen.body()) == fact_of(evidence.body()), name
        assert fingerprint(seen) != fingerprint(evidence), name


def test_what_a_library_reads_is_part_of_neither() -> None:
    read = replace(RAW, **OTHER_READING)
    assert fact_of(read.body()) == fact_of(RAW.body())
    assert fingerprint(read) == fingerprint(RAW)
    # It is kept all the same: by it anyone can price the hold again.
    assert read.body()["buckets"] == {"input_tokens": "1", "cache_read_tokens": "9", "output_tokens": "5"}
    assert (read.body()["model"], read.body()["tier"]) == ("gpt", "priority")


@pytest.mark.parametrize(
    "change",
    [
        {"document": '{"usage":{}}'},
        {"flavor": "acme.other"},
        {"provider": "b"},
        {"model": "gpt"},
        {"service_tier": "x"},
    ],
)
def test_another_observation_is_another_fact(change: dict[str, str]) -> None:
    seen = replace(RAW, **change)  # type: ignore[arg-type]  # each is a name and a text
    assert fact_of(seen.body()) != fact_of(RAW.body())
    assert fingerprint(seen) != fingerprint(RAW)


def test_the_same_key_is_a_repeat_whatever_is_read_now() -> None:
    run("""
    adm: budget org USD 10 -> ok
    adm: card gpt USD in=3 out=15 -> ok
    reserve op1 org card=gpt in=1000 out=100 nonce=n1 -> ok send
    usage op1 in=10 out=5 document={} flavor=acme.chat key=k1 -> ok
    usage op1 in=9 cached=1 out=5 document={} flavor=acme.chat revision=8 read_tier=priority key=k1 -> unchanged replayed
    usage op1 in=10 out=5 document={}{} flavor=acme.chat key=k1 -> IDEMPOTENCY_MISMATCH
    evidence op1 AUTHORITATIVE
    """)


CALL = """
    adm: budget org USD 10 -> ok
    adm: card gpt USD in=3 cached=1 out=15 in@priority=6 out@priority=30 -> ok
    reserve op1 org card=gpt in=1000 out=100 nonce=n1 -> ok send
"""


def test_the_same_document_again_is_a_replay_whatever_is_read_in_it_now() -> None:
    world = run(
        CALL
        + """
    usage op1 in=10 out=5 document={} flavor=f receipt=r1 -> ok
    resolution op1 USAGE amount=0.000105
    usage op1 in=9 cached=1 out=5 document={} flavor=f -> unchanged replayed            # another reading
    usage op1 document={} flavor=f defects=usage.new -> unchanged replayed              # or none at all
    usage op1 in=10 out=5 document={} flavor=f read_model=claude -> unchanged replayed
    usage op1 in=10 out=5 document={} flavor=f read_tier=flex receipt=r2 -> unchanged replayed incident
    fin: usage op1 in=1 out=1 document={} flavor=f source=STATEMENT -> unchanged replayed
    usage op1 in=9 cached=1 out=5 document={}{} flavor=f -> RESOLUTION_CONFLICT         # another document
    usage op1 in=10 out=5 document={}{} flavor=f -> unchanged replayed                  # now read as what is in force
    usage op1 in=10 out=5 document={} flavor=f attempt=2 -> EVIDENCE_REJECTED
    resolution op1 USAGE amount=0.000105
    balance org spent=0.000105
    evidence op1 AUTHORITATIVE CORROBORATING CORROBORATING CORROBORATING CORROBORATING CORROBORATING CONFLICTING \
        CORROBORATING REJECTED
    """
    )
    assert {e.digest for e in world.evidence[:6]} == {world.resolutions[0].digest}
    # One fact, one body, however many witnesses; the two documents are two facts.
    assert [e.evidence_id for e in world.evidence if e.body is not None] == [
        world.evidence[0].evidence_id,
        world.evidence[6].evidence_id,
    ]
    assert len({e.fact for e in world.evidence}) == 2


def test_a_witness_that_has_no_say_is_none() -> None:
    run(
        CALL
        + """
    fin: usage op1 in=10 out=5 source=STATEMENT -> ok
    usage op1 in=10 out=5 source=GATEWAY_ESTIMATE receipt=r1 -> EVIDENCE_REJECTED
    usage op1 in=10 out=5 source=OPERATOR receipt=r1 -> EVIDENCE_REJECTED
    hold op1 SETTLED provider_receipt=none
    usage op1 in=10 out=5 source=WEBHOOK receipt=r1 -> unchanged replayed
    hold op1 SETTLED provider_receipt=r1
    evidence op1 AUTHORITATIVE ESTIMATE REJECTED CORROBORATING
    """
    )


def test_a_proof_that_is_repeated_keeps_the_rule_of_the_nonce() -> None:
    run("""
    adm: budget org USD 10 -> ok
    reserve op1 org 5 nonce=n1 -> ok send
    proof op1 NEVER_SENT cause=DNS_FAILURE nonce=n1 -> ok
    proof op1 NEVER_SENT cause=DNS_FAILURE nonce=n2 -> EVIDENCE_REJECTED
    proof op1 NEVER_SENT cause=DNS_FAILURE nonce=n1 -> unchanged replayed
    fin: proof op1 NEVER_SENT cause=DNS_FAILURE -> unchanged replayed
    reserve op2 org 5 nonce=n2 -> ok send
    proof op2 REJECTED_BEFORE_EXECUTION status=429 request=q1 -> ok
    gw2: proof op2 REJECTED_BEFORE_EXECUTION status=429 request=q1 -> unchanged replayed
    """)


def test_what_resolves_keeps_its_own_reading_of_a_document_that_was_seen_before() -> None:
    world = run(
        CALL
        + """
    usage op1 document={} flavor=f defects=usage.new -> EVIDENCE_REJECTED
    usage op1 document={} flavor=f defects=usage.new -> EVIDENCE_REJECTED
    usage op1 in=10 out=5 document={} flavor=f -> ok
    usage op1 in=10 out=5 document={} flavor=f -> unchanged replayed
    """
    )
    bodies = [None if e.body is None else e.body["buckets"] for e in world.evidence]
    assert bodies == [{}, None, {"input_tokens": "10", "output_tokens": "5"}, None]
