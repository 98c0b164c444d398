"""The JournalService: translate, ask, translate."""

from ledger.engine.reader import Reader
from ledger.service.interceptor import Context, caller
from ledger.service.questions import ask, fill, found
from ledger.service.translate import queries
from ledger.service.translate.answers import write_money, write_time
from ledger.service.translate.books import write_entry, write_posting
from ledger.store import read
from ledger.v1 import journal_pb2 as pb
from ledger.v1.journal_pb2_grpc import JournalServiceServicer


class Journal(JournalServiceServicer):
    def __init__(self, reader: Reader) -> None:
        self._reader = reader

    async def ListEntries(self, request: pb.ListEntriesRequest, _context: Context) -> pb.ListEntriesResponse:
        tenant = caller().tenant
        place, operation = queries.entries(request, caller())
        page = await ask(
            self._reader,
            lambda connection: read.list_entries(
                connection, tenant, limit=place.size, after=place.after, operation_id=operation
            ),
        )
        response = pb.ListEntriesResponse()
        response.next_page_token = fill(response.entries, page, place, _write_entry)
        return response

    async def ListPostings(self, request: pb.ListPostingsRequest, _context: Context) -> pb.ListPostingsResponse:
        tenant = caller().tenant
        place, book_id = queries.postings(request, caller())
        answer = await ask(
            self._reader,
            lambda connection: read.list_postings(connection, tenant, book_id, limit=place.size, after=place.after),
        )
        currency, page = found(answer, "book", "book_id", book_id)
        response = pb.ListPostingsResponse()
        response.next_page_token = fill(
            response.postings, page, place, lambda message, posting: write_posting(message, posting, currency)
        )
        return response

    async def GetBalance(self, request: pb.GetBalanceRequest, _context: Context) -> pb.GetBalanceResponse:
        tenant = caller().tenant
        asked = queries.balance(request)
        answer = await ask(
            self._reader,
            lambda connection: read.balance(
                connection,
                tenant,
                asked.account,
                budget_id=asked.budget_id,
                provider=asked.provider,
                model=asked.model,
                currency=asked.currency,
            ),
        )
        balance = found(answer, "budget", "budget_id", asked.budget_id or "")
        response = pb.GetBalanceResponse()
        write_money(response.balance, balance.amount, balance.currency)
        write_time(response.as_of, balance.as_of)
        return response


def _write_entry(message: pb.Entry, item: read.JournalEntry) -> None:
    write_entry(message, item.entry, item.labels)
    for posting in item.postings:
        write_posting(message.postings.add(), posting, item.entry.currency)
