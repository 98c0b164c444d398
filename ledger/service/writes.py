"""The WriteService: what a caller believes of a write, held against the rows; and the log of commands."""

from ledger.domain.claims import differences
from ledger.engine.lane import Engine
from ledger.engine.reader import Reader
from ledger.service.errors import Refused
from ledger.service.interceptor import Context, caller
from ledger.service.questions import ask, fill
from ledger.service.translate import writes
from ledger.store import read
from ledger.v1 import write_pb2 as pb
from ledger.v1.write_pb2_grpc import WriteServiceServicer


class Writes(WriteServiceServicer):
    """Reads first: only a mismatch, which opens a case, goes through the engine."""

    def __init__(self, engine: Engine, reader: Reader) -> None:
        self._engine = engine
        self._reader = reader

    async def VerifyWrite(self, request: pb.VerifyWriteRequest, context: Context) -> pb.VerifyWriteResponse:
        who = caller()
        asked = writes.verify_write(request, who)
        found = await ask(
            self._reader, lambda connection: read.written(connection, who.tenant, asked.operation_id, asked.key)
        )
        response = pb.VerifyWriteResponse()
        if found.receipt is None if asked.key is not None else found.hold is None:
            writes.write_not_found(response, found, asked.call_deadline)
            return response
        different = differences(asked.claim, found.hold, found.receipt)
        incident_id = ""
        if different:
            outcome = await self._engine.submit_one(writes.mismatch(asked, found, who), context.time_remaining())
            if outcome.refusal is not None:
                raise Refused(outcome.refusal)
            # The rows may have come to be as claimed in the meantime: what was found under the lock is what is told.
            found = read.Written(found.receipt, outcome.hold, outcome.as_of or found.as_of)
            different = differences(asked.claim, found.hold, found.receipt)
            incident_id = "" if outcome.incident_id is None else str(outcome.incident_id)
        writes.write_found(response, found, different, incident_id)
        return response

    async def ListInvocations(
        self, request: pb.ListInvocationsRequest, _context: Context
    ) -> pb.ListInvocationsResponse:
        tenant = caller().tenant
        place, resource = writes.invocations(request, caller())
        page = await ask(
            self._reader,
            lambda connection: read.list_invocations(connection, tenant, resource, limit=place.size, after=place.after),
        )
        response = pb.ListInvocationsResponse()
        response.next_page_token = fill(response.invocations, page, place, writes.write_invocation)
        return response
