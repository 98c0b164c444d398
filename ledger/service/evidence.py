"""The EvidenceService: translate, call, translate."""

from dataclasses import replace

from ledger.domain.policies import BUILT_IN
from ledger.engine.lane import Engine
from ledger.engine.reader import Reader
from ledger.service.errors import Refused
from ledger.service.interceptor import Context, caller
from ledger.service.questions import ask, fill, found
from ledger.service.translate import queries
from ledger.service.translate.fields import MAX_INT32, identifier, number
from ledger.service.translate.observations import write_evidence, write_parked
from ledger.service.translate.policies import put_evidence_policy, write_policy
from ledger.store import read
from ledger.v1 import evidence_pb2 as pb
from ledger.v1.evidence_pb2_grpc import EvidenceServiceServicer


class Evidence(EvidenceServiceServicer):
    def __init__(self, engine: Engine, reader: Reader) -> None:
        self._engine = engine
        self._reader = reader

    async def PutEvidencePolicy(
        self, request: pb.PutEvidencePolicyRequest, context: Context
    ) -> pb.PutEvidencePolicyResponse:
        command = put_evidence_policy(request, caller())
        outcome = await self._engine.submit_one(command, context.time_remaining())
        if outcome.refusal is not None:
            raise Refused(outcome.refusal)
        assert outcome.policy is not None, "a policy is refused or given"
        response = pb.PutEvidencePolicyResponse(replayed=outcome.replayed)
        write_policy(response.policy, outcome.policy)
        return response

    async def GetEvidencePolicy(
        self, request: pb.GetEvidencePolicyRequest, _context: Context
    ) -> pb.GetEvidencePolicyResponse:
        tenant, provider = caller().tenant, identifier(request.provider, "provider")
        version = number(request.version, "version", 0, MAX_INT32)
        policy = await ask(self._reader, lambda connection: read.get_policy(connection, tenant, provider, version))
        if policy is None and not version:
            policy = replace(BUILT_IN, tenant=tenant, provider=provider)
        response = pb.GetEvidencePolicyResponse()
        write_policy(response.policy, found(policy, "policy", "provider", f"{provider}#{version}"))
        return response

    async def ListEvidence(self, request: pb.ListEvidenceRequest, _context: Context) -> pb.ListEvidenceResponse:
        tenant = caller().tenant
        place, operation_id = queries.evidence(request, caller())
        page = await ask(
            self._reader,
            lambda connection: read.list_evidence(
                connection, tenant, operation_id, limit=place.size, after=place.after
            ),
        )
        response = pb.ListEvidenceResponse()
        response.next_page_token = fill(response.evidence, page, place, write_evidence)
        return response

    async def ListParkedEvidence(
        self, request: pb.ListParkedEvidenceRequest, _context: Context
    ) -> pb.ListParkedEvidenceResponse:
        tenant = caller().tenant
        place, operation = queries.parked(request, caller())
        page = await ask(
            self._reader,
            lambda connection: read.list_parked(
                connection, tenant, limit=place.size, after=place.after, operation_id=operation
            ),
        )
        response = pb.ListParkedEvidenceResponse()
        response.next_page_token = fill(response.evidence, page, place, write_parked)
        return response
