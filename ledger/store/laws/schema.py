"""Law 1, in the database: what guards the rows is there, and on."""

from sqlalchemy import CheckConstraint, PrimaryKeyConstraint

from ledger.store.laws.law import Law
from ledger.store.records import metadata

# The triggers of the migrations, by table. A test holds this against a migrated database.
TRIGGERS = {
    "posting": ("entry_balances", "posting_append_only"),
    "entry": ("entry_append_only",),
    "evidence": ("evidence_append_only",),
    "observation": ("observation_append_only",),
    "parked": ("parked_as_it_was",),
    "receipt": ("receipt_append_only",),
    "refused": ("refused_append_only",),
    "resolution": ("resolution_append_only",),
    "incident": ("incident_append_only",),
    "budget_grant": ("budget_grant_append_only",),
    "evidence_policy": ("evidence_policy_append_only",),
    "price_card": ("price_card_append_only",),
    "hold": (
        "hold_attempts",
        "hold_birth",
        "hold_execution",
        "hold_identity",
        "hold_never_removed",
        "hold_permission",
        "hold_release",
        "hold_resolution",
        "hold_transition",
        "hold_version",
    ),
    "book": ("book_crossed", "book_identity", "book_never_removed", "book_period", "book_version"),
    "budget": ("budget_closed", "budget_identity", "budget_never_removed", "budget_version"),
    "outbox": ("outbox_append_only", "outbox_isolation", "outbox_place"),
}
_triggers = [(table, name) for table, names in TRIGGERS.items() for name in names]
_constraints = [
    (table.name, str(constraint.name))
    for table in metadata.sorted_tables
    for constraint in table.constraints
    if isinstance(constraint, (CheckConstraint, PrimaryKeyConstraint))
]
_unique = [(table.name, str(index.name)) for table in metadata.sorted_tables for index in table.indexes if index.unique]

SCHEMA = Law(
    "1.4",
    "Every trigger and constraint that guards the rows is there, valid and on.",
    """
    SELECT CASE
        WHEN t.tgname IS NULL THEN format('trigger %s on %s is not there', name, "table")
        WHEN t.tgenabled NOT IN ('O', 'A') THEN format('trigger %s on %s is off', name, "table")
        WHEN f.prosrc NOT LIKE '%RAISE EXCEPTION%' THEN format('trigger %s on %s refuses nothing', name, "table")
        END
    FROM unnest(CAST(:trigger_tables AS text[]), CAST(:trigger_names AS text[])) AS wanted ("table", name)
    LEFT JOIN pg_trigger t ON t.tgrelid = to_regclass("table") AND t.tgname = name
    LEFT JOIN pg_proc f ON f.oid = t.tgfoid
    UNION ALL
    SELECT CASE
        WHEN c.conname IS NULL THEN format('constraint %s on %s is not there', name, "table")
        WHEN NOT c.convalidated THEN format('constraint %s on %s was never held against the rows', name, "table")
        END
    FROM unnest(CAST(:constraint_tables AS text[]), CAST(:constraint_names AS text[])) AS wanted ("table", name)
    LEFT JOIN pg_constraint c ON c.conrelid = to_regclass("table") AND c.conname = name
    UNION ALL
    SELECT CASE
        WHEN i.indexrelid IS NULL THEN format('index %s on %s is not there', name, "table")
        WHEN NOT (i.indisunique AND i.indisvalid AND i.indisready)
            THEN format('index %s on %s is not unique or not valid', name, "table")
        END
    FROM unnest(CAST(:unique_tables AS text[]), CAST(:unique_names AS text[])) AS wanted ("table", name)
    LEFT JOIN pg_index i ON i.indrelid = to_regclass("table") AND i.indexrelid = to_regclass(name)
    """,
    {
        "trigger_tables": [table for table, _ in _triggers],
        "trigger_names": [name for _, name in _triggers],
        "constraint_tables": [table for table, _ in _constraints],
        "constraint_names": [name for _, name in _constraints],
        "unique_tables": [table for table, _ in _unique],
        "unique_names": [name for _, name in _unique],
    },
)
