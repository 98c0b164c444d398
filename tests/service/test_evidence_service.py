"""Policies about providers, and what was reported of an operation, over gRPC."""

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from ledger.domain.model import Caller, Role
from ledger.service.translate.fields import InvalidField
from ledger.service.translate.policies import put_evidence_policy
from ledger.v1 import evidence_pb2 as pb
from ledger.v1 import hold_pb2
from tests.service.harness import (
    NONCE,
    Ledger,
    metered,
    put_card,
    refusal,
    resolve_request,
    sending_request,
    serving,
)

GATEWAY, FINANCE = pb.REPORTER_GATEWAY, pb.REPORTER_FINANCE
SETTLES = pb.EVIDENCE_CLASSIFICATION_AUTHORITATIVE
BEARS_OUT = pb.EVIDENCE_CLASSIFICATION_CORROBORATING
WEBHOOK = hold_pb2.EVIDENCE_SOURCE_WEBHOOK
REFUSED = hold_pb2.NO_COST_KIND_REJECTED_BEFORE_EXECUTION
DOCUMENT = '{"model": "gpt-5", "usage": {"prompt_tokens": 1000, "completion_tokens": 50}}'


def rule(**fields: Any) -> pb.EvidenceRule:
    given: dict[str, Any] = {"source": WEBHOOK, "reporters": [GATEWAY], "standing": SETTLES}
    return pb.EvidenceRule(**given | fields)


def put(*rules: pb.EvidenceRule, key: str = "k1", provider: str = "openai") -> pb.PutEvidencePolicyRequest:
    return pb.PutEvidencePolicyRequest(
        idempotency_key=key, policy=pb.EvidencePolicy(provider=provider, rules=rules or (rule(),))
    )


def by(source: int, operation_id: str = "op-1", **fields: Any) -> hold_pb2.ResolveRequest:
    request = resolve_request(operation_id, **fields)
    request.usage.source = source  # type: ignore[assignment]  # a number of the enum
    return request


def told(entry: pb.Evidence) -> tuple[str, str]:
    return pb.EvidenceClassification.Name(entry.classification).removeprefix("EVIDENCE_CLASSIFICATION_"), entry.policy


async def listed(ledger: Ledger, operation_id: str = "op-1", size: int = 0) -> list[pb.Evidence]:
    found: list[pb.Evidence] = []
    request = pb.ListEvidenceRequest(operation_id=operation_id, page_size=size)
    while True:
        answer = await ledger.auditor.evidence.ListEvidence(request)
        found += answer.evidence
        if not answer.next_page_token:
            return found
        request.page_token = answer.next_page_token


@pytest.mark.parametrize(
    ("field", "request_"),
    [
        ("idempotency_key", put(key="")),
        ("policy.provider", put(provider="a b")),
        ("policy.version", pb.PutEvidencePolicyRequest(idempotency_key="k", policy=pb.EvidencePolicy(version=1))),
        ("policy.digest", pb.PutEvidencePolicyRequest(idempotency_key="k", policy=pb.EvidencePolicy(digest="ab"))),
        ("policy.rules", pb.PutEvidencePolicyRequest(idempotency_key="k", policy=pb.EvidencePolicy(provider="p"))),
        ("policy.rules", put(*[rule()] * 65)),
        ("policy.rules", put(rule(), rule(standing=BEARS_OUT))),
        ("policy.rules", put(rule(reporters=[GATEWAY, GATEWAY]))),
        ("policy.rules[0].evidence", put(pb.EvidenceRule(standing=SETTLES, reporters=[GATEWAY]))),
        ("policy.rules[0].source", put(rule(source=77))),
        ("policy.rules[1].source", put(rule(), rule(source=hold_pb2.EVIDENCE_SOURCE_GATEWAY_ESTIMATE))),
        ("policy.rules[0].no_cost", put(rule(no_cost=0))),
        ("policy.rules[0].reporters", put(rule(reporters=[]))),
        ("policy.rules[0].reporters", put(rule(reporters=[0]))),
        ("policy.rules[0].standing", put(rule(standing=0))),
        ("policy.rules[0].standing", put(rule(standing=pb.EVIDENCE_CLASSIFICATION_CONFLICTING))),
        (
            "policy.rules[0].standing",
            put(rule(no_cost=REFUSED, standing=pb.EVIDENCE_CLASSIFICATION_ESTIMATE, rejecting_statuses=[429])),
        ),
        ("policy.rules[0].rejecting_statuses", put(rule(rejecting_statuses=[429]))),
        ("policy.rules[0].rejecting_statuses", put(rule(no_cost=REFUSED))),
        ("policy.rules[0].rejecting_statuses", put(rule(no_cost=REFUSED, rejecting_statuses=[200]))),
        ("policy.rules[0].rejecting_statuses", put(rule(no_cost=REFUSED, rejecting_statuses=[429, 429]))),
        (
            "policy.rules[0].rejecting_statuses",
            put(rule(no_cost=hold_pb2.NO_COST_KIND_NEVER_SENT, rejecting_statuses=[429])),
        ),
    ],
)
def test_a_field_that_is_wrong_is_named(field: str, request_: pb.PutEvidencePolicyRequest) -> None:
    with pytest.raises(InvalidField) as caught:
        put_evidence_policy(request_, Caller("acme", "finance-1", Role.FINANCE))
    assert caught.value.path == field


async def test_a_policy_is_put_in_versions(database_url: str, tmp_path: Path) -> None:
    async with serving(database_url, tmp_path) as ledger:
        service, ask = ledger.finance.evidence, pb.GetEvidencePolicyRequest
        built_in = (await ledger.gateway.evidence.GetEvidencePolicy(ask(provider="openai"))).policy
        assert (built_in.provider, built_in.version, len(built_in.rules)) == ("openai", 0, 14)
        (refused,) = [r for r in built_in.rules if r.no_cost == REFUSED and r.reporters == [GATEWAY]]
        assert list(refused.rejecting_statuses) == [400, 401, 402, 403, 404, 413, 415, 422, 429]
        rules = (
            rule(no_cost=REFUSED, reporters=[FINANCE], rejecting_statuses=[529, 429]),
            rule(reporters=[GATEWAY, FINANCE], standing=BEARS_OUT),
        )
        first = await service.PutEvidencePolicy(put(*rules))
        assert (first.policy.version, first.replayed, len(first.policy.digest)) == (1, False, 64)
        assert list(first.policy.rules) == [
            rule(no_cost=REFUSED, reporters=[FINANCE], rejecting_statuses=[429, 529]),
            rule(reporters=[FINANCE], standing=BEARS_OUT),
            rule(reporters=[GATEWAY], standing=BEARS_OUT),
        ]
        again = await service.PutEvidencePolicy(put(*rules))
        assert (again.policy, again.replayed) == (first.policy, True)
        second = (await ledger.admin.evidence.PutEvidencePolicy(put(key="k2"))).policy
        assert (second.version, second.digest != first.policy.digest) == (2, True)
        assert (await service.GetEvidencePolicy(ask(provider="openai"))).policy == second
        assert (await service.GetEvidencePolicy(ask(provider="openai", version=1))).policy == first.policy
        missing = await refusal(service.GetEvidencePolicy(ask(provider="openai", version=3)))
        assert missing == ("NOT_FOUND", "NOT_FOUND", {"field": "provider", "provider": "openai#3"})
        rival = await ledger.rival(Role.FINANCE).evidence.GetEvidencePolicy(ask(provider="openai"))
        assert rival.policy.version == 0


async def test_another_process_classifies_by_the_newest_policy_at_once(database_url: str, tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    async with serving(database_url, tmp_path / "a") as one, serving(database_url, tmp_path / "b") as other:
        await one.budget()
        for i in range(6):
            name = f"op-{i}"
            await one.gateway.holds.Reserve(sending_request(name))
            standing = SETTLES if i % 2 else BEARS_OUT
            await one.finance.evidence.PutEvidencePolicy(put(rule(standing=standing), key=f"k{i}"))
            if standing is SETTLES:
                await other.gateway.holds.Resolve(by(WEBHOOK, name))
            else:
                _, reason, facts = await refusal(other.gateway.holds.Resolve(by(WEBHOOK, name)))
                assert (reason, facts["classification"]) == ("EVIDENCE_REJECTED", "CORROBORATING")
            assert (await listed(one, name))[0].policy == f"openai#{i + 1}"


async def test_everything_that_was_reported_is_listed(database_url: str, tmp_path: Path) -> None:
    async with serving(database_url, tmp_path) as ledger:
        await ledger.budget()
        await put_card(ledger)
        await ledger.finance.evidence.PutEvidencePolicy(
            put(rule(standing=BEARS_OUT), rule(source=hold_pb2.EVIDENCE_SOURCE_PROVIDER_RESPONSE))
        )
        holds = ledger.gateway.holds
        await holds.Reserve(sending_request("op-1", quote=metered(input_tokens=2_000, output_tokens=100)))

        def report(source: int, key: str, **fields: Any) -> hold_pb2.ResolveRequest:
            usage = hold_pb2.UsageEvidence(
                provider="openai",
                adapter="sdk",
                adapter_revision="2.1",
                provider_usage=hold_pb2.ProviderUsage(api_flavor="openai.chat", json=DOCUMENT),
                **fields,
            )
            usage.source = source  # type: ignore[assignment]  # a number of the enum
            usage.observe_time.GetCurrentTime()
            return hold_pb2.ResolveRequest(idempotency_key=key, operation_id="op-1", usage=usage)

        await refusal(holds.Resolve(report(hold_pb2.EVIDENCE_SOURCE_GATEWAY_ESTIMATE, "a")))
        await refusal(holds.Resolve(report(WEBHOOK, "b")))
        response = hold_pb2.EVIDENCE_SOURCE_PROVIDER_RESPONSE
        settled = await holds.Resolve(report(response, "c", provider_receipt="r1", response_id="m1"))
        assert (await holds.Resolve(report(WEBHOOK, "d", payload_digest="ab" * 32))).replayed
        proof = hold_pb2.NoCostProof(kind=hold_pb2.NO_COST_KIND_NEVER_SENT, adapter="sdk", nonce=NONCE)
        await refusal(holds.Resolve(hold_pb2.ResolveRequest(idempotency_key="e", operation_id="op-1", no_cost=proof)))

        rows = await listed(ledger)
        assert [told(row) for row in rows] == [
            ("ESTIMATE", "openai#1"),
            ("CORROBORATING", "openai#1"),
            ("AUTHORITATIVE", "openai#1"),
            ("CORROBORATING", "openai#1"),
            ("REJECTED", "openai#1"),
        ]
        assert await listed(ledger, size=2) == rows
        first, webhook, ground, witness, proved = rows
        # The first witness and what resolved the hold have the body; the other witnesses have the fact.
        assert [bool(row.body) for row in rows] == [True, False, True, False, True]
        assert {row.fact for row in rows[:4]} == {first.fact}
        assert len(first.fact) == 64
        of_the_document = hashlib.sha256(DOCUMENT.encode()).hexdigest()
        assert [row.payload_digest for row in rows] == [*[of_the_document] * 3, "ab" * 32, ""]
        assert list(first.reasons) == ["source GATEWAY_ESTIMATE is not authoritative from role gateway"]
        assert webhook.source == WEBHOOK
        assert "corroborates and does not settle, by policy openai#1" in webhook.reasons[0]
        assert not ground.reasons
        assert ground.digest == witness.digest == settled.hold.resolution.digest
        assert json.loads(ground.body) == {
            "provider": "openai",
            "model": "gpt-5",
            "tier": "",
            "buckets": {"input_tokens": "1000", "output_tokens": "50"},
            "document": DOCUMENT,
            "flavor": "openai.chat",
            "stated": ["", ""],
            "response_id": "m1",
        }
        provenance = (ground.actor, ground.adapter, ground.adapter_revision, ground.provider_receipt, ground.attempt)
        assert provenance == ("gateway-1", "sdk", "2.1", "r1", 1)
        assert (ground.operation_id, ground.kind) == ("op-1", hold_pb2.RESOLUTION_KIND_USAGE)
        assert 0 < ground.observe_time.seconds <= ground.receive_time.seconds
        assert (proved.source, proved.no_cost, proved.kind) == (
            0,
            hold_pb2.NO_COST_KIND_NEVER_SENT,
            hold_pb2.RESOLUTION_KIND_NO_COST,
        )
        assert (proved.payload_digest, proved.HasField("observe_time")) == ("", False)
        rival = ledger.rival(Role.AUDITOR).evidence
        assert not (await rival.ListEvidence(pb.ListEvidenceRequest(operation_id="op-1"))).evidence
