"""Evidence as it is kept: every observation that was reported, with its provenance, whatever became of it."""

import hashlib
from uuid import UUID

from ledger.domain.commands import NoCostProof, Report, Usage
from ledger.domain.evidence import fact_of
from ledger.domain.model import Classification, Evidence, Hold
from ledger.domain.states import ResolutionKind
from ledger.domain.work import Work


def keep(
    work: Work,
    command: Report,
    hold: Hold,
    classification: Classification,
    reasons: tuple[str, ...],
    digest: bytes | None,
) -> UUID:
    """Adds the observation about a hold to the evidence, whatever became of it."""
    return record(work, command, hold.attempt or 1, classification, work.policy(hold).name, reasons, digest)


def record(
    work: Work,
    command: Report,
    attempt: int,
    classification: Classification,
    policy: str,
    reasons: tuple[str, ...] = (),
    digest: bytes | None = None,
) -> UUID:
    """Adds the observation to the evidence. `attempt` is the one that it is about if it does not say."""
    evidence = command.evidence
    body = evidence.body()
    fact = fact_of(body)
    # The body is kept once. But what resolves the hold keeps the reading by which it was priced.
    known = classification is not Classification.AUTHORITATIVE and (*command.hold_key, fact) in work.loaded.facts
    evidence_id = work.loaded.new_id()
    work.decision.evidence.append(
        Evidence(
            tenant=command.caller.tenant,
            operation_id=command.operation_id,
            evidence_id=evidence_id,
            attempt=command.attempt or attempt,
            kind=kind_of(evidence),
            classification=classification,
            reasons=reasons,
            source=source_of(evidence),
            actor=command.caller.actor,
            adapter=evidence.adapter,
            adapter_revision=evidence.adapter_revision,
            policy=policy,
            observed_at=evidence.observed_at,
            received_at=work.now,
            provider_receipt=receipt_of(command),
            digest=digest,
            fact=fact,
            payload_digest=payload_digest_of(evidence),
            body=None if known else body,
        )
    )
    return evidence_id


def kind_of(evidence: Usage | NoCostProof) -> ResolutionKind:
    """What evidence resolves a hold to, if it does."""
    return ResolutionKind.USAGE if isinstance(evidence, Usage) else ResolutionKind.NO_COST


def source_of(evidence: Usage | NoCostProof) -> str:
    """Where usage comes from; of a proof, its kind."""
    return evidence.source if isinstance(evidence, Usage) else evidence.kind


def payload_digest_of(evidence: Usage | NoCostProof) -> bytes | None:
    """Of the provider's answer, by whoever reported it; else of the usage object, if there is one."""
    if evidence.payload_digest is None and isinstance(evidence, Usage) and evidence.document:
        return hashlib.sha256(evidence.document.encode()).digest()
    return evidence.payload_digest


def receipt_of(command: Report) -> str | None:
    """The provider's id for the accepted call, if the evidence has one."""
    return command.evidence.provider_receipt if isinstance(command.evidence, Usage) else None
