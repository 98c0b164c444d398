"""Evidence as it was kept, to the contract's messages."""

from ledger.domain.canonical import canonical
from ledger.domain.model import Evidence
from ledger.domain.waiting import Parked
from ledger.service.translate.answers import KIND_NUMBERS, write_time
from ledger.service.translate.policies import CLASSIFICATION_OF, KIND_OF, REPORTER_OF, SOURCE_OF
from ledger.v1 import evidence_pb2 as pb


def write_evidence(message: pb.Evidence, kept: Evidence) -> None:
    message.evidence_id = str(kept.evidence_id)
    message.operation_id = kept.operation_id
    message.attempt = kept.attempt
    message.kind = KIND_NUMBERS[kept.kind]
    message.classification = CLASSIFICATION_OF[kept.classification]
    message.reasons.extend(kept.reasons)
    _write_source(message, kept.source)
    message.actor = kept.actor
    message.adapter = kept.adapter
    message.adapter_revision = kept.adapter_revision
    message.policy = kept.policy
    if kept.observed_at is not None:
        write_time(message.observe_time, kept.observed_at)
    write_time(message.receive_time, kept.received_at)
    message.provider_receipt = kept.provider_receipt or ""
    message.digest = "" if kept.digest is None else kept.digest.hex()
    message.fact = kept.fact.hex()
    message.payload_digest = "" if kept.payload_digest is None else kept.payload_digest.hex()
    if kept.body is not None:
        message.body = canonical(kept.body).decode()


def write_parked(message: pb.ParkedEvidence, parked: Parked) -> None:
    message.operation_id = parked.operation_id
    message.evidence_id = str(parked.evidence_id)
    message.kind = KIND_NUMBERS[parked.kind]
    _write_source(message, parked.source)
    message.actor = parked.actor
    message.reporter = REPORTER_OF[parked.role]
    write_time(message.park_time, parked.parked_at)


def _write_source(message: pb.Evidence | pb.ParkedEvidence, source: str) -> None:
    """Of usage its source, of a proof its kind."""
    if source in SOURCE_OF:
        message.source = SOURCE_OF[source]
    else:
        message.no_cost = KIND_OF[source]
