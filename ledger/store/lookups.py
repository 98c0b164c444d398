"""The look-ups of the hot path: which rows of which tables, by which keys. What is asked of whom is said by store.load."""

from sqlalchemy import Integer, LargeBinary, Text, Uuid, case, cast, literal_column, select

from ledger.domain.attempt_commands import RecordFailedBeforeDispatch
from ledger.domain.model import Classification
from ledger.domain.parking import MOST_PARKED
from ledger.domain.signs import ORPHAN
from ledger.domain.states import ResolutionKind
from ledger.store import records as r
from ledger.store import tables as t
from ledger.store.arrays import Integers
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

_hold, _book, _card, _budget = t.hold.c, t.book.c, r.price_card.c, t.budget.c
_seen, _policy = r.evidence.c, r.evidence_policy.c
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
RECEIPTS = look_up(columns_of(r.receipt).limit(ONE), list(r.receipt.primary_key.columns))
EXCLUSIVE = look_up(
    select(_hold.tenant, _hold.exclusive_key, _hold.operation_id).where(t.owns_exclusive_key).limit(ONE),
    (_hold.tenant, _hold.exclusive_key),
)
GRANTS = look_up(columns_of(r.budget_grant).limit(ONE), list(r.budget_grant.primary_key.columns))
CLOSED_BUDGETS = look_up(select(*_budget_key).where(_budget.closed_at.is_not(None)).limit(ONE), _budget_key)
CARDS = look_up(_a_card, (_card.tenant, _card.card_id, _card.version))
NEWEST_CARDS = look_up(_a_card.order_by(_card.version.desc()), (_card.tenant, _card.card_id))
NEWEST_POLICIES = look_up(
    select(_policy.tenant, _policy.provider, _policy.version, cast(_policy.document, Text))
    .order_by(_policy.version.desc())
    .limit(ONE),
    (_policy.tenant, _policy.provider),
)
_said = r.observation.c
# Written out, as ONE is.
_quoted_provider = literal_column("(hold.quote ->> 'provider')", Text()).label("provider")
_receipt_brought = (_hold.tenant, _quoted_provider, _hold.provider_receipt)
# A provider's receipt is bound by the evidence that brought it, or by who recorded it.
BOUND = look_up_each(
    (
        select(*_receipt_brought, _hold.operation_id).limit(ONE),
        select(_said.tenant, _said.provider, _said.provider_receipt, _said.operation_id).limit(ONE),
    ),
    (_receipt_brought, (_said.tenant, _said.provider, _said.provider_receipt)),
)
# Several rows for each key, as below.
ENDED = look_up(
    select(_said.tenant, _said.operation_id, literal_column("detail ->> 'nonce'", Text()).label("nonce"))
    .where(_said.source == literal_column(f"'{RecordFailedBeforeDispatch.NAME}'", Text()))
    .order_by(_said.observation_id),
    (_said.tenant, _said.operation_id),
)
# Several rows for each key: their order keeps the planner from making it a join.
RESOLUTIONS = look_up(
    columns_of(r.resolution).order_by(r.resolution.c.revision), (r.resolution.c.tenant, r.resolution.c.operation_id)
)
_parked, _incident = r.parked.c, r.incident.c
# So many are looked at; what waits for one operation is bounded, but not how often that waits in vain. What counts of the cases
# is whether one is about usage, and the first of them: they come before the rest. A report finds its own by its id.
MOST_SIGNS = literal_column("100", Integer())
_kind_of_case = literal_column("detail ->> 'kind'", Text())
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
    _kind_of_case.label("kind"),
    _incident.opened_at,
).where(_incident.kind == literal_column(f"'{ORPHAN}'", Text()))
_usage_first = (_kind_of_case != literal_column(f"'{ResolutionKind.USAGE}'", Text()), _incident.opened_at)
# As of one instant: what waits no longer is a case by then, or its hold is there.
SIGNS = look_up_each(
    (_waits.limit(MOST_SIGNS), _waited.order_by(*_usage_first).limit(MOST_SIGNS)),
    ((_parked.tenant, _parked.operation_id), (_incident.tenant, _incident.operation_id)),
)
ORPHANS = look_up(_waited.limit(ONE), (_incident.tenant, _incident.incident_id))
# Locked by the order of their keys: two servers that file the same wait here, and do not meet crosswise when they remove it.
PARKED = look_up(columns_of(r.parked).with_for_update(), list(r.parked.primary_key.columns))
WAITING = count_up_to(_parked.tenant, MOST_PARKED)
# What resolved the hold before what did not, and the latest of it.
FACTS = look_up(
    select(_seen.tenant, _seen.operation_id, _seen.fact, _seen.source, _resolved_at)
    .order_by(_resolves.desc(), _seen.evidence_id.desc())
    .limit(ONE),
    (_seen.tenant, _seen.operation_id, _seen.fact),
)
CLOCK = statement("SELECT clock_timestamp(), pg_current_xact_id()::text")
