"""A ledger in memory: rows, the loading of a batch as the store does it, and the laws, asserted after every step."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from datetime import UTC, datetime
from decimal import Decimal, localcontext
from itertools import count
from typing import Any, TypeVar
from uuid import UUID
from zoneinfo import ZoneInfo

from pydantic_core import from_json, to_json

from ledger.domain.batch import Decision, Loaded, Outcome
from ledger.domain.cards import PriceCard
from ledger.domain.commands import BeginDispatch, Command, Correct, FileParked, Reserve, Resolve
from ledger.domain.decide import decide
from ledger.domain.document_commands import PutEvidencePolicy, PutPriceCard
from ledger.domain.invocations import Receipt, RefusedCommand
from ledger.domain.keyed import OnBudget, OnHold
from ledger.domain.model import (
    Book,
    Budget,
    Classification,
    Entry,
    Evidence,
    Grant,
    Hold,
    Incident,
    Observation,
    Posting,
    Resolution,
    SeenFact,
)
from ledger.domain.money import CONTEXT, fits
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
    zones_named,
)
from ledger.domain.policies import EvidencePolicy
from ledger.domain.quotes import Quote
from ledger.domain.signs import ORPHAN, signs_matter
from ledger.domain.states import BIRTHS, TERMINAL, TRANSITIONS
from ledger.domain.waiting import Parked, Sign
from tests.domain.laws import check

_UNSEEN = SeenFact("", None)
_EIGHTEEN = Decimal(1).scaleb(-18)
Row = TypeVar("Row", Book, Budget, Hold)


def stored(row: Row) -> Row:
    """The row as NUMERIC(38,18) and jsonb give it back."""
    values: Mapping[str, Any] = (
        row._asdict() if isinstance(row, Hold) else {f.name: getattr(row, f.name) for f in fields(row)}
    )
    changes: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, Decimal):
            assert fits(value), (name, value)
            changes[name] = value.quantize(_EIGHTEEN, context=CONTEXT)
        elif isinstance(value, Quote):
            again = Quote.from_document(json.loads(json.dumps(value.to_document())))
            assert again == value
            assert again.digest == value.digest
            changes[name] = again
    return row._replace(**changes) if isinstance(row, Hold) else replace(row, **changes)


class World:
    """The rows of a ledger. `step` decides a batch on exactly the rows that `needs` names, and applies the decision."""

    def __init__(self) -> None:
        self.stripe = 3
        self.now = datetime(2025, 3, 1, 10, tzinfo=UTC)
        self._ids = count(1)
        self.budgets: dict[tuple[str, str], Budget] = {}
        self.books: dict[tuple[str, str], Book] = {}
        self.holds: dict[tuple[str, str], Hold] = {}
        self.cards: dict[tuple[str, str, int], PriceCard] = {}
        self.policies: dict[tuple[str, str], list[EvidencePolicy]] = {}
        self.receipts: dict[tuple[str, str, str, str], Receipt] = {}
        self.refused: list[RefusedCommand] = []
        self.grants: dict[tuple[str, str, str], Grant] = {}
        self.entries: dict[UUID, Entry] = {}
        self.postings: list[Posting] = []
        self.evidence: list[Evidence] = []
        self.observations: list[Observation] = []
        self.resolutions: list[Resolution] = []
        self.incidents: list[Incident] = []
        self.events: list[tuple[str, dict[str, Any]]] = []
        self.told: list[tuple[str, dict[str, Any]]] = []
        self.parked: dict[tuple[str, str, UUID], Parked] = {}
        self._permitted: dict[tuple[str, str, int], bytes] = {}

    def step(self, *commands: Command) -> list[Outcome]:
        decision = decide(self.load(commands), commands)
        assert len(decision.outcomes) == len(commands)
        self._apply(decision)
        self._check_outcomes(commands, decision.outcomes)
        with localcontext(CONTEXT):
            check(self)
        self._exclusive()
        return decision.outcomes

    def load(self, commands: Sequence[Command]) -> Loaded:
        holds: dict[tuple[str, str], Hold] = {}
        books: dict[tuple[str, str], Book] = {}
        cards: dict[tuple[str, str, int], PriceCard] = {}
        budgets = self._budgets(commands)
        closed: set[tuple[str, str]] = set()
        resolutions: dict[tuple[str, str], list[Resolution]] = {}
        newest = {key: book_id for key, book_id in self.newest().items() if key in budgets}
        zones = {budget.schedule.zone for budget in budgets.values()} - {""}
        zones.update(zone for command in commands for zone in zones_named(command))
        for command in commands:
            hold = None
            if not isinstance(command, OnBudget | PutPriceCard | PutEvidencePolicy):
                hold = self.holds.get(command.hold_key)
                holds |= {} if hold is None else {command.hold_key: hold}
            if hold is not None and may_carry_on(command):
                outlived = {(hold.tenant, budget_of(b)) for b in hold.books if self.books[(hold.tenant, b)].closed}
                newest |= {key: book_id for key, book_id in self.newest().items() if key in outlived}
            keys = list(books_to_lock(command, hold, budgets, newest))
            if hold is not None and may_post_expense(command, hold):
                keys.append((hold.tenant, financial_book(hold, self.stripe).book_id))
            books |= {key: self.books[key] for key in keys if key in self.books}
            cards |= {
                key: self.cards[key] for key in (card_named(command), card_of(command, hold)) if key in self.cards
            }
            if isinstance(command, BeginDispatch) and hold is not None:
                levels = [(hold.tenant, budget_of(book)) for book in hold.books]
                closed |= {level for level in levels if self.budgets[level].closed_at is not None}
            if hold is not None and needs_resolutions(command, hold):
                key = (hold.tenant, hold.operation_id)
                resolutions[key] = [r for r in self.resolutions if (r.tenant, r.operation_id) == key]
        on_holds = [c for c in commands if isinstance(c, OnHold)]
        signs = {c.hold_key: self._signs(*c.hold_key) for c in on_holds if signs_matter(c, holds.get(c.hold_key))}
        to_file = [c.parked_key for c in commands if isinstance(c, FileParked)]
        wanted = {(c.caller.tenant, c.exclusive_key) for c in commands if isinstance(c, Reserve) and c.exclusive_key}
        return Loaded(
            now=self.now,
            new_id=lambda: UUID(int=next(self._ids)),
            stripe=self.stripe,
            holds=holds,
            books=books,
            closed_budgets=frozenset(closed),
            budgets=budgets,
            newest=newest,
            zones={zone: ZoneInfo(zone) for zone in zones},
            cards=cards,
            receipts={c.receipt_key: self.receipts[c.receipt_key] for c in commands if c.receipt_key in self.receipts},
            exclusive={key: operation for key, operation in self._exclusive().items() if key in wanted},
            grants=self.grants,
            resolutions=resolutions,
            policies={
                key: self.policies[key][-1]
                for key in (policy_needed(c, holds.get(getattr(c, "hold_key", ("", "")))) for c in commands)
                if key in self.policies
            },
            bound=self._bound(commands),
            ended=self._ended(commands, holds),
            facts=self._facts(commands, holds),
            signs=signs,
            parked={key: self.parked[key] for key in to_file if key in self.parked},
            waiting={c.caller.tenant: sum(key[0] == c.caller.tenant for key in self.parked) for c in commands},
        )

    def _signs(self, tenant: str, operation_id: str) -> tuple[Sign, ...]:
        """As the store finds them: what waits for the operation, and the cases about what waited in vain."""
        waits = [p for p in self.parked.values() if (p.tenant, p.operation_id) == (tenant, operation_id)]
        cases = [i for i in self.incidents if (i.tenant, i.operation_id, i.kind) == (tenant, operation_id, ORPHAN)]
        return (
            *(Sign(tenant, operation_id, p.identity, None, p.kind, p.parked_at) for p in waits),
            *(Sign(tenant, operation_id, None, i.incident_id, i.detail["kind"], i.opened_at) for i in cases),
        )

    def _budgets(self, commands: Sequence[Command]) -> dict[tuple[str, str], Budget]:
        """The chains of the budgets that are named, and what is below those that are moved."""
        budgets: dict[tuple[str, str], Budget] = {}
        for command in commands:
            tenant = command.caller.tenant
            for named in budgets_named(command):
                for level in self.budgets[(tenant, named)].path if (tenant, named) in self.budgets else ():
                    budgets[(tenant, level)] = self.budgets[(tenant, level)]
            moved = subtree_moved(command)
            if moved is not None:
                budgets |= {key: b for key, b in self.budgets.items() if b.tenant == moved[0] and moved[1] in b.path}
        return budgets

    def newest(self) -> dict[tuple[str, str], str]:
        """Of each budget the book that is not closed."""
        open_books = [b for b in self.books.values() if b.budget_id is not None and not b.closed]
        newest = {(b.tenant, b.budget_id or ""): b.book_id for b in open_books}
        assert len(newest) == len(open_books), "one book of a budget is open"
        return newest

    def _bound(self, commands: Sequence[Command]) -> dict[tuple[str, str, str], str]:
        """Who has the receipts that are to be recorded: by the evidence that brought them, or else by their own record."""
        brought: dict[tuple[str, str | None, str], str] = {
            (h.tenant, h.quote.provider, h.provider_receipt): h.operation_id
            for h in self.holds.values()
            if h.provider_receipt
        }
        recorded = {
            (o.tenant, o.provider, o.provider_receipt): o.operation_id for o in self.observations if o.provider_receipt
        }
        bound = brought | recorded
        named = {receipt_brought(c, self.holds.get(getattr(c, "hold_key", ("", "")))) for c in commands}
        return {key: bound[key] for key in named if key in bound}

    def _ended(
        self, commands: Sequence[Command], holds: Mapping[tuple[str, str], Hold]
    ) -> dict[tuple[str, str], list[bytes]]:
        """The hashes of the nonces of attempts that failed, of the holds of which they are needed."""
        wanted = [c.hold_key for c in commands if isinstance(c, OnHold) and needs_ended(c, holds.get(c.hold_key))]
        return {
            key: [
                bytes.fromhex(o.detail["nonce"])
                for o in self.observations
                if (o.tenant, o.operation_id) == key and o.source == "RecordFailedBeforeDispatch"
            ]
            for key in wanted
        }

    def _facts(
        self, commands: Sequence[Command], holds: Mapping[tuple[str, str], Hold]
    ) -> dict[tuple[str, str, bytes], SeenFact]:
        on_holds = [c for c in commands if isinstance(c, Resolve | Correct)]
        brought = {fact_brought(c, holds.get(c.hold_key)) for c in on_holds}
        found: dict[tuple[str, str, bytes], SeenFact] = {}
        for seen in self.evidence:
            key = (seen.tenant, seen.operation_id, seen.fact)
            resolves = seen.classification is Classification.AUTHORITATIVE
            if key in brought and (resolves or found.get(key, _UNSEEN).digest is None):
                found[key] = SeenFact(seen.source, seen.digest if resolves else None)
        return found

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
                assert hold.generation >= before.generation + (hold.attempt - before.attempt)
                if hold.attempt > before.attempt:
                    assert hold.attempt == before.attempt + 1
                    assert before.attempt == 0 or before.failure is not None, (
                        "a next attempt only after a recorded failure"
                    )
                elif hold.nonce_hash is not None:
                    assert hold.nonce_hash == before.nonce_hash, "one permission to send per attempt"
            self.holds[key] = stored(hold)
        self.books |= {key: stored(book) for key, book in decision.books.items()}
        self.entries |= {entry.entry_id: entry for entry in decision.entries}
        self.postings += decision.postings
        self.evidence += decision.evidence
        self.observations += decision.observations
        self.resolutions += decision.resolutions
        self._park(decision)
        self.refused += decision.refused
        known = {i.incident_id for i in self.incidents}
        self.incidents += [i for i in decision.incidents if i.incident_id not in known]
        # As jsonb has them; `told` are those of the last batch.
        told = {tenant: from_json(to_json(events)) for tenant, events in decision.events.items()}
        self.told = [(tenant, event) for tenant, events in told.items() for event in events]
        self.events += self.told
        for key, budget in decision.budgets.items():
            assert budget.version == (self.budgets[key].version + 1 if key in self.budgets else 1)
            self.budgets[key] = stored(budget)
        for grant in decision.grants:
            assert self.grants.setdefault((grant.tenant, grant.budget_id, grant.reference), grant) is grant
        for card in decision.cards:
            assert (card.tenant, card.card_id, card.version) not in self.cards
            for version in (card.version, 0):
                self.cards[(card.tenant, card.card_id, version)] = card
        self._put_policies(decision.policies)
        for receipt in decision.receipts:
            used = (receipt.tenant, receipt.actor, receipt.command, receipt.key)
            assert self.receipts.setdefault(used, receipt) is receipt

    def _park(self, decision: Decision) -> None:
        for waits in decision.parked:
            place = (waits.tenant, waits.operation_id, waits.evidence_id)
            assert self.parked.setdefault(place, waits._replace(report=json.loads(json.dumps(waits.report)))) == waits
        for place in decision.unparked:
            del self.parked[place]

    def _put_policies(self, policies: Sequence[EvidencePolicy]) -> None:
        for policy in policies:
            versions = self.policies.setdefault((policy.tenant, policy.provider), [])
            versions.append(policy)
            assert [p.version for p in versions] == list(range(1, len(versions) + 1))

    def _check_outcomes(self, commands: Sequence[Command], outcomes: Sequence[Outcome]) -> None:
        for command, outcome in zip(commands, outcomes, strict=True):
            if outcome.refusal is not None:
                facts = outcome.refusal.metadata
                assert all(type(k) is str and type(v) is str for k, v in facts.items()), facts
                assert not outcome.applied
                assert not outcome.may_send
            assert not (outcome.may_send and outcome.denial)
            if outcome.may_send:
                assert isinstance(command, Reserve | BeginDispatch)
                assert command.dispatch is not None
                hold, nonce = self.holds[command.hold_key], command.dispatch.nonce_hash
                key = (hold.tenant, hold.operation_id, hold.attempt)
                assert self._permitted.setdefault(key, nonce) == nonce, "one permission to send per attempt"
