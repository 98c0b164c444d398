"""The HoldService: translate, call, translate."""

from collections.abc import Iterator

from ledger.domain.batch import Outcome
from ledger.domain.refusals import Refusal
from ledger.engine.lane import Engine
from ledger.engine.reader import Reader
from ledger.service.interceptor import Context, caller
from ledger.service.questions import ask, fill, found
from ledger.service.translate import answers, attempts, commands, queries, standings
from ledger.service.translate.fields import identifier
from ledger.store import read
from ledger.v1 import hold_pb2 as pb
from ledger.v1.hold_pb2_grpc import HoldServiceServicer


class Holds(HoldServiceServicer):
    """Commands go through the engine, questions to the reader. A refusal is raised and told by the boundary."""

    def __init__(self, engine: Engine, reader: Reader) -> None:
        self._engine = engine
        self._reader = reader

    async def Reserve(self, request: pb.ReserveRequest, context: Context) -> pb.ReserveResponse:
        response = pb.ReserveResponse()
        outcome = await self._engine.submit_one(commands.reserve(request, caller()), context.time_remaining())
        answers.reserve(response, outcome)
        return response

    async def BeginDispatch(self, request: pb.BeginDispatchRequest, context: Context) -> pb.BeginDispatchResponse:
        response = pb.BeginDispatchResponse()
        outcome = await self._engine.submit_one(commands.begin_dispatch(request, caller()), context.time_remaining())
        answers.begin_dispatch(response, outcome)
        return response

    async def MarkOutcomeUnknown(
        self, request: pb.MarkOutcomeUnknownRequest, context: Context
    ) -> pb.MarkOutcomeUnknownResponse:
        response = pb.MarkOutcomeUnknownResponse()
        command = commands.mark_outcome_unknown(request, caller())
        answers.mark_outcome_unknown(response, await self._engine.submit_one(command, context.time_remaining()))
        return response

    async def Release(self, request: pb.ReleaseRequest, context: Context) -> pb.ReleaseResponse:
        response = pb.ReleaseResponse()
        outcome = await self._engine.submit_one(commands.release(request, caller()), context.time_remaining())
        answers.release(response, outcome)
        return response

    async def Resolve(self, request: pb.ResolveRequest, context: Context) -> pb.ResolveResponse:
        response = pb.ResolveResponse()
        outcome = await self._engine.submit_one(commands.resolve(request, caller()), context.time_remaining())
        answers.resolve(response, outcome)
        return response

    async def Heartbeat(self, request: pb.HeartbeatRequest, context: Context) -> pb.HeartbeatResponse:
        response = pb.HeartbeatResponse()
        outcome = await self._engine.submit_one(attempts.heartbeat(request, caller()), context.time_remaining())
        answers.heartbeat(response, outcome)
        return response

    async def RecordFailedBeforeDispatch(
        self, request: pb.RecordFailedBeforeDispatchRequest, context: Context
    ) -> pb.RecordFailedBeforeDispatchResponse:
        response = pb.RecordFailedBeforeDispatchResponse()
        command = attempts.record_failed_before_dispatch(request, caller())
        outcome = await self._engine.submit_one(command, context.time_remaining())
        answers.record_failed_before_dispatch(response, outcome)
        return response

    async def Cancel(self, request: pb.CancelRequest, context: Context) -> pb.CancelResponse:
        response = pb.CancelResponse()
        outcome = await self._engine.submit_one(attempts.cancel(request, caller()), context.time_remaining())
        answers.cancel(response, outcome)
        return response

    async def RecordReceipt(self, request: pb.RecordReceiptRequest, context: Context) -> pb.RecordReceiptResponse:
        response = pb.RecordReceiptResponse()
        outcome = await self._engine.submit_one(attempts.record_receipt(request, caller()), context.time_remaining())
        answers.record_receipt(response, outcome)
        return response

    async def RecordDelivery(self, request: pb.RecordDeliveryRequest, context: Context) -> pb.RecordDeliveryResponse:
        response = pb.RecordDeliveryResponse()
        outcome = await self._engine.submit_one(attempts.record_delivery(request, caller()), context.time_remaining())
        answers.record_delivery(response, outcome)
        return response

    async def Correct(self, request: pb.CorrectRequest, context: Context) -> pb.CorrectResponse:
        response = pb.CorrectResponse()
        outcome = await self._engine.submit_one(commands.correct(request, caller()), context.time_remaining())
        answers.correct(response, outcome)
        return response

    async def BatchExecute(self, request: pb.BatchExecuteRequest, context: Context) -> pb.BatchExecuteResponse:
        names, items = commands.batch(request, caller())
        asked = [item for item in items if not isinstance(item, Refusal)]
        done: Iterator[Outcome] = iter(await self._engine.submit(asked, context.time_remaining()) if asked else ())
        return answers.batch(names, [item if isinstance(item, Refusal) else next(done) for item in items])

    async def GetHold(self, request: pb.GetHoldRequest, _context: Context) -> pb.GetHoldResponse:
        tenant, operation_id = caller().tenant, identifier(request.operation_id, "operation_id")
        answer = await ask(self._reader, lambda connection: read.get_standing(connection, tenant, operation_id))
        standing = found(answer, "hold", "operation_id", operation_id)
        response = pb.GetHoldResponse()
        answers.write_full_hold(response.hold, standing.hold)
        standings.write_axes(response.hold, standing.axes)
        return response

    async def ListHoldEvents(self, request: pb.ListHoldEventsRequest, _context: Context) -> pb.ListHoldEventsResponse:
        tenant = caller().tenant
        place, operation = queries.hold_events(request, caller())
        page = await ask(
            self._reader,
            lambda connection: read.list_hold_events(
                connection, tenant, operation, limit=place.size, after=place.after
            ),
        )
        response = pb.ListHoldEventsResponse()
        response.next_page_token = fill(response.events, page, place, standings.write_event)
        return response

    async def ListHolds(self, request: pb.ListHoldsRequest, _context: Context) -> pb.ListHoldsResponse:
        tenant = caller().tenant
        place, state, group = queries.holds(request, caller())
        page = await ask(
            self._reader,
            lambda connection: read.list_holds(
                connection, tenant, limit=place.size, after=place.after, state=state, request_group=group
            ),
        )
        response = pb.ListHoldsResponse()
        response.next_page_token = fill(response.holds, page, place, answers.write_full_hold)
        return response

    async def ListOpenHolds(self, request: pb.ListOpenHoldsRequest, _context: Context) -> pb.ListOpenHoldsResponse:
        tenant = caller().tenant
        place, book = queries.open_holds(request, caller())
        page = await ask(
            self._reader,
            lambda connection: read.list_open_holds(connection, tenant, book, limit=place.size, after=place.after),
        )
        response = pb.ListOpenHoldsResponse()
        response.next_page_token = fill(response.holds, page, place, answers.write_full_hold)
        return response

    async def ListResolutions(
        self, request: pb.ListResolutionsRequest, _context: Context
    ) -> pb.ListResolutionsResponse:
        tenant = caller().tenant
        place, operation_id = queries.resolutions(request, caller())
        answer = await ask(
            self._reader,
            lambda connection: read.list_resolutions(
                connection, tenant, operation_id, limit=place.size, after=place.after
            ),
        )
        page = found(answer, "hold", "operation_id", operation_id)
        response = pb.ListResolutionsResponse()
        response.next_page_token = fill(response.resolutions, page, place, answers.write_revision)
        return response

    async def ListIncidents(self, request: pb.ListIncidentsRequest, _context: Context) -> pb.ListIncidentsResponse:
        tenant = caller().tenant
        place, operation = queries.incidents(request, caller())
        page = await ask(
            self._reader,
            lambda connection: read.list_incidents(
                connection, tenant, limit=place.size, after=place.after, operation_id=operation
            ),
        )
        response = pb.ListIncidentsResponse()
        response.next_page_token = fill(response.incidents, page, place, answers.write_incident)
        return response
