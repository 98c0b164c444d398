"""Price cards."""

from typing import Any

from sqlalchemy import Connection, Row, Text, cast, select
from sqlalchemy.dialects.postgresql import distinct_on

from ledger.domain.cards import PriceCard
from ledger.store.read.page import Key, Page, page
from ledger.store.records import price_card
from ledger.store.rows import card_from

_c = price_card.c
_document = cast(_c.document, Text).label("document")


def get_card(connection: Connection, tenant: str, card_id: str, version: int = 0) -> PriceCard | None:
    """A version of a card; 0 is the newest."""
    query = select(_c.tenant, _c.card_id, _c.version, _document).where(_c.tenant == tenant, _c.card_id == card_id)
    if version:
        query = query.where(_c.version == version)
    row = connection.execute(query.order_by(_c.version.desc()).limit(1)).one_or_none()
    return None if row is None else _card(row)


def list_cards(
    connection: Connection, tenant: str, *, limit: int, after: Key | None = None, provider: str | None = None
) -> Page[PriceCard]:
    """The newest version of each, in order of card_id; with `provider` those that are now of this provider.

    The key is (card_id,).
    """
    versions = select(_c.tenant, _c.card_id, _c.version, _c.provider, _document).where(_c.tenant == tenant)
    if after is not None:
        versions = versions.where(_c.card_id > after[0])
    newest = versions.ext(distinct_on(_c.card_id)).order_by(_c.card_id, _c.version.desc()).subquery()
    query = select(newest.c.tenant, newest.c.card_id, newest.c.version, newest.c.document)
    if provider is not None:
        query = query.where(newest.c.provider == provider)
    rows = connection.execute(query.order_by(newest.c.card_id).limit(limit + 1)).all()
    return page(rows, limit, _card, lambda card: (card.card_id,))


def _card(row: Row[Any]) -> PriceCard:
    return card_from(row.tenant, row.card_id, row.version, row.document)
