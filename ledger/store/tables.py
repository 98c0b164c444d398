"""The tables of the books: budgets, books, holds, and the journal. What was said and answered beside them is in store.records.

The tables have the laws that one row can keep; laws over many rows or over time are triggers of the migrations.

Columns are named as the fields of ledger.domain.model. Every primary key starts with the tenant, and no table refers to
another by a foreign key: on the hot path those cost a quarter of the throughput, and the service's own check does their
work.

Keys sort by bytes (collation "C"): the same order everywhere, whatever the locale of the server, and cheap to compare.
"""

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Date,
    Index,
    Integer,
    MetaData,
    Table,
    Text,
    Uuid,
    literal_column,
    text,
)
from sqlalchemy.dialects.postgresql import TIMESTAMP

from ledger.store.columns import document as _json
from ledger.store.columns import identity as _uuid
from ledger.store.columns import instant as _time
from ledger.store.columns import key as _key
from ledger.store.columns import money as _money
from ledger.store.columns import numbers as _numbers
from ledger.store.columns import octets as _bytes
from ledger.store.columns import whole as _integer
from ledger.store.columns import word as _text
from ledger.store.columns import words as _texts

metadata = MetaData(naming_convention={"pk": "%(table_name)s_pkey", "ck": "%(table_name)s_%(constraint_name)s"})


budget = Table(
    "budget",
    metadata,
    _key("tenant"),
    _key("budget_id"),
    _texts("path"),
    _text("currency"),
    _text("display_name"),
    _money("limit_amount", null=True),
    _time("created_at"),
    _money("max_hold", null=True),
    Column("max_open_holds", Integer, nullable=True),
    _time("closed_at", null=True),
    Column("version", BigInteger, nullable=False),
    _money("credit_line"),
    _text("period"),
    _text("zone"),
    _time("anchor", null=True),
    Column("period_seconds", BigInteger, nullable=True),
    _text("rollover"),
    _money("rollover_cap", null=True),
    _numbers("thresholds"),
    _text("threshold_basis"),
    # Lists of ids travel as one text, joined by a control character.
    CheckConstraint("budget_id !~ '[[:cntrl:]]'", name="id_has_no_control_characters"),
    CheckConstraint("path[cardinality(path)] = budget_id", name="path_ends_at_the_budget"),
    CheckConstraint("cardinality(path) <= 8", name="path_has_at_most_eight_levels"),
    CheckConstraint("limit_amount >= 0", name="limit_is_not_negative"),
    CheckConstraint("max_hold >= 0 AND max_open_holds >= 0", name="caps_are_not_negative"),
    CheckConstraint(
        "credit_line >= 0 AND (credit_line = 0 OR limit_amount IS NOT NULL)", name="credit_line_is_below_a_limit"
    ),
    CheckConstraint("(rollover = 'CAP') = (rollover_cap IS NOT NULL)", name="rollover_has_a_cap_if_it_says_so"),
    CheckConstraint(
        "(period = 'FIXED') = (period_seconds IS NOT NULL) AND (period <> 'FIXED' OR period_seconds > 0 AND anchor IS NOT NULL)",
        name="fixed_period_has_anchor_and_length",
    ),
    CheckConstraint("(period IN ('DAY', 'WEEK', 'MONTH')) = (zone <> '')", name="calendar_period_has_a_zone"),
)

parent_id = literal_column("(path[cardinality(path) - 1])", Text(collation="C"))
# Of no use to who looks for a budget by its name: the planner took it for that too, and went through the tenant for each.
has_parent = text("cardinality(path) > 1")
Index("budget_parent", budget.c.tenant, parent_id, budget.c.budget_id, postgresql_where=has_parent)

BALANCES = ("authority", "available", "held", "unknown", "spent", "deficit", "expense", "payable")

book = Table(
    "book",
    metadata,
    _key("tenant"),
    _key("book_id"),
    _text("budget_id", null=True),
    _text("provider", null=True),
    _text("model", null=True),
    _text("currency"),
    _money("floor", null=True),
    Column("closed", Boolean, nullable=False),
    Column("version", BigInteger, nullable=False),
    Column("open_holds", BigInteger, nullable=False),
    *(_money(balance) for balance in BALANCES),
    _time("period_start", null=True),
    _time("period_end", null=True),
    _text("rollover"),
    _money("rollover_cap", null=True),
    _money("carried"),
    _money("carried_on"),
    _numbers("thresholds"),
    _text("threshold_basis"),
    _numbers("crossed"),
    CheckConstraint(
        "authority + deficit = available + held + unknown + spent", name="authority_and_deficit_equal_the_rest"
    ),
    CheckConstraint("expense = payable", name="expense_equals_payable"),
    CheckConstraint("available >= floor", name="available_is_not_below_floor"),
    CheckConstraint(
        "deficit = 0 OR (floor IS NOT NULL AND available = floor)", name="available_above_floor_means_deficit_zero"
    ),
    CheckConstraint(
        "held >= 0 AND unknown >= 0 AND spent >= 0 AND deficit >= 0", name="no_balance_but_available_is_negative"
    ),
    # A period may begin in debt: then what was carried into it is below zero.
    CheckConstraint("authority >= 0 OR carried < 0", name="authority_is_negative_only_by_what_was_carried"),
    CheckConstraint("closed OR carried_on = 0", name="only_a_period_that_is_over_is_carried_on"),
    # A stripe may: it is a summand, and a correction lowers whichever stripe its batch has.
    CheckConstraint("budget_id IS NULL OR expense = 0", name="expense_is_the_financial_books"),
    CheckConstraint("(budget_id IS NULL) = (provider IS NOT NULL)", name="is_of_a_budget_or_of_a_provider"),
    CheckConstraint("version >= 0", name="version_counts_postings"),
    CheckConstraint(
        "open_holds >= 0 AND (open_holds > 0 OR held = 0 AND unknown = 0)", name="money_is_held_by_open_holds"
    ),
    CheckConstraint("(budget_id IS NULL) = (period_start IS NULL)", name="period_is_of_a_budget"),
    CheckConstraint("period_end > period_start", name="period_ends_after_its_start"),
    CheckConstraint("NOT closed OR period_end IS NOT NULL", name="closed_means_that_the_period_ended"),
    # Hot rows: room for several versions of each on its page, so that updates stay HOT.
    postgresql_with={"fillfactor": 30},
)

# Which book of a budget is open, and that there is one at most. Written when a period is opened or closed, and at no posting.
is_newest = text("budget_id IS NOT NULL AND NOT closed")
Index("book_one_open_per_budget", book.c.tenant, book.c.budget_id, unique=True, postgresql_where=is_newest)

hold = Table(
    "hold",
    metadata,
    _key("tenant"),
    _key("operation_id"),
    _text("state"),
    _text("currency"),
    _money("amount"),
    _json("quote"),
    _texts("budget_ids"),
    _texts("books"),
    _json("labels"),
    _text("actor"),
    _bytes("fingerprint"),
    _integer("fingerprint_version"),
    _time("created_at"),
    _time("expire_at"),
    _time("updated_at"),
    _text("exclusive_key", null=True),
    _text("request_group", null=True),
    _integer("attempt"),
    _integer("generation"),
    _text("executor", null=True),
    _text("dispatcher", null=True),
    _bytes("nonce_hash", null=True),
    _time("dispatched_at", null=True),
    _time("lease_expires_at", null=True),
    _json("failure", null=True),
    _time("retry_until", null=True),
    Column("inferred", Boolean, nullable=False),
    Column("execution_seen", Boolean, nullable=False),
    Column("usage_seen", Boolean, nullable=False),
    _text("provider_receipt", null=True),
    _integer("revision"),
    _text("resolution_kind", null=True),
    _bytes("resolution_digest", null=True),
    _money("settled", null=True),
    _time("resolved_at", null=True),
    Column("version", BigInteger, nullable=False),
    CheckConstraint("amount >= 0", name="amount_is_not_negative"),
    CheckConstraint(
        "state <> 'RELEASED' OR attempt = 0 OR (inferred AND revision > 1)", name="once_dispatched_is_never_released"
    ),
    CheckConstraint("state <> 'RELEASED' OR settled = 0 OR revision > 1", name="released_costs_only_by_correction"),
    CheckConstraint("state IN ('RESERVED', 'RELEASED') OR attempt > 0", name="beyond_reserved_has_an_attempt"),
    CheckConstraint(
        "state <> 'DISPATCHING' OR lease_expires_at IS NOT NULL OR retry_until IS NOT NULL",
        name="dispatching_has_a_lease_or_a_failure",
    ),
    CheckConstraint(
        "(failure IS NULL) = (retry_until IS NULL)"
        " AND (failure IS NULL OR (nonce_hash IS NULL AND lease_expires_at IS NULL))",
        name="failure_ends_the_permission",
    ),
    postgresql_with={"fillfactor": 45},
)

# When the sweep looks at a hold again. After an attempt that failed before anything was sent, that is when its lease would end.
# Written as PostgreSQL prints it, line breaks included: that is how the migrations are compared with it.
_DUE_AT = """
CASE
    WHEN state = 'RESERVED'::text THEN expire_at
    ELSE COALESCE(lease_expires_at, retry_until)
END"""
due_at = literal_column(f"({_DUE_AT})", TIMESTAMP(timezone=True))
may_be_due = text("state IN ('RESERVED', 'DISPATCHING')")
Index("hold_due", due_at, hold.c.tenant, hold.c.operation_id, postgresql_where=may_be_due)
owns_exclusive_key = text("exclusive_key IS NOT NULL AND state IN ('RESERVED', 'DISPATCHING', 'OUTCOME_UNKNOWN')")
Index(
    "hold_one_open_per_exclusive_key",
    hold.c.tenant,
    hold.c.exclusive_key,
    unique=True,
    postgresql_where=owns_exclusive_key,
)
Index(
    "hold_request_group",
    hold.c.tenant,
    hold.c.request_group,
    hold.c.operation_id,
    postgresql_where=text("request_group IS NOT NULL"),
)
# Which hold has a receipt of a provider. Two that bring the same at the same time find out by it: one of them is decided again.
quoted_provider = literal_column("(quote ->> 'provider'::text)", Text())
Index(
    "hold_one_per_provider_receipt",
    hold.c.tenant,
    quoted_provider,
    hold.c.provider_receipt,
    unique=True,
    postgresql_where=text("provider_receipt IS NOT NULL"),
)
is_unknown = text("state = 'OUTCOME_UNKNOWN'")
Index("hold_unknown", hold.c.tenant, hold.c.operation_id, postgresql_where=is_unknown)
# Few are, so the list of them would read all others. Most are settled: the list of those goes through the primary key.
is_released = text("state = 'RELEASED'")
Index("hold_released", hold.c.tenant, hold.c.operation_id, postgresql_where=is_released)

entry = Table(
    "entry",
    metadata,
    _key("tenant"),
    Column("entry_id", Uuid, primary_key=True),
    _text("kind"),
    _text("currency"),
    _time("recorded_at"),
    _time("effective_at"),
    Column("accounting_date", Date, nullable=False),
    _text("operation_id", null=True),
    _text("actor"),
    _uuid("corrects", null=True),
    CheckConstraint("kind = 'CORRECT' OR corrects IS NULL", name="only_a_correction_is_linked"),
)
Index("entry_operation", entry.c.tenant, entry.c.operation_id)

posting = Table(
    "posting",
    metadata,
    _key("tenant"),
    _key("book_id"),
    Column("version", BigInteger, primary_key=True, autoincrement=False),
    _uuid("entry_id"),
    _text("account"),
    _money("amount"),
    CheckConstraint("amount <> 0", name="amount_is_not_zero"),
)
Index("posting_entry", posting.c.tenant, posting.c.entry_id)
