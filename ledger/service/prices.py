"""The PriceService: translate, call, translate."""

from datetime import UTC, datetime

from ledger.domain.explain import explain
from ledger.domain.quotes import QuoteKind, quote
from ledger.domain.refusals import Refusal
from ledger.engine.lane import Engine
from ledger.engine.reader import Reader
from ledger.service.errors import Refused
from ledger.service.interceptor import Context, caller
from ledger.service.questions import ask, fill, found
from ledger.service.translate import budgets, queries
from ledger.service.translate.answers import write_quote
from ledger.service.translate.cards import write_card
from ledger.service.translate.commands import quote_spec
from ledger.service.translate.fields import MAX_INT32, identifier, number
from ledger.store import read
from ledger.v1 import price_pb2 as pb
from ledger.v1.price_pb2_grpc import PriceServiceServicer


class Prices(PriceServiceServicer):
    def __init__(self, engine: Engine, reader: Reader) -> None:
        self._engine = engine
        self._reader = reader

    async def PutPriceCard(self, request: pb.PutPriceCardRequest, context: Context) -> pb.PutPriceCardResponse:
        command = budgets.put_price_card(request, caller())
        outcome = await self._engine.submit_one(command, context.time_remaining())
        if outcome.refusal is not None:
            raise Refused(outcome.refusal)
        assert outcome.card is not None, "a price card is refused or given"
        response = pb.PutPriceCardResponse(replayed=outcome.replayed)
        write_card(response.card, outcome.card)
        return response

    async def GetPriceCard(self, request: pb.GetPriceCardRequest, _context: Context) -> pb.GetPriceCardResponse:
        tenant, card_id = caller().tenant, identifier(request.card_id, "card_id")
        version = number(request.version, "version", 0, MAX_INT32)
        card = await ask(self._reader, lambda connection: read.get_card(connection, tenant, card_id, version))
        response = pb.GetPriceCardResponse()
        write_card(response.card, found(card, "price card", "card_id", f"{card_id}#{version}" if version else card_id))
        return response

    async def PreviewQuote(self, request: pb.PreviewQuoteRequest, _context: Context) -> pb.PreviewQuoteResponse:
        tenant, spec = caller().tenant, quote_spec(request.quote)
        card = None
        if spec.kind is QuoteKind.METERED:
            card = found(
                await ask(
                    self._reader,
                    lambda connection: read.get_card(connection, tenant, spec.card_id, spec.card_version),
                ),
                "price card",
                "quote.metered.card_id",
                spec.card_id,
            )
        quoted = quote(spec, card, datetime.now(UTC))
        if isinstance(quoted, Refusal):
            raise Refused(quoted)
        response = pb.PreviewQuoteResponse(explanations=explain(spec, card, quoted))
        write_quote(response.quote, quoted)
        return response

    async def ListPriceCards(self, request: pb.ListPriceCardsRequest, _context: Context) -> pb.ListPriceCardsResponse:
        tenant = caller().tenant
        place, provider = queries.cards(request, caller())
        page = await ask(
            self._reader,
            lambda connection: read.list_cards(
                connection, tenant, limit=place.size, after=place.after, provider=provider
            ),
        )
        response = pb.ListPriceCardsResponse()
        response.next_page_token = fill(response.cards, page, place, write_card)
        return response
