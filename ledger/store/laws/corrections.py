"""Law 5: later revisions and what they posted."""

from ledger.store.laws.law import Law

CORRECTIONS = (
    Law(
        "5.8",
        "A correction posts the difference, and is linked to the last entry that a revision before it posted.",
        """
        WITH chain AS (
            SELECT r.tenant, r.operation_id, r.revision, r.entry_id, r.amount - lag(r.amount) OVER earlier AS difference,
                (array_agg(r.entry_id) FILTER (WHERE r.entry_id IS NOT NULL) OVER before) AS posted
            FROM resolution r
            WINDOW earlier AS (PARTITION BY r.tenant, r.operation_id ORDER BY r.revision),
                before AS (PARTITION BY r.tenant, r.operation_id ORDER BY r.revision
                    ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
        )
        SELECT CASE
            WHEN r.revision > 1 AND (r.entry_id IS NULL) <> (r.difference = 0)
                THEN format('revision %s of operation %s of %s changes the amount by %s, %s an entry', r.revision, r.operation_id,
                    r.tenant, trim_scale(r.difference), CASE WHEN r.entry_id IS NULL THEN 'without' ELSE 'with' END)
            WHEN (e.kind = 'CORRECT') <> (r.revision > 1)
                THEN format('revision %s of operation %s of %s posted an entry of kind %s',
                    r.revision, r.operation_id, r.tenant, e.kind)
            WHEN e.corrects IS DISTINCT FROM CASE WHEN r.revision > 1 THEN r.posted[cardinality(r.posted)] END
                AND e.entry_id IS NOT NULL
                THEN format('revision %s of operation %s of %s is linked to %s, not to the entry before it',
                    r.revision, r.operation_id, r.tenant, coalesce(e.corrects::text, 'none'))
            WHEN r.difference <> coalesce(m.expense, 0)
                THEN format('revision %s of operation %s of %s changes the amount by %s, its entry posted %s', r.revision,
                    r.operation_id, r.tenant, trim_scale(r.difference), trim_scale(coalesce(m.expense, 0)))
            END
        FROM chain r
        LEFT JOIN entry e ON (e.tenant, e.entry_id) = (r.tenant, r.entry_id)
        LEFT JOIN (
            SELECT tenant, entry_id, sum(amount) AS expense FROM posting WHERE account = 'EXPENSE' GROUP BY 1, 2
        ) m ON (m.tenant, m.entry_id) = (r.tenant, r.entry_id)
        UNION ALL
        SELECT CASE WHEN r.entry_id IS NULL
            THEN format('entry %s of %s is a correction without a revision', e.entry_id, e.tenant) END
        FROM entry e LEFT JOIN resolution r ON (r.tenant, r.operation_id, r.entry_id) = (e.tenant, e.operation_id, e.entry_id)
        WHERE e.kind = 'CORRECT' OR e.corrects IS NOT NULL
        """,
    ),
)
