"""The tables beside the books: answers to keys, what was observed, resolutions and cases, documents in versions, and the outbox.

By the same rules as those of store.tables, which this module knows: `metadata` is of all tables.
"""

from sqlalchemy import BigInteger, CheckConstraint, Column, Index, Integer, Table, Uuid, text
from sqlalchemy.dialects.postgresql import JSON

from ledger.store import tables
from ledger.store.columns import document as _json
from ledger.store.columns import identity as _uuid
from ledger.store.columns import instant as _time
from ledger.store.columns import key as _key
from ledger.store.columns import money as _money
from ledger.store.columns import octets as _bytes
from ledger.store.columns import whole as _integer
from ledger.store.columns import word as _text
from ledger.store.columns import words as _texts

metadata = tables.metadata


receipt = Table(
    "receipt",
    metadata,
    _key("tenant"),
    _key("actor"),
    _key("command"),
    _key("key"),
    _bytes("fingerprint"),
    _integer("fingerprint_version"),
    _text("resource"),
    _text("outcome"),
    _json("refusal", null=True),
    _text("state", null=True),
    _time("recorded_at"),
)

# What was said about one operation, budget, card or policy is found by its name. That comes first: with the tenant in front the
# planner may take this index for the look-up of a key, and read all receipts of the tenant.
Index("receipt_resource", receipt.c.resource, receipt.c.tenant)

refused = Table(
    "refused",
    metadata,
    _key("tenant"),
    Column("refused_id", Uuid, primary_key=True),
    _text("actor"),
    _text("command"),
    _text("key"),
    _bytes("fingerprint"),
    _text("resource"),
    _text("reason"),
    _text("state", null=True),
    _time("recorded_at"),
)
# In the order of the log: a caller may be refused any number of times.
Index("refused_resource", refused.c.resource, refused.c.tenant, refused.c.recorded_at)

evidence = Table(
    "evidence",
    metadata,
    _key("tenant"),
    _key("operation_id"),
    Column("evidence_id", Uuid, primary_key=True),
    _integer("attempt"),
    _text("kind"),
    _text("classification"),
    _texts("reasons"),
    _text("source"),
    _text("actor"),
    _text("adapter"),
    _text("adapter_revision"),
    _text("policy"),
    _time("observed_at", null=True),
    _time("received_at"),
    _text("provider_receipt", null=True),
    _bytes("digest", null=True),
    _bytes("fact"),
    _bytes("payload_digest", null=True),
    _json("body", null=True),
    CheckConstraint(
        "classification IN ('AUTHORITATIVE', 'CORROBORATING', 'ESTIMATE', 'REJECTED', 'CONFLICTING', 'PARKED')",
        name="classification_is_known",
    ),
    CheckConstraint("body IS NOT NULL OR classification <> 'AUTHORITATIVE'", name="what_resolves_is_kept_whole"),
)

parked = Table(
    "parked",
    metadata,
    _key("tenant"),
    _key("operation_id"),
    Column("evidence_id", Uuid, primary_key=True),
    _bytes("identity"),
    _text("kind"),
    _text("source"),
    _text("actor"),
    _text("role"),
    _integer("attempt"),
    _json("report"),
    _time("parked_at"),
    CheckConstraint("role IN ('gateway', 'finance')", name="role_may_report"),
)
# Two servers that park one report at the same moment park it once.
Index("parked_once", parked.c.tenant, parked.c.operation_id, parked.c.identity, unique=True)

observation = Table(
    "observation",
    metadata,
    _key("tenant"),
    _key("operation_id"),
    Column("observation_id", Uuid, primary_key=True),
    _text("axis"),
    _text("value"),
    _integer("attempt"),
    _text("source"),
    _text("actor"),
    _text("adapter"),
    _text("adapter_revision"),
    _time("observed_at", null=True),
    _time("received_at"),
    _text("provider", null=True),
    _text("provider_receipt", null=True),
    _json("detail"),
    CheckConstraint(
        "axis = 'DELIVERY' AND value IN ('NOTHING', 'PARTIAL', 'COMPLETE', 'UNKNOWN')"
        " OR axis = 'EXECUTION' AND value IN ('NOT_SENT', 'REJECTED', 'ACCEPTED', 'EXECUTED', 'UNKNOWN')",
        name="value_is_of_its_axis",
    ),
    CheckConstraint("(provider IS NULL) = (provider_receipt IS NULL)", name="receipt_is_of_a_provider"),
)
# A receipt is bound once. Others who bind the same at the same time find out by it.
Index(
    "observation_one_per_provider_receipt",
    observation.c.tenant,
    observation.c.provider,
    observation.c.provider_receipt,
    unique=True,
    postgresql_where=text("provider_receipt IS NOT NULL"),
)

resolution = Table(
    "resolution",
    metadata,
    _key("tenant"),
    _key("operation_id"),
    Column("revision", Integer, primary_key=True, autoincrement=False),
    _text("kind"),
    _bytes("digest"),
    _bytes("supersedes", null=True),
    _money("amount"),
    _text("currency"),
    _money("cost_over_hold"),
    _json("lines"),
    _texts("passed_ceilings"),
    _uuid("evidence_id", null=True),
    _uuid("entry_id", null=True),
    _text("actor"),
    _text("reason", null=True),
    _time("recorded_at"),
    CheckConstraint("revision >= 1", name="revisions_start_at_one"),
    CheckConstraint("(revision = 1) = (supersedes IS NULL)", name="later_revision_names_what_it_replaces"),
)

incident = Table(
    "incident",
    metadata,
    _key("tenant"),
    Column("incident_id", Uuid, primary_key=True),
    _text("kind"),
    _text("operation_id"),
    _time("opened_at"),
    _json("detail"),
)
Index("incident_opened", incident.c.tenant, incident.c.opened_at, incident.c.incident_id)
Index("incident_operation", incident.c.tenant, incident.c.operation_id)

budget_grant = Table(
    "budget_grant",
    metadata,
    _key("tenant"),
    _key("budget_id"),
    _key("reference"),
    _money("amount"),
    _uuid("entry_id"),
    _text("actor"),
    _time("recorded_at"),
)

evidence_policy = Table(
    "evidence_policy",
    metadata,
    _key("tenant"),
    _key("provider"),
    Column("version", Integer, primary_key=True, autoincrement=False),
    _bytes("digest"),
    _json("document"),
    _time("created_at"),
    CheckConstraint("version >= 1", name="versions_start_at_one"),
)

price_card = Table(
    "price_card",
    metadata,
    _key("tenant"),
    _key("card_id"),
    Column("version", Integer, primary_key=True, autoincrement=False),
    _text("provider"),
    _text("model"),
    _bytes("digest"),
    _json("document"),
    _time("created_at"),
    CheckConstraint("version >= 1", name="versions_start_at_one"),
)

# One row per batch and tenant. Where it stands in the feed is said by the last four columns of its key: see ledger.store.feed.
outbox = Table(
    "outbox",
    metadata,
    _key("tenant"),
    Column("epoch", Integer, primary_key=True, autoincrement=False),
    Column("position", BigInteger, primary_key=True, autoincrement=False),
    Column("turn", BigInteger, primary_key=True, autoincrement=False),
    Column("xid", BigInteger, primary_key=True, autoincrement=False),
    Column("cluster", BigInteger, nullable=False),
    _time("recorded_at"),
    # Not taken apart when it is written, and out of line as it is: as compressed jsonb it costs five times as much.
    Column("events", JSON(none_as_null=True), nullable=False),
    CheckConstraint("position >= xid", name="position_is_not_before_its_transaction"),
    CheckConstraint("epoch >= 1", name="epochs_start_at_one"),
)
