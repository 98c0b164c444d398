"""Every law of the ledger that can be seen on its rows."""

from collections import defaultdict
from decimal import Decimal
from itertools import pairwise
from typing import TYPE_CHECKING
from uuid import UUID

from ledger.domain.evidence import fact_of, passed_ceilings, priced_tier, reprice, resolution_digest
from ledger.domain.model import DEBIT_NORMAL, Account, Classification, EntryKind, Hold, Resolution
from ledger.domain.states import TERMINAL, HoldState, ResolutionKind
from ledger.domain.thresholds import Basis

if TYPE_CHECKING:
    from tests.domain.world import World

BUDGET_ACCOUNTS = (Account.AVAILABLE, Account.HELD, Account.UNKNOWN, Account.SPENT)


def check(world: "World") -> None:
    """Every law that can be seen on rows."""
    _check_tree(world)
    sums: dict[tuple[str, str], dict[Account, Decimal]] = defaultdict(lambda: defaultdict(Decimal))
    versions: dict[tuple[str, str], list[int]] = defaultdict(list)
    entries: dict[tuple[UUID, str], Decimal] = defaultdict(Decimal)
    for posting in world.postings:
        key = (posting.tenant, posting.book_id)
        assert posting.amount != 0
        versions[key].append(posting.version)
        entries[(posting.entry_id, posting.book_id)] += posting.amount
        sums[key][posting.account] += posting.amount if posting.account in DEBIT_NORMAL else -posting.amount
    assert not any(entries.values()), "every entry balances per book"
    assert {entry_id for entry_id, _ in entries} == set(world.entries), "an entry without a line says nothing"
    open_sums: dict[tuple[str, str, Account], Decimal] = defaultdict(Decimal)
    open_holds: dict[tuple[str, str], int] = defaultdict(int)
    expenses: dict[tuple[str, str, str, str], Decimal] = defaultdict(Decimal)
    for hold in world.holds.values():
        account = Account.UNKNOWN if hold.state is HoldState.OUTCOME_UNKNOWN else Account.HELD
        for book_id in hold.books if hold.state not in TERMINAL else ():
            open_sums[(hold.tenant, book_id, account)] += hold.amount
            open_holds[(hold.tenant, book_id)] += 1
        expenses[(hold.tenant, hold.quote.provider, hold.quote.model, hold.currency)] += hold.settled or 0
        _check_hold(world, hold)
    _check_periods(world)
    for (tenant, book_id), book in world.books.items():
        assert versions[(tenant, book_id)] == list(range(1, book.version + 1)), "versions have no gap"
        for account in Account:
            assert getattr(book, account.lower()) == sums[(tenant, book_id)][account], (book_id, account)
        used = sum(getattr(book, account.lower()) for account in BUDGET_ACCOUNTS)
        assert book.authority + book.deficit == used, "the accounting equation"
        assert min(book.held, book.unknown, book.spent, book.deficit) >= 0
        assert book.budget_id is None or book.expense == 0
        assert book.floor is None or book.available >= book.floor
        assert book.deficit == 0 or (book.floor is not None and book.available == book.floor)
        assert book.held == open_sums[(tenant, book_id, Account.HELD)]
        assert book.unknown == open_sums[(tenant, book_id, Account.UNKNOWN)]
        assert book.open_holds == open_holds[(tenant, book_id)], "the open holds are counted"
        assert book.expense == book.payable
        if book.budget_id is None:
            expenses[(tenant, book.provider or "", book.model or "", book.currency)] -= book.expense
    assert not any(expenses.values()), "EXPENSE is what the holds settled at"
    for hold in world.holds.values():
        _check_postings(world, hold)
    bound = [(o.tenant, o.provider, o.provider_receipt) for o in world.observations if o.provider_receipt]
    assert len(set(bound)) == len(bound), "a receipt is bound once"
    have = [(h.tenant, h.quote.provider, h.provider_receipt) for h in world.holds.values() if h.provider_receipt]
    assert len(set(have)) == len(have), "one operation has it"
    grounds = {r.evidence_id for r in world.resolutions if r.evidence_id is not None}
    authoritative = {e.evidence_id for e in world.evidence if e.classification is Classification.AUTHORITATIVE}
    assert authoritative == grounds, "evidence is authoritative if, and only if, a resolution rests on it"
    kept = {(e.tenant, e.operation_id, e.fact) for e in world.evidence if e.body is not None}
    for seen in world.evidence:
        if seen.body is None:
            assert (seen.tenant, seen.operation_id, seen.fact) in kept, (
                "a fact that was seen before is kept with its body"
            )
        else:
            assert seen.fact == fact_of(seen.body), "a fact is what was observed"
    _check_parked(world)


def _check_parked(world: "World") -> None:
    """Nothing that was parked is lost, and nothing else is about a hold that is not there."""
    kept = {(e.tenant, e.operation_id, e.evidence_id): e for e in world.evidence}
    filed = {
        (e.tenant, e.operation_id, e.fact, e.source, e.actor, e.adapter, e.provider_receipt, e.observed_at)
        for e in world.evidence
        if e.classification is not Classification.PARKED
    }
    orphans = {i.detail.get("evidence_id") for i in world.incidents if i.kind == "ORPHAN_EVIDENCE"}
    for key, e in kept.items():
        if e.classification is not Classification.PARKED:
            assert key[:2] in world.holds, "evidence without a hold is parked"
            continue
        again = (*key[:2], e.fact, e.source, e.actor, e.adapter, e.provider_receipt, e.observed_at)
        fates = (key in world.parked, again in filed, str(e.evidence_id) in orphans)
        assert any(fates), "parked evidence waits, was filed, or is a case"
        assert not (fates[0] and fates[2]), "what is a case waits no longer"
    for key, parked in world.parked.items():
        assert kept[key].classification is Classification.PARKED
        assert (kept[key].kind, kept[key].received_at) == (parked.kind, parked.parked_at)
    for incident in world.incidents:
        needs_none = incident.kind in {"ORPHAN_EVIDENCE", "WRITE_MISMATCH"}
        assert needs_none or (incident.tenant, incident.operation_id) in world.holds


def _check_tree(world: "World") -> None:
    for (tenant, budget_id), budget in world.budgets.items():
        assert budget.path[-1] == budget_id
        assert len(set(budget.path)) == len(budget.path) <= 8, "no cycle, and not too deep"
        for depth, level in enumerate(budget.path, start=1):
            above = world.budgets[(tenant, level)]
            assert above.path == budget.path[:depth], "a path is its parent's and itself"
            assert above.currency == budget.currency

    _check_feed(world)


def _check_feed(world: "World") -> None:
    """Every state that a hold was in is an event, each entry is named once, and what an event names is there."""
    states: dict[tuple[str, str], list[str | None]] = defaultdict(lambda: [None])
    budgets: dict[tuple[str, str], list[int]] = defaultdict(list)
    crossed: dict[tuple[str, str], list[int]] = defaultdict(list)
    named: list[str] = []
    for tenant, event in world.events:
        named += [event["entry_id"]] if "entry_id" in event else [entry["id"] for entry in event.get("entries", ())]
        match event["type"]:
            case "HOLD":
                chain = states[(tenant, event["operation_id"])]
                assert (event["version"], event.get("from")) == (len(chain), chain[-1])
                chain.append(event["to"])
            case "BUDGET":
                budgets[(tenant, event["budget_id"])].append(event["version"])
            case "THRESHOLD":
                crossed[(tenant, event["book_id"])].append(event["percent"])
            case "INCIDENT":
                assert UUID(event["incident_id"]) in {i.incident_id for i in world.incidents}
    assert {key: (len(chain) - 1, chain[-1]) for key, chain in states.items()} == {
        key: (hold.version, hold.state) for key, hold in world.holds.items()
    }
    assert budgets == {key: list(range(1, budget.version + 1)) for key, budget in world.budgets.items()}
    for key, book in world.books.items():
        assert list(book.crossed) == crossed.pop(key, []), "each mark is told once"
        used = book.spent if book.thresholds.basis is Basis.SPENT else book.spent + book.held + book.unknown
        for percent in book.thresholds.percents if book.floor is not None and used else ():
            assert percent in book.crossed or 100 * used < percent * (book.authority + book.carried_on), (
                "what is crossed bears its mark"
            )
    assert not crossed, "and nothing else is"
    assert sorted(named) == sorted(str(entry_id) for entry_id in world.entries)


def _check_periods(world: "World") -> None:
    """The periods of a budget do not overlap, the last is open, and what is in it follows from its settings."""
    kinds = {entry_id: entry.kind for entry_id, entry in world.entries.items()}
    authorized: dict[tuple[str, str, EntryKind], Decimal] = defaultdict(Decimal)
    for posting in world.postings:
        if posting.account is Account.AUTHORITY:
            authorized[(posting.tenant, posting.book_id, kinds[posting.entry_id])] += posting.amount
    for (tenant, budget_id), budget in world.budgets.items():
        books = sorted(
            (b for b in world.books.values() if (b.tenant, b.budget_id) == (tenant, budget_id)), key=lambda b: b.book_id
        )
        for earlier, later in pairwise(books):
            assert earlier.period_end is not None
            assert later.period_start is not None
            assert earlier.period_end <= later.period_start, "periods do not overlap"
        assert [b.closed for b in books] == [True] * (len(books) - 1) + [False], "the last is open"
        newest = books[-1]
        assert newest.floor == budget.floor
        assert newest.rollover == budget.rollover
        assert newest.thresholds == budget.thresholds
        limit = (
            authorized[(tenant, newest.book_id, EntryKind.OPEN)] + authorized[(tenant, newest.book_id, EntryKind.LIMIT)]
        )
        assert limit == (budget.limit or 0), "AUTHORITY of the period has the limit"
        for book in books:
            rolled = authorized[(tenant, book.book_id, EntryKind.ROLLOVER)]
            assert book.carried - book.carried_on == rolled, "and what was carried into it, and on"
        granted = sum(authorized[(tenant, b.book_id, EntryKind.GRANT)] for b in books)
        assert granted == sum(g.amount for g in world.grants.values() if (g.tenant, g.budget_id) == (tenant, budget_id))


def _check_hold(world: "World", hold: Hold) -> None:
    chain = [r for r in world.resolutions if (r.tenant, r.operation_id) == (hold.tenant, hold.operation_id)]
    assert (hold.state is HoldState.RELEASED and hold.attempt > 0) <= (hold.inferred and hold.revision > 1)
    assert (hold.state is HoldState.RESERVED) <= (hold.attempt == 0)
    assert hold.attempt <= hold.generation
    if hold.state is HoldState.DISPATCHING:
        assert (hold.lease_expires_at is None) == (hold.failure is not None), (
            "without a lease only after a recorded failure"
        )
    said = [o for o in world.observations if (o.tenant, o.operation_id) == (hold.tenant, hold.operation_id)]
    failed = {o.attempt for o in said if o.source == "RecordFailedBeforeDispatch"}
    assert failed >= set(range(1, hold.attempt)), "of all attempts but the last it is recorded that they were not sent"
    assert (hold.failure is not None) == (hold.attempt in failed)
    if hold.state is HoldState.OUTCOME_UNKNOWN:
        assert any(o.value == "UNKNOWN" for o in said), "somebody said why"
    if hold.state not in TERMINAL:
        assert not chain
        assert (hold.revision, hold.resolution_digest, hold.settled) == (0, None, None)
        return
    assert [r.revision for r in chain] == list(range(1, hold.revision + 1)), "a chain without a gap"
    assert [r.supersedes for r in chain] == [None, *(r.digest for r in chain[:-1])], "each names the one before"
    in_force = chain[-1]
    assert (in_force.kind, in_force.digest, in_force.amount) == (
        hold.resolution_kind,
        hold.resolution_digest,
        hold.settled,
    )
    assert (hold.state is HoldState.RELEASED) == (chain[0].kind is ResolutionKind.NEVER_DISPATCHED)
    for before, resolution in zip([None, *chain], chain, strict=False):
        _check_resolution(world, hold, resolution, before)
    assert any(r.kind is ResolutionKind.USAGE for r in chain) <= hold.usage_seen <= hold.execution_seen
    (source,) = [e.source for e in world.evidence if e.evidence_id == in_force.evidence_id] or [""]
    assert hold.execution_seen <= (source not in {"NEVER_SENT", "GATEWAY_CACHE_HIT"}), "what was executed was sent"


def _check_resolution(world: "World", hold: Hold, resolution: Resolution, before: Resolution | None) -> None:
    assert resolution.cost_over_hold == max(resolution.amount - hold.amount, Decimal(0))
    accepted = [e for e in world.evidence if e.evidence_id == resolution.evidence_id]
    assert resolution.passed_ceilings == passed_ceilings(hold.quote, resolution.lines)
    body = (accepted[0].body if accepted else None) or {}
    attempt = accepted[0].attempt if accepted else 0
    tier = priced_tier(hold.quote, body.get("tier", "")) if accepted else ""
    again = resolution_digest(hold, resolution.kind, attempt, resolution.amount, tier, resolution.lines)
    assert again == resolution.digest
    if resolution.kind is ResolutionKind.NEVER_DISPATCHED:
        assert resolution.revision == 1
        assert resolution.amount == 0
        assert not accepted
    else:
        card = world.cards.get((hold.tenant, hold.quote.card_id, hold.quote.card_version))
        assert [(e.classification, e.digest) for e in accepted] == [("AUTHORITATIVE", resolution.digest)]
        assert reprice(hold.quote, card, body, hold.dispatched_at) == resolution.amount
    if before is not None:
        assert resolution.digest != before.digest, "the same fact is no correction"
        assert (resolution.entry_id is None) == (resolution.amount == before.amount)


def _check_postings(world: "World", hold: Hold) -> None:
    """SPENT of each level, and EXPENSE, are what the hold is settled at; each CORRECT is linked to the entry before it."""
    mine = {e.entry_id: e for e in world.entries.values() if (e.tenant, e.operation_id) == hold[:2]}
    spent: dict[str, Decimal] = defaultdict(Decimal)
    for posting in world.postings:
        if posting.entry_id in mine and posting.account in {Account.SPENT, Account.EXPENSE}:
            spent[posting.book_id if posting.account is Account.SPENT else ""] += posting.amount
    settled = hold.settled or Decimal(0)
    assert spent.pop("", Decimal(0)) == settled
    assert set(spent) <= set(hold.books)
    assert all(-spent[book_id] == settled for book_id in hold.books)
    entry_ids = [
        r.entry_id for r in world.resolutions if (r.tenant, r.operation_id) == hold[:2] and r.entry_id is not None
    ]
    first = [EntryKind.SETTLE, EntryKind.RELEASE]
    assert entry_ids == [e.entry_id for e in mine.values() if e.kind in {*first, EntryKind.CORRECT}]
    before = None
    for entry_id in entry_ids:
        if mine[entry_id].kind is EntryKind.CORRECT:
            assert mine[entry_id].corrects == before
        else:
            assert (before, mine[entry_id].corrects) == (None, None)
        before = entry_id
