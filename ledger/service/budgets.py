"""The BudgetService: translate, call, translate."""

from ledger.domain.batch import Outcome
from ledger.domain.commands import BudgetCommand
from ledger.engine.lane import Engine
from ledger.engine.reader import Reader
from ledger.service.errors import Refused
from ledger.service.interceptor import Context, caller
from ledger.service.questions import ask, fill, found
from ledger.service.translate import budgets, queries
from ledger.service.translate.answers import write_time
from ledger.service.translate.books import write_balances, write_budget
from ledger.service.translate.fields import identifier
from ledger.store import read
from ledger.v1 import budget_pb2 as pb
from ledger.v1.budget_pb2_grpc import BudgetServiceServicer


class Budgets(BudgetServiceServicer):
    def __init__(self, engine: Engine, reader: Reader) -> None:
        self._engine = engine
        self._reader = reader

    async def CreateBudget(self, request: pb.CreateBudgetRequest, context: Context) -> pb.CreateBudgetResponse:
        outcome = await self._done(budgets.create_budget(request, caller()), context)
        response = pb.CreateBudgetResponse(replayed=outcome.replayed)
        _write(response.budget, outcome)
        return response

    async def GrantBudget(self, request: pb.GrantBudgetRequest, context: Context) -> pb.GrantBudgetResponse:
        outcome = await self._done(budgets.grant_budget(request, caller()), context)
        response = pb.GrantBudgetResponse(replayed=outcome.replayed)
        _write(response.budget, outcome)
        return response

    async def UpdateBudget(self, request: pb.UpdateBudgetRequest, context: Context) -> pb.UpdateBudgetResponse:
        outcome = await self._done(budgets.update_budget(request, caller()), context)
        response = pb.UpdateBudgetResponse(replayed=outcome.replayed, applied=outcome.applied)
        _write(response.budget, outcome)
        return response

    async def CloseBudget(self, request: pb.CloseBudgetRequest, context: Context) -> pb.CloseBudgetResponse:
        outcome = await self._done(budgets.close_budget(request, caller()), context)
        response = pb.CloseBudgetResponse(replayed=outcome.replayed, applied=outcome.applied)
        _write(response.budget, outcome)
        return response

    async def MoveBudget(self, request: pb.MoveBudgetRequest, context: Context) -> pb.MoveBudgetResponse:
        outcome = await self._done(budgets.move_budget(request, caller()), context)
        response = pb.MoveBudgetResponse(replayed=outcome.replayed, applied=outcome.applied)
        _write(response.budget, outcome)
        return response

    async def _done(self, command: BudgetCommand, context: Context) -> Outcome:
        return await self._engine.submit_one(command, context.time_remaining())

    async def GetBudget(self, request: pb.GetBudgetRequest, _context: Context) -> pb.GetBudgetResponse:
        tenant, budget_id = caller().tenant, identifier(request.budget_id, "budget_id")
        state = await ask(self._reader, lambda connection: read.get_budget(connection, tenant, budget_id))
        response = pb.GetBudgetResponse()
        _write_state(response.budget, found(state, "budget", "budget_id", budget_id))
        return response

    async def ListBudgets(self, request: pb.ListBudgetsRequest, _context: Context) -> pb.ListBudgetsResponse:
        tenant = caller().tenant
        place, parent = queries.budgets(request, caller())
        page = await ask(
            self._reader,
            lambda connection: read.list_budgets(
                connection, tenant, limit=place.size, after=place.after, parent=parent
            ),
        )
        response = pb.ListBudgetsResponse()
        response.next_page_token = fill(response.budgets, page, place, _write_state)
        return response

    async def ListPeriods(self, request: pb.ListPeriodsRequest, _context: Context) -> pb.ListPeriodsResponse:
        tenant = caller().tenant
        place, budget_id = queries.periods(request, caller())
        page = await ask(
            self._reader,
            lambda connection: read.list_periods(connection, tenant, budget_id, limit=place.size, after=place.after),
        )
        if place.after is None and not page.items:
            # A budget has a book from its beginning on.
            found(None, "budget", "budget_id", budget_id)
        response = pb.ListPeriodsResponse()
        response.next_page_token = fill(response.periods, page, place, _write_period)
        return response


def _write_period(message: pb.BudgetPeriod, state: read.PeriodState) -> None:
    book = state.book
    assert book.period_start is not None, "the book of a budget has a period"
    write_time(message.start_time, book.period_start)
    if book.period_end is not None:
        write_time(message.end_time, book.period_end)
    message.closed = book.closed
    write_balances(message.balances, book, state.as_of)
    message.crossed_thresholds.extend(book.crossed)


def _write_state(message: pb.Budget, state: read.BudgetState) -> None:
    write_budget(message, *state)
    # Not in the answer to a command: what its batch crosses is known when all of it is decided.
    message.crossed_thresholds.extend(state.book.crossed)


def _write(message: pb.Budget, outcome: Outcome) -> None:
    if outcome.refusal is not None:
        raise Refused(outcome.refusal)
    assert outcome.budget is not None, "a command on a budget is refused or gives the budget"
    assert outcome.book is not None, "a budget has a book"
    write_budget(message, outcome.budget, outcome.book, outcome.as_of)
