"""Laws 4 and 5: the attempts of a hold, and the receipts that are bound to them."""

from ledger.store.laws.law import Law

ATTEMPTS = (
    Law(
        "4.2",
        "Of each attempt but the last it is recorded that nothing was sent; only after that is a dispatch without a lease.",
        """
        SELECT CASE
            WHEN h.state = 'DISPATCHING' AND h.lease_expires_at IS NULL AND h.failure IS NULL
                THEN format('operation %s of %s is DISPATCHING without a lease, and no failure of its attempt is recorded',
                    h.operation_id, h.tenant)
            WHEN h.failure IS NOT NULL AND (h.lease_expires_at IS NOT NULL OR h.nonce_hash IS NOT NULL OR h.retry_until IS NULL)
                THEN format('operation %s of %s has an attempt that failed before it was sent, and may be sent all the same',
                    h.operation_id, h.tenant)
            WHEN h.attempt > h.generation
                THEN format('operation %s of %s is at attempt %s of generation %s',
                    h.operation_id, h.tenant, h.attempt, h.generation)
            WHEN coalesce(o.ended, '{}') <> coalesce((
                    SELECT array_agg(number ORDER BY number)
                    FROM generate_series(1, CASE WHEN h.failure IS NULL THEN h.attempt - 1 ELSE h.attempt END) AS number), '{}')
                THEN format('operation %s of %s is at attempt %s, of those before it %s are recorded to have failed before they'
                    ' were sent', h.operation_id, h.tenant, h.attempt, coalesce(o.ended, '{}'))
            END
        FROM hold h LEFT JOIN (
            SELECT tenant, operation_id, array_agg(attempt ORDER BY attempt) AS ended
            FROM observation WHERE source = 'RecordFailedBeforeDispatch' GROUP BY 1, 2
        ) o ON (o.tenant, o.operation_id) = (h.tenant, h.operation_id)
        """,
    ),
    Law(
        "4.3",
        "Of each hold whose outcome is unknown it is recorded who said so, and when.",
        """
        SELECT CASE WHEN NOT EXISTS (
                SELECT FROM observation o WHERE (o.tenant, o.operation_id, o.axis, o.value)
                    = (h.tenant, h.operation_id, 'EXECUTION', 'UNKNOWN'))
            THEN format('operation %s of %s is OUTCOME_UNKNOWN, and nobody said so', h.operation_id, h.tenant) END
        FROM hold h WHERE h.state = 'OUTCOME_UNKNOWN'
        """,
    ),
    Law(
        "5.9",
        "A receipt of a provider that was recorded is bound to one attempt of one operation, which the hold has.",
        """
        SELECT CASE
            WHEN count(*) > 1
                THEN format('receipt %s of provider %s of %s is bound %s times', o.provider_receipt, o.provider, o.tenant, count(*))
            WHEN max(o.attempt) > max(h.attempt) AND max(h.state) <> 'RELEASED'
                THEN format('receipt %s of provider %s of %s is bound to attempt %s of operation %s, which has %s',
                    o.provider_receipt, o.provider, o.tenant, max(o.attempt), max(o.operation_id), max(h.attempt))
            WHEN bool_and(h.provider_receipt IS NULL)
                THEN format('receipt %s of provider %s of %s is bound to operation %s, which has none',
                    o.provider_receipt, o.provider, o.tenant, max(o.operation_id))
            END
        FROM observation o JOIN hold h ON (h.tenant, h.operation_id) = (o.tenant, o.operation_id)
        WHERE o.provider_receipt IS NOT NULL GROUP BY o.tenant, o.provider, o.provider_receipt
        """,
    ),
)
