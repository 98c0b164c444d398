"""A ledger in memory: rows, the loading of a batch as the store does it, and the laws, asserted after every step."""

import json
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import fields, replace
from datetime import UTC, datetime
from decimal import Decimal
from itertools import count
from typing import TypeVar
from uuid import UUID

from ledger.domain.batch import Decision, Loaded, Outcome
from ledger.domain.commands import BeginDispatch, Command, CreateBudget, GrantBudget, PutPriceCard, Reserve, Resolve
from ledger.domain.decide import decide
from ledger.domain.evidence import Line, reprice, resolution_digest
from ledger.domain.model import (
    DEBIT_NORMAL,
    Account,
    Book,
    Budget,
    Entry,
    Evidence,
    Grant,
    Hold,
    Incident,
    Posting,
    Receipt,
    Resolution,
)
from ledger.domain.money import CONTEXT, fits
from ledger.domain.needs import books_to_lock, budgets_named, card_named, card_of, financial_book
from ledger.domain.quotes import PriceCard, Quote, QuoteKind
from ledger.domain.states import BIRTHS, TERMINAL, TRANSITIONS, HoldState

BUDGET_ACCOUNTS = (Account.AVAILABLE, Account.HELD, Account.UNKNOWN, Account.SPENT)
STRIPE = 3
_EIGHTEEN = Decimal(1).scaleb(-18)
Row = TypeVar("Row", Book, Budget, Hold)


def stored(row: Row) -> Row:
    """The row as NUMERIC(38,18) and jsonb give it back."""
    changes: dict[str, object] = {}
    for field in fields(row):
        value = getattr(row, field.name)
        if isinstance(value, Decimal):
            assert fits(value), (field.name, value)
            changes[field.name] = value.quantize(_EIGHTEEN, context=CONTEXT)
        elif isinstance(value, Quote):
            again = Quote.from_document(json.loads(json.dumps(value.to_document())))
            assert again == value
            assert again.digest == value.digest
            changes[field.name] = again
    return replace(row, **changes)  # type: ignore[arg-type]  # the values are of the fields that they were read from


class World:
    """The rows of a ledger. `step` decides a batch on exactly the rows that `needs` names, and applies the decision."""

    def __init__(self) -> None:
        self.now = datetime(2025, 3, 1, 10, tzinfo=UTC)
        self._ids = count(1)
        self.budgets: dict[tuple[str, str], Budget] = {}
        self.books: dict[tuple[str, str], Book] = {}
        self.holds: dict[tuple[str, str], Hold] = {}
        self.cards: dict[tuple[str, str, int], PriceCard] = {}
        self.receipts: dict[tuple[str, str, str, str], Receipt] = {}
        self.grants: dict[tuple[str, str, str], Grant] = {}
        self.entries: dict[UUID, Entry] = {}
        self.postings: list[Posting] = []
        self.evidence: list[Evidence] = []
        self.resolutions: list[Resolution] = []
        self.incidents: list[Incident] = []
        self._permitted: dict[tuple[str, str, int], bytes] = {}

    def step(self, *commands: Command) -> list[Outcome]:
        decision = decide(self.load(commands), commands)
        assert len(decision.outcomes) == len(commands)
        self._apply(decision)
        self._check_outcomes(commands, decision.outcomes)
        self.check()
        return decision.outcomes

    def load(self, commands: Sequence[Command]) -> Loaded:
        holds, books, cards, budgets = {}, {}, {}, {}
        closed: set[tuple[str, str]] = set()
        for command in commands:
            tenant = command.caller.tenant
            for named in budgets_named(command):
                for level in self.budgets[(tenant, named)].path if (tenant, named) in self.budgets else ():
                    budgets[(tenant, level)] = self.budgets[(tenant, level)]
        for command in commands:
            on_hold = not isinstance(command, CreateBudget | GrantBudget | PutPriceCard)
            hold = self.holds.get(command.hold_key) if on_hold else None
            if hold is not None:
                holds[command.hold_key] = hold
            keys = list(books_to_lock(command, hold, budgets))
            if isinstance(command, Resolve) and hold is not None:
                keys.append((hold.tenant, financial_book(hold, STRIPE).book_id))
            books |= {key: self.books[key] for key in keys if key in self.books}
            cards |= {
                key: self.cards[key] for key in (card_named(command), card_of(command, hold)) if key in self.cards
            }
            if isinstance(command, BeginDispatch) and hold is not None:
                closed |= {(hold.tenant, book) for book in hold.books if self.books[(hold.tenant, book)].closed}
        wanted = {(c.caller.tenant, c.exclusive_key) for c in commands if isinstance(c, Reserve) and c.exclusive_key}
        return Loaded(
            now=self.now,
            new_id=lambda: UUID(int=next(self._ids)),
            stripe=STRIPE,
            holds=holds,
            books=books,
            closed_books=frozenset(closed),
            budgets=budgets,
            cards=cards,
            receipts={c.receipt_key: self.receipts[c.receipt_key] for c in commands if c.receipt_key in self.receipts},
            exclusive={key: operation for key, operation in self._exclusive().items() if key in wanted},
            grants=self.grants,
        )

    def _exclusive(self) -> dict[tuple[str, str], str]:
        open_holds = [h for h in self.holds.values() if h.exclusive_key and h.state not in TERMINAL]
        keys = {(h.tenant, h.exclusive_key or ""): h.operation_id for h in open_holds}
        assert len(keys) == len(open_holds), "one non-terminal hold per exclusive key"
        return keys

    def _apply(self, decision: Decision) -> None:
        for key, hold in decision.holds.items():
            before = self.holds.get(key)
            if before is None:
                assert hold.state in BIRTHS
                assert hold.version == 1
            else:
                assert hold.state is before.state or (before.state, hold.state) in TRANSITIONS, (before, hold)
                assert hold.version == before.version + 1
                assert hold.attempt >= before.attempt
            self.holds[key] = stored(hold)
        self.books |= {key: stored(book) for key, book in decision.books.items()}
        self.entries |= {entry.entry_id: entry for entry in decision.entries}
        self.postings += decision.postings
        self.evidence += decision.evidence
        self.resolutions += decision.resolutions
        self.incidents += decision.incidents
        for budget in decision.budgets:
            assert (budget.tenant, budget.budget_id) not in self.budgets
            self.budgets[(budget.tenant, budget.budget_id)] = stored(budget)
        for grant in decision.grants:
            assert self.grants.setdefault((grant.tenant, grant.budget_id, grant.reference), grant) is grant
        for card in decision.cards:
            assert (card.tenant, card.card_id, card.version) not in self.cards
            for version in (card.version, 0):
                self.cards[(card.tenant, card.card_id, version)] = card
        for receipt in decision.receipts:
            key = (receipt.tenant, receipt.actor, receipt.command, receipt.key)
            assert self.receipts.setdefault(key, receipt) is receipt

    def _check_outcomes(self, commands: Sequence[Command], outcomes: Sequence[Outcome]) -> None:
        for command, outcome in zip(commands, outcomes, strict=True):
            if outcome.refusal is not None:
                facts = outcome.refusal.metadata
                assert all(type(k) is str and type(v) is str for k, v in facts.items()), facts
                assert not outcome.applied
                assert not outcome.may_send
            if outcome.may_send:
                assert isinstance(command, Reserve | BeginDispatch)
                assert command.dispatch is not None
                hold, nonce = self.holds[command.hold_key], command.dispatch.nonce_hash
                key = (hold.tenant, hold.operation_id, hold.attempt)
                assert self._permitted.setdefault(key, nonce) == nonce, "one permission to send per attempt"

    def check(self) -> None:
        """Every law that can be seen on rows."""
        sums: dict[tuple[str, str], dict[Account, Decimal]] = defaultdict(lambda: defaultdict(Decimal))
        versions: dict[tuple[str, str], list[int]] = defaultdict(list)
        entries: dict[tuple[UUID, str], Decimal] = defaultdict(Decimal)
        for posting in self.postings:
            key = (posting.tenant, posting.book_id)
            assert posting.amount != 0
            versions[key].append(posting.version)
            entries[(posting.entry_id, posting.book_id)] += posting.amount
            sums[key][posting.account] += posting.amount if posting.account in DEBIT_NORMAL else -posting.amount
        assert not any(entries.values()), "every entry balances per book"
        assert {entry_id for entry_id, _ in entries} == set(self.entries), "an entry without a line says nothing"
        open_sums: dict[tuple[str, str, Account], Decimal] = defaultdict(Decimal)
        expenses: dict[tuple[str, str, str, str], Decimal] = defaultdict(Decimal)
        for hold in self.holds.values():
            account = Account.UNKNOWN if hold.state is HoldState.OUTCOME_UNKNOWN else Account.HELD
            for book_id in hold.books if hold.state not in TERMINAL else ():
                open_sums[(hold.tenant, book_id, account)] += hold.amount
            expenses[(hold.tenant, hold.quote.provider, hold.quote.model, hold.currency)] += hold.settled or 0
            self._check_hold(hold)
        for (tenant, book_id), book in self.books.items():
            assert versions[(tenant, book_id)] == list(range(1, book.version + 1)), "versions have no gap"
            for account in Account:
                assert getattr(book, account.lower()) == sums[(tenant, book_id)][account], (book_id, account)
            used = sum(getattr(book, account.lower()) for account in BUDGET_ACCOUNTS)
            assert book.authority + book.deficit == used, "the accounting equation"
            assert min(book.held, book.unknown, book.spent, book.deficit) >= 0
            assert book.floor is None or book.available >= book.floor
            assert book.deficit == 0 or (book.floor is not None and book.available == book.floor)
            assert book.held == open_sums[(tenant, book_id, Account.HELD)]
            assert book.unknown == open_sums[(tenant, book_id, Account.UNKNOWN)]
            assert book.expense == book.payable
            if book.budget_id is None:
                expenses[(tenant, book.provider or "", book.model or "", book.currency)] -= book.expense
        assert not any(expenses.values()), "EXPENSE is what the holds settled at"
        self._exclusive()

    def _check_hold(self, hold: Hold) -> None:
        chain = [r for r in self.resolutions if (r.tenant, r.operation_id) == (hold.tenant, hold.operation_id)]
        assert (hold.state is HoldState.RELEASED) <= (hold.attempt == 0), "never released after a dispatch"
        assert (hold.state is HoldState.RESERVED) <= (hold.attempt == 0)
        if hold.state not in TERMINAL:
            assert not chain
            assert (hold.revision, hold.resolution_digest, hold.settled) == (0, None, None)
            return
        (resolution,) = chain
        assert (resolution.revision, hold.revision) == (1, 1)
        assert resolution.amount == hold.settled
        assert resolution.cost_over_hold == max(resolution.amount - hold.amount, Decimal(0))
        accepted = [e for e in self.evidence if e.evidence_id == resolution.evidence_id]
        body = accepted[0].body if accepted else {}
        lines = tuple(
            Line(x["bucket"], int(x["quantity"]), Decimal(x["rate"]), int(x["per"]), Decimal(x["amount"]))
            for x in resolution.lines
        )
        served = body.get("tier") if hold.quote.kind is QuoteKind.METERED else None
        tier = "" if hold.state is HoldState.RELEASED else served or hold.quote.service_tier
        again = resolution_digest(hold, resolution.kind, hold.attempt, resolution.amount, tier, lines)
        assert again == resolution.digest == hold.resolution_digest
        if hold.state is HoldState.SETTLED:
            card = self.cards.get((hold.tenant, hold.quote.card_id, hold.quote.card_version))
            assert [e.status for e in accepted] == ["ACCEPTED"]
            assert reprice(hold.quote, card, body) == hold.settled
