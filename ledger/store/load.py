"""Reading the rows that a batch of commands is decided on: locked first, everything else after.

Two round trips. The first locks the holds and finds the budgets, which say which books are needed; the second locks those,
and only then reads receipts, exclusive keys, grants, cards and the clock: read before the locks, they would be stale. For the
same reason it asks whether a budget changed meanwhile (its path, its caps, its end); then everything is loaded again.
"""

import hashlib
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, tzinfo
from typing import NamedTuple, TypeAlias, TypeVar
from uuid import UUID

from sqlalchemy import Connection

from ledger.domain.batch import Loaded
from ledger.domain.cards import PriceCard
from ledger.domain.commands import BeginDispatch, Command, FileParked, GrantBudget, Reserve, Resolve
from ledger.domain.document_commands import PutEvidencePolicy, PutPriceCard
from ledger.domain.keyed import OnBudget
from ledger.domain.model import Book, Budget, Grant, Hold, Resolution, SeenFact
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
    needs_ended,
    needs_resolutions,
    policy_needed,
    receipt_brought,
    subtree_moved,
    tree_changed,
    zones_named,
)
from ledger.domain.parking import orphan_case
from ledger.domain.signs import signs_matter
from ledger.domain.waiting import Sign
from ledger.store import lookups, rows
from ledger.store.clocks import clocks_of
from ledger.store.database import memory_of
from ledger.store.memory import Memory, Outlived
from ledger.store.pipeline import Answer, Pipeline, StaleRow, pipeline, rows_of

Key: TypeAlias = tuple[str, str]
CardKey: TypeAlias = tuple[str, str, int]
CardRow: TypeAlias = tuple[str, str, int, str]
# A command with the hold that it names, if that is there.
Named: TypeAlias = tuple[Command, Hold | None]
OnHold = TypeVar("OnHold", Resolution, Sign)

_WITHOUT_HOLD = (OnBudget, PutPriceCard, PutEvidencePolicy)


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
        except Outlived:
            # That it is closed is remembered: the second time it is known before the locks.
            connection.rollback()


def _load(
    connection: Connection, commands: Sequence[Command], stripe: int, new_id: Callable[[], UUID]
) -> tuple[Loaded, str]:
    memory = memory_of(connection)
    holds, chain, budgets = _lock_holds(connection, commands)
    zones = _clocks(commands, budgets.values())
    named: list[Named] = [(c, None if isinstance(c, _WITHOUT_HOLD) else holds.get(c.hold_key)) for c in commands]
    carrying = {
        (hold.tenant, book_id) for c, hold in named if hold is not None and may_carry_on(c) for book_id in hold.books
    }
    closed_before = carrying & memory.closed
    outlived = {(tenant, budget_of(book_id)) for tenant, book_id in closed_before}
    newest = _newest(connection, memory, chain | outlived)
    financial = _financial_books(named, stripe)
    to_lock = sorted({key for c, hold in named for key in books_to_lock(c, hold, budgets, newest)} | financial.keys())
    to_open = [financial[key] for key in sorted(financial.keys() - memory.books)]
    cards = {card for c, hold in named if (card := card_named(c) or card_of(c, hold)) is not None}
    # Taken now: another lane may make the memory forget in between.
    known = {key: kept for key in cards if (kept := memory.cards.get(key)) is not None}
    with pipeline(connection) as p:
        opened = p.send(lookups.OPEN_BOOKS, list(map(rows.book_row, to_open)))
        locked = p.send(lookups.LOCK_BOOKS, to_lock)
        changed = p.send(lookups.CHANGED_BUDGETS, [(*key, budgets[key].version) for key in sorted(budgets)])
        pinned = p.send(lookups.CARDS, [card for card in cards if card[2] and card not in known])
        newest_cards = p.send(lookups.NEWEST_CARDS, [card[:2] for card in cards if not card[2]])
        asked = _ask(p, named)
        clock = p.run(lookups.CLOCK)
    if rows_of(changed):
        raise StaleRow("a budget changed before the locks were there")
    now, transaction_id = rows_of(clock)[0]
    books = {(book.tenant, book.book_id): book for book in map(rows.book_from, rows_of(locked))}
    memory.learn_stripes(to_open, rows_of(opened))
    if gone := memory.learn_gone(to_lock, books):
        raise StaleRow(f"{gone} of {len(to_lock)} books are not there any more")
    memory.learn_periods(newest, to_lock, carrying - closed_before, books, now)
    loaded = Loaded(
        now=now.astimezone(UTC),
        new_id=new_id,
        stripe=stripe,
        holds=holds,
        books=books,
        closed_budgets=frozenset(rows_of(asked.closed)),
        budgets=budgets,
        newest=newest,
        zones=zones,
        cards=known | _cards(memory, rows_of(pinned), rows_of(newest_cards)),
        receipts={receipt[:4]: receipt for receipt in map(rows.receipt_from, rows_of(asked.receipts))},
        exclusive={(tenant, key): operation_id for tenant, key, operation_id in rows_of(asked.exclusive)},
        policies={row[:2]: rows.policy_from(*row) for row in rows_of(asked.policies)},
        facts={row[:3]: SeenFact(*row[3:]) for row in rows_of(asked.facts)},
        grants={grant[:3]: grant for grant in map(Grant._make, rows_of(asked.grants))},
        bound={tuple(key): operation_id for *key, operation_id in rows_of(asked.bound)},
        ended=_nonces(rows_of(asked.ended)),
        resolutions=_by_hold(map(rows.resolution_from, rows_of(asked.revisions))),
        signs=_by_hold(map(Sign._make, (*rows_of(asked.signs), *rows_of(asked.orphans)))),
        parked={(p.tenant, p.operation_id, p.evidence_id): p for p in map(rows.parked_from, rows_of(asked.parked))},
        waiting=dict(rows_of(asked.waiting)),
    )
    return loaded, transaction_id


def _lock_holds(
    connection: Connection, commands: Sequence[Command]
) -> tuple[dict[Key, Hold], set[Key], dict[Key, Budget]]:
    """The holds that are named, locked; the keys of the budgets on the named chains; and these budgets, with all that is moved."""
    chains = {(c.caller.tenant, budget_id) for c in commands for budget_id in budgets_named(c)}
    with pipeline(connection) as p:
        p.send(lookups.LOCK_TREES, _trees(commands))
        held = p.send(lookups.LOCK_HOLDS, sorted({c.hold_key for c in commands if not isinstance(c, _WITHOUT_HOLD)}))
        chained = p.send(lookups.BUDGET_CHAINS, sorted(chains))
        below = p.send(lookups.SUBTREES, sorted({key for c in commands if (key := subtree_moved(c)) is not None}))
    holds = {(hold.tenant, hold.operation_id): hold for hold in map(rows.hold_from, rows_of(held))}
    chain = {(budget.tenant, budget.budget_id): budget for budget in map(rows.budget_from, rows_of(chained))}
    moved = {(budget.tenant, budget.budget_id): budget for budget in map(rows.budget_from, rows_of(below))}
    return holds, set(chain), chain | moved


class _Asked(NamedTuple):
    """What is read under the locks and needs no lock of its own, but for what is parked."""

    receipts: Answer | None
    exclusive: Answer | None
    grants: Answer | None
    bound: Answer | None
    ended: Answer | None
    closed: Answer | None
    revisions: Answer | None
    signs: Answer | None
    orphans: Answer | None
    waiting: Answer | None
    parked: Answer | None
    facts: Answer | None
    policies: Answer | None


def _ask(p: Pipeline, named: Sequence[Named]) -> _Asked:
    """Sends the look-ups that depend on the commands and their holds alone."""
    commands = [c for c, _ in named]
    grants = [(c.caller.tenant, c.budget_id, c.reference) for c in commands if isinstance(c, GrantBudget)]
    receipts_brought = {receipt for c, hold in named if (receipt := receipt_brought(c, hold))}
    retried = {(hold.tenant, hold.operation_id) for c, hold in named if hold is not None and needs_ended(c, hold)}
    revised = {(hold.tenant, hold.operation_id) for c, hold in named if hold is not None and needs_resolutions(c, hold)}
    early = [c for c, hold in named if not isinstance(c, _WITHOUT_HOLD) and signs_matter(c, hold)]
    reported = [c for c, hold in named if hold is None and isinstance(c, Resolve) and signs_matter(c, hold)]
    return _Asked(
        receipts=p.send(lookups.RECEIPTS, [c.receipt_key for c in commands]),
        exclusive=p.send(lookups.EXCLUSIVE, _exclusive_keys(commands)),
        grants=p.send(lookups.GRANTS, grants),
        bound=p.send(lookups.BOUND, sorted(receipts_brought)),
        ended=p.send(lookups.ENDED, sorted(retried)),
        closed=p.send(lookups.CLOSED_BUDGETS, _dispatched_from(named)),
        revisions=p.send(lookups.RESOLUTIONS, sorted(revised)),
        signs=p.send(lookups.SIGNS, [c.hold_key for c in early]),
        orphans=p.send(lookups.ORPHANS, [(c.caller.tenant, orphan_case(c)) for c in reported]),
        waiting=p.send(lookups.WAITING, sorted({(c.caller.tenant,) for c in reported})),
        parked=p.send(lookups.PARKED, sorted(c.parked_key for c in commands if isinstance(c, FileParked))),
        facts=p.send(lookups.FACTS, sorted({fact for c, hold in named if (fact := fact_brought(c, hold))})),
        policies=p.send(lookups.NEWEST_POLICIES, sorted({key for c, hold in named if (key := policy_needed(c, hold))})),
    )


def _clocks(commands: Iterable[Command], budgets: Iterable[Budget]) -> dict[str, tzinfo]:
    """The clocks of the time zones that budgets and commands name, from the system's database; each is read once."""
    names = {budget.schedule.zone for budget in budgets} - {""}
    names.update(zone for command in commands for zone in zones_named(command))
    return {name: clocks_of(name) for name in names}


def _financial_books(named: Iterable[Named], stripe: int) -> dict[Key, Book]:
    """The stripes of the financial book that may be posted to, as they are when they are new."""
    posting = (hold for c, hold in named if hold is not None and may_post_expense(c, hold))
    distinct = {(hold.tenant, hold.quote.provider, hold.quote.model, hold.currency): hold for hold in posting}
    books = (financial_book(hold, stripe) for hold in distinct.values())
    return {(book.tenant, book.book_id): book for book in books}


def _exclusive_keys(commands: Sequence[Command]) -> list[Key]:
    return [
        (c.caller.tenant, c.exclusive_key) for c in commands if isinstance(c, Reserve) and c.exclusive_key is not None
    ]


def _dispatched_from(named: Iterable[Named]) -> list[Key]:
    """The budgets of the holds that are to be dispatched: nothing is posted there, but none may be closed."""
    going = [hold for c, hold in named if hold is not None and isinstance(c, BeginDispatch)]
    return sorted({(hold.tenant, budget_of(book_id)) for hold in going for book_id in hold.books})


def _trees(commands: Sequence[Command]) -> list[tuple[int]]:
    """The locks of the trees that the commands change, in one order."""
    tenants = {tenant for c in commands if (tenant := tree_changed(c)) is not None}
    return sorted((_tree_lock(tenant),) for tenant in tenants)


def _tree_lock(tenant: str) -> int:
    hashed = hashlib.sha256(b"ledger/tree\n" + tenant.encode()).digest()
    return int.from_bytes(hashed[:8], signed=True)


def _nonces(found: Iterable[tuple[str, str, str]]) -> dict[Key, list[bytes]]:
    """The hashes of the nonces of attempts that ended, by hold."""
    ended: dict[Key, list[bytes]] = {}
    for tenant, operation_id, nonce in found:
        ended.setdefault((tenant, operation_id), []).append(bytes.fromhex(nonce))
    return ended


def _by_hold(found: Iterable[OnHold]) -> dict[Key, list[OnHold]]:
    of_holds: dict[Key, list[OnHold]] = {}
    for row in found:
        of_holds.setdefault((row.tenant, row.operation_id), []).append(row)
    return of_holds


def _newest(connection: Connection, memory: Memory, budgets: set[Key]) -> dict[Key, str]:
    """The books of the budgets that are open, as far as the process knows; those that it does not know are looked up."""
    known = memory.open_books(budgets)
    unknown = sorted(budgets - known.keys())
    if not unknown:
        return known
    with pipeline(connection) as p:
        found = p.send(lookups.NEWEST_BOOKS, unknown)
    looked_up = {(tenant, budget_id): book_id for tenant, budget_id, book_id in rows_of(found)}
    memory.newest |= looked_up
    return known | looked_up


def _cards(memory: Memory, pinned: Iterable[CardRow], newest: Iterable[CardRow]) -> dict[CardKey, PriceCard]:
    """The cards that were read, the newest of each as version 0. A version never changes: it is parsed once per process."""
    cards = {row[:3]: _card(memory, *row) for row in pinned}
    cards |= {(*row[:2], 0): _card(memory, *row) for row in newest}
    memory.trim()
    return cards


def _card(memory: Memory, tenant: str, card_id: str, version: int, document: str) -> PriceCard:
    key = (tenant, card_id, version)
    card = memory.cards.get(key)
    if card is None:
        card = memory.cards[key] = rows.card_from(tenant, card_id, version, document)
    return card
