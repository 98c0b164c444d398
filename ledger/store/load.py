"""Reading the rows that a batch of commands is decided on: locked first, everything else after.

Two round trips. The first locks the holds and finds the budgets, which say which books are needed; the second locks those,
and only then reads receipts, exclusive keys, grants, cards and the clock: read before the locks, they would be stale. For the
same reason it asks whether a budget changed meanwhile (its path, its caps, its end); then everything is loaded again.
"""

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, tzinfo
from typing import TypeAlias, TypeVar
from uuid import UUID

from sqlalchemy import Connection, Integer, LargeBinary, Text, Uuid, case, cast, literal_column, select

from ledger.domain.attempt_commands import RecordReceipt
from ledger.domain.batch import Loaded
from ledger.domain.cards import PriceCard
from ledger.domain.commands import (
    BeginDispatch,
    Command,
    FileParked,
    GrantBudget,
    PutEvidencePolicy,
    PutPriceCard,
    Reserve,
    Resolve,
)
from ledger.domain.keyed import OnBudget
from ledger.domain.model import Book, Budget, Classification, Grant, Hold, Resolution, SeenFact, Sign
from ledger.domain.needs import (
    books_to_lock,
    budget_of,
    budgets_named,
    card_named,
    card_of,
    fact_brought,
    financial_book,
    may_carry_on,
    may_post_expense,
    needs_resolutions,
    policy_needed,
    subtree_moved,
    tree_changed,
    zones_named,
)
from ledger.domain.parking import MOST_PARKED
from ledger.domain.signs import ORPHAN, signs_matter
from ledger.store import rows
from ledger.store import tables as t
from ledger.store.arrays import Integers
from ledger.store.clocks import clocks_of
from ledger.store.database import Memory, memory_of
from ledger.store.pipeline import StaleRow, pipeline, rows_of
from ledger.store.statements import (
    ONE,
    chains,
    changed_since,
    columns_of,
    count_up_to,
    look_up,
    look_up_each,
    open_missing,
    statement,
    subtrees,
)

Key: TypeAlias = tuple[str, str]
CardKey: TypeAlias = tuple[str, str, int]
OnHold = TypeVar("OnHold", Resolution, Sign)
CardRow: TypeAlias = tuple[str, str, int, str]

_hold, _book, _card, _budget = t.hold.c, t.book.c, t.price_card.c, t.budget.c
_seen, _policy = t.evidence.c, t.evidence_policy.c
_resolves = _seen.classification == literal_column(f"'{Classification.AUTHORITATIVE.value}'", Text())
_resolved_at = case((_resolves, _seen.digest)).label("digest")
_a_card = select(_card.tenant, _card.card_id, _card.version, cast(_card.document, Text)).limit(ONE)

LOCK_HOLDS = look_up(columns_of(t.hold).with_for_update(key_share=True), (_hold.tenant, _hold.operation_id))
_budget_key = (_budget.tenant, _budget.budget_id)
# Until the transaction ends; the first lock of all. Its keys are hashes of tenants: two that share one take turns, and no more.
LOCK_TREES = statement(
    "SELECT pg_advisory_xact_lock(tree) FROM unnest($1::bigint[]) AS trees (tree)", ["tree"], [Integers]
)
_book_of_budget = (_book.tenant, _book.budget_id)
BUDGET_CHAINS = chains(t.budget, _budget_key, _budget.path)
NEWEST_BOOKS = look_up(select(*_book_of_budget, _book.book_id).where(t.is_newest).limit(ONE), _book_of_budget)
SUBTREES = subtrees(t.budget, _budget_key, t.parent_id, t.has_parent)
CHANGED_BUDGETS = changed_since(_budget_key, _budget.version)
OPEN_BOOKS = open_missing(t.book)
LOCK_BOOKS = look_up(columns_of(t.book).with_for_update(key_share=True), (_book.tenant, _book.book_id))
RECEIPTS = look_up(columns_of(t.receipt).limit(ONE), list(t.receipt.primary_key.columns))
EXCLUSIVE = look_up(
    select(_hold.tenant, _hold.exclusive_key, _hold.operation_id).where(t.owns_exclusive_key).limit(ONE),
    (_hold.tenant, _hold.exclusive_key),
)
GRANTS = look_up(columns_of(t.budget_grant).limit(ONE), list(t.budget_grant.primary_key.columns))
CLOSED_BUDGETS = look_up(select(*_budget_key).where(_budget.closed_at.is_not(None)).limit(ONE), _budget_key)
CARDS = look_up(_a_card, (_card.tenant, _card.card_id, _card.version))
NEWEST_CARDS = look_up(_a_card.order_by(_card.version.desc()), (_card.tenant, _card.card_id))
NEWEST_POLICIES = look_up(
    select(_policy.tenant, _policy.provider, _policy.version, cast(_policy.document, Text))
    .order_by(_policy.version.desc())
    .limit(ONE),
    (_policy.tenant, _policy.provider),
)
_said = t.observation.c
# Written out, as ONE is.
_quoted_provider = literal_column("hold.quote ->> 'provider'", Text()).label("provider")
# A provider's receipt is bound by who recorded it, or by the evidence that brought it.
BOUND = look_up(
    select(_said.tenant, _said.provider, _said.provider_receipt, _said.operation_id).limit(ONE),
    (_said.tenant, _said.provider, _said.provider_receipt),
)
BROUGHT = look_up(
    select(_hold.tenant, _quoted_provider, _hold.provider_receipt, _hold.operation_id).limit(ONE),
    (_hold.tenant, _quoted_provider, _hold.provider_receipt),
)
# Several rows for each key: their order keeps the planner from making it a join.
RESOLUTIONS = look_up(
    columns_of(t.resolution).order_by(t.resolution.c.revision), (t.resolution.c.tenant, t.resolution.c.operation_id)
)
_parked, _incident = t.parked.c, t.incident.c
# More than can be: what waits for one operation is bounded, and with it the cases.
MOST_SIGNS = literal_column("100", Integer())
_waits = select(
    _parked.tenant,
    _parked.operation_id,
    _parked.identity,
    literal_column("CAST(NULL AS uuid)", Uuid()).label("incident_id"),
    _parked.kind,
    _parked.parked_at,
)
_waited = select(
    _incident.tenant,
    _incident.operation_id,
    literal_column("CAST(NULL AS bytea)", LargeBinary()).label("identity"),
    _incident.incident_id,
    literal_column("detail ->> 'kind'", Text()).label("kind"),
    _incident.opened_at,
).where(_incident.kind == literal_column(f"'{ORPHAN}'", Text()))
# As of one instant: what waits no longer is a case by then, or its hold is there.
SIGNS = look_up_each(
    (_waits.limit(MOST_SIGNS), _waited.limit(MOST_SIGNS)),
    ((_parked.tenant, _parked.operation_id), (_incident.tenant, _incident.operation_id)),
)
# Locked by the order of their keys: two servers that file the same wait here, and do not meet crosswise when they remove it.
PARKED = look_up(columns_of(t.parked).with_for_update(), list(t.parked.primary_key.columns))
WAITING = count_up_to(_parked.tenant, MOST_PARKED)
# What resolved the hold before what did not, and the latest of it.
FACTS = look_up(
    select(_seen.tenant, _seen.operation_id, _seen.fact, _seen.source, _resolved_at)
    .order_by(_resolves.desc(), _seen.evidence_id.desc())
    .limit(ONE),
    (_seen.tenant, _seen.operation_id, _seen.fact),
)
CLOCK = statement("SELECT clock_timestamp(), pg_current_xact_id()::text")


_WITHOUT_HOLD = (OnBudget, PutPriceCard, PutEvidencePolicy)


class _Outlived(Exception):
    """A book turned out to be closed under its lock: another is needed, which must be locked in its turn."""


def load(
    connection: Connection, commands: Sequence[Command], stripe: int, new_id: Callable[[], UUID]
) -> tuple[Loaded, str]:
    """Locks and reads what the commands need, and gives it with the transaction's id (for pg_xact_status).

    The locks are held until the transaction ends. Raises StaleRow if a book that was there is gone or a budget was changed, and
    sqlalchemy.exc.DBAPIError if the database refuses or cannot be reached.
    """
    while True:
        try:
            return _load(connection, commands, stripe, new_id)
        except _Outlived:
            # That it is closed is remembered: the second time it is known before the locks.
            connection.rollback()


def _load(
    connection: Connection, commands: Sequence[Command], stripe: int, new_id: Callable[[], UUID]
) -> tuple[Loaded, str]:
    memory = memory_of(connection)
    with pipeline(connection) as p:
        p.send(LOCK_TREES, _trees(commands))
        held = p.send(LOCK_HOLDS, sorted({c.hold_key for c in commands if not isinstance(c, _WITHOUT_HOLD)}))
        named = {(c.caller.tenant, budget_id) for c in commands for budget_id in budgets_named(c)}
        chained = p.send(BUDGET_CHAINS, sorted(named))
        below = p.send(SUBTREES, sorted({key for c in commands if (key := subtree_moved(c)) is not None}))
    holds = {(hold.tenant, hold.operation_id): hold for hold in map(rows.hold_from, rows_of(held))}
    chain = [rows.budget_from(row) for row in rows_of(chained)]
    budgets = {(budget.tenant, budget.budget_id): budget for budget in (*chain, *map(rows.budget_from, rows_of(below)))}
    carrying = {book for c in commands if may_carry_on(c) for book in _books_of(holds.get(_hold_key(c)))}
    closed_before = carrying & memory.closed
    used = {(budget.tenant, budget.budget_id) for budget in chain}
    newest_books = _newest(connection, used.union((tenant, budget_of(book_id)) for tenant, book_id in closed_before))
    financial = _financial_books(commands, holds, stripe)
    budget_books = {key for c in commands for key in books_to_lock(c, holds.get(_hold_key(c)), budgets, newest_books)}
    to_lock = sorted(budget_books | financial.keys())
    to_open = [financial[key] for key in sorted(financial.keys() - memory.books)]
    cards = _cards_needed(commands, holds)
    early = [c for c in commands if not isinstance(c, _WITHOUT_HOLD) and signs_matter(c, holds.get(c.hold_key))]
    # Taken now: another lane may make the memory forget in between.
    known = {key: card for key in cards if (card := memory.cards.get(key)) is not None}
    with pipeline(connection) as p:
        opened = p.send(OPEN_BOOKS, list(map(rows.book_row, to_open)))
        locked = p.send(LOCK_BOOKS, to_lock)
        changed = p.send(CHANGED_BUDGETS, [(*key, budgets[key].version) for key in sorted(budgets)])
        receipts = p.send(RECEIPTS, [c.receipt_key for c in commands])
        exclusive = p.send(EXCLUSIVE, _exclusive_keys(commands))
        grants = p.send(
            GRANTS, [(c.caller.tenant, c.budget_id, c.reference) for c in commands if isinstance(c, GrantBudget)]
        )
        asked = [c.receipt_bound for c in commands if isinstance(c, RecordReceipt)]
        bound, brought = p.send(BOUND, asked), p.send(BROUGHT, asked)
        closed = p.send(CLOSED_BUDGETS, _dispatched_from(commands, holds))
        pinned = p.send(CARDS, [card for card in cards if card[2] and card not in known])
        newest = p.send(NEWEST_CARDS, [card[:2] for card in cards if not card[2]])
        revisions = p.send(RESOLUTIONS, _revised(commands, holds))
        signs = p.send(SIGNS, [c.hold_key for c in early])
        waiting = p.send(
            WAITING, sorted({(c.caller.tenant,) for c in early if isinstance(c, Resolve) and c.hold_key not in holds})
        )
        parked = p.send(PARKED, sorted(c.parked_key for c in commands if isinstance(c, FileParked)))
        facts = p.send(FACTS, sorted({fact for c in commands if (fact := fact_brought(c, holds.get(_hold_key(c))))}))
        policies = p.send(
            NEWEST_POLICIES, sorted({key for c in commands if (key := policy_needed(c, holds.get(_hold_key(c))))})
        )
        clock = p.run(CLOCK)
    if rows_of(changed):
        raise StaleRow("a budget changed before the locks were there")
    books = {(book.tenant, book.book_id): book for book in map(rows.book_from, rows_of(locked))}
    _remember_books(memory, to_open, rows_of(opened))
    _still_there(memory, to_lock, books)
    _are_open(memory, newest_books, to_lock, books)
    _learn_closed(memory, [book for key in carrying - closed_before if (book := books.get(key)) is not None])
    now, transaction_id = rows_of(clock)[0]
    loaded = Loaded(
        now=now.astimezone(UTC),
        new_id=new_id,
        stripe=stripe,
        holds=holds,
        books=books,
        closed_budgets=frozenset(rows_of(closed)),
        budgets=budgets,
        newest=newest_books,
        zones=_clocks(commands, budgets.values()),
        cards=known | _read_cards(memory, rows_of(pinned), rows_of(newest)),
        receipts={receipt[:4]: receipt for receipt in map(rows.receipt_from, rows_of(receipts))},
        exclusive={(tenant, key): operation_id for tenant, key, operation_id in rows_of(exclusive)},
        policies={row[:2]: rows.policy_from(*row) for row in rows_of(policies)},
        facts={row[:3]: SeenFact(*row[3:]) for row in rows_of(facts)},
        grants={grant[:3]: grant for grant in map(Grant._make, rows_of(grants))},
        bound={tuple(key): operation_id for *key, operation_id in (*rows_of(brought), *rows_of(bound))},
        resolutions=_by_hold(map(rows.resolution_from, rows_of(revisions))),
        signs=_by_hold(map(Sign._make, rows_of(signs))),
        parked={(p.tenant, p.operation_id, p.evidence_id): p for p in map(rows.parked_from, rows_of(parked))},
        waiting=dict(rows_of(waiting)),
    )
    return loaded, transaction_id


def _hold_key(command: Command) -> Key:
    return (command.caller.tenant, "") if isinstance(command, _WITHOUT_HOLD) else command.hold_key


def _books_of(hold: Hold | None) -> Iterable[Key]:
    return () if hold is None else ((hold.tenant, book_id) for book_id in hold.books)


def _learn_closed(memory: Memory, held: Iterable[Book]) -> None:
    """Books of holds of which it was not known before the locks that they are closed. Raises _Outlived if there is one."""
    outlived = {(book.tenant, book.book_id) for book in held if book.closed}
    if outlived:
        memory.closed |= outlived
        raise _Outlived


def _newest(connection: Connection, budgets: set[Key]) -> dict[Key, str]:
    """The books of the budgets that are open, as far as the process knows; those that it does not know are looked up."""
    memory = memory_of(connection)
    known = {key: book_id for key in budgets if (book_id := memory.newest.get(key)) is not None}
    unknown = sorted(budgets - known.keys())
    if unknown:
        with pipeline(connection) as p:
            found = p.send(NEWEST_BOOKS, unknown)
        looked_up = {(tenant, budget_id): book_id for tenant, budget_id, book_id in rows_of(found)}
        memory.newest |= looked_up
        known |= looked_up
    return known


def _are_open(memory: Memory, newest: Mapping[Key, str], locked: Iterable[Key], books: Mapping[Key, Book]) -> None:
    """Raises _Outlived if one of the newest books that were to be locked is closed by now, or gone: they are looked up again."""
    asked = set(locked)
    stale = [
        (tenant, budget_id)
        for (tenant, budget_id), book_id in newest.items()
        if (tenant, book_id) in asked and ((book := books.get((tenant, book_id))) is None or book.closed)
    ]
    for key in stale:
        memory.newest.pop(key, None)
    if stale:
        raise _Outlived


def _clocks(commands: Iterable[Command], budgets: Iterable[Budget]) -> dict[str, tzinfo]:
    """The clocks of the time zones that budgets and commands name, from the system's database; each is read once."""
    names = {budget.schedule.zone for budget in budgets} - {""}
    names.update(zone for command in commands for zone in zones_named(command))
    return {name: clocks_of(name) for name in names}


def _financial_books(commands: Sequence[Command], holds: Mapping[Key, Hold], stripe: int) -> dict[Key, Book]:
    """The stripes of the financial book that may be posted to, as they are when they are new."""
    posting = (hold for c in commands if (hold := holds.get(_hold_key(c))) is not None and may_post_expense(c, hold))
    distinct = {(hold.tenant, hold.quote.provider, hold.quote.model, hold.currency): hold for hold in posting}
    books = (financial_book(hold, stripe) for hold in distinct.values())
    return {(book.tenant, book.book_id): book for book in books}


def _remember_books(memory: Memory, asked: Iterable[Book], opened: Iterable[Key]) -> None:
    """Books that were there already are committed. Those that were opened now are not, and may never be."""
    memory.books.update({(book.tenant, book.book_id) for book in asked}.difference(opened))


def _still_there(memory: Memory, asked: Sequence[Key], books: Mapping[Key, Book]) -> None:
    """A book that the process remembers may be gone all the same, if the database was restored from a backup."""
    gone = memory.books.intersection(asked).difference(books) if len(books) < len(asked) else ()
    if gone:
        memory.books.difference_update(gone)
        raise StaleRow(f"{len(gone)} of {len(asked)} books are not there any more")


def _exclusive_keys(commands: Sequence[Command]) -> list[Key]:
    return [
        (c.caller.tenant, c.exclusive_key) for c in commands if isinstance(c, Reserve) and c.exclusive_key is not None
    ]


def _dispatched_from(commands: Sequence[Command], holds: Mapping[Key, Hold]) -> list[Key]:
    """The budgets of the holds that are to be dispatched: nothing is posted there, but none may be closed."""
    going = (holds[c.hold_key] for c in commands if isinstance(c, BeginDispatch) and c.hold_key in holds)
    return sorted({(hold.tenant, budget_of(book_id)) for hold in going for book_id in hold.books})


def _trees(commands: Sequence[Command]) -> list[tuple[int]]:
    """The locks of the trees that the commands change, in one order."""
    tenants = {tenant for c in commands if (tenant := tree_changed(c)) is not None}
    return sorted((_tree_lock(tenant),) for tenant in tenants)


def _tree_lock(tenant: str) -> int:
    hashed = hashlib.sha256(b"ledger/tree\n" + tenant.encode()).digest()
    return int.from_bytes(hashed[:8], signed=True)


def _revised(commands: Sequence[Command], holds: Mapping[Key, Hold]) -> list[Key]:
    """The holds of which all revisions are needed."""
    named = ((c, holds.get(_hold_key(c))) for c in commands)
    return sorted(
        (hold.tenant, hold.operation_id) for c, hold in named if hold is not None and needs_resolutions(c, hold)
    )


def _by_hold(found: Iterable[OnHold]) -> dict[Key, list[OnHold]]:
    of_holds: dict[Key, list[OnHold]] = {}
    for row in found:
        of_holds.setdefault((row.tenant, row.operation_id), []).append(row)
    return of_holds


def _cards_needed(commands: Sequence[Command], holds: Mapping[Key, Hold]) -> set[CardKey]:
    named = (card_named(c) or card_of(c, holds.get(_hold_key(c))) for c in commands)
    return {card for card in named if card is not None}


def _read_cards(memory: Memory, pinned: Iterable[CardRow], newest: Iterable[CardRow]) -> dict[CardKey, PriceCard]:
    """The cards that were read, the newest of each as version 0. A version never changes: it is parsed once per process."""
    cards = {row[:3]: _remember_card(memory, *row) for row in pinned}
    cards |= {(*row[:2], 0): _remember_card(memory, *row) for row in newest}
    memory.trim()
    return cards


def _remember_card(memory: Memory, tenant: str, card_id: str, version: int, document: str) -> PriceCard:
    key = (tenant, card_id, version)
    card = memory.cards.get(key)
    if card is None:
        card = memory.cards[key] = rows.card_from(tenant, card_id, version, document)
    return card
