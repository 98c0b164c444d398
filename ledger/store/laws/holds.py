"""Laws 3 to 5: holds against the books, against their past, and against their resolutions."""

from ledger.store.laws.law import Law


def _open_holds(law: str, account: str, states: str, title: str) -> Law:
    balance = account.lower()
    return Law(
        law,
        title,
        f"""
        SELECT CASE
            WHEN b.book_id IS NULL THEN format('book %s of %s is on the path of a hold, and is not there', book_id, tenant)
            WHEN b.{balance} <> coalesce(h.amount, 0) THEN format('book %s of %s has {account} %s, its holds come to %s',
                book_id, tenant, trim_scale(b.{balance}), trim_scale(coalesce(h.amount, 0)))
            END
        FROM (SELECT tenant, book_id, {balance} FROM book) b FULL JOIN (
            SELECT tenant, level AS book_id, sum(amount) AS amount
            FROM hold, unnest(books) AS level WHERE state IN ({states}) GROUP BY 1, 2
        ) h USING (tenant, book_id)
        """,  # noqa: S608 - put together from constants
    )


HOLDS = (
    _open_holds(
        "3.1",
        "HELD",
        "'RESERVED', 'DISPATCHING'",
        "HELD of a book is the RESERVED and DISPATCHING holds that have it on their path.",
    ),
    _open_holds(
        "3.2",
        "UNKNOWN",
        "'OUTCOME_UNKNOWN'",
        "UNKNOWN of a book is the OUTCOME_UNKNOWN holds that have it on their path.",
    ),
    Law(
        "3.3",
        "What the entries of a hold moved on each level of its path is what its state and its settlement say.",
        """
        WITH stated AS (
            SELECT tenant, operation_id, level AS book_id, coalesce(settled, 0) AS spent,
                CASE WHEN state IN ('RESERVED', 'DISPATCHING') THEN amount ELSE 0 END AS held,
                CASE WHEN state = 'OUTCOME_UNKNOWN' THEN amount ELSE 0 END AS unknown
            FROM hold, unnest(books) AS level
        ), moved AS (
            SELECT e.tenant, e.operation_id, p.book_id,
                -coalesce(sum(p.amount) FILTER (WHERE p.account = 'HELD'), 0) AS held,
                -coalesce(sum(p.amount) FILTER (WHERE p.account = 'UNKNOWN'), 0) AS unknown,
                -coalesce(sum(p.amount) FILTER (WHERE p.account = 'SPENT'), 0) AS spent
            FROM entry e JOIN posting p USING (tenant, entry_id)
            WHERE e.operation_id IS NOT NULL AND p.account IN ('HELD', 'UNKNOWN', 'SPENT') GROUP BY 1, 2, 3
        )
        SELECT CASE
            WHEN s.held IS NULL
                THEN format('operation %s of %s moved book %s, which is not on its path', operation_id, tenant, book_id)
            WHEN (s.held, s.unknown, s.spent) <> (coalesce(m.held, 0), coalesce(m.unknown, 0), coalesce(m.spent, 0)) THEN
                format('operation %s of %s moved HELD, UNKNOWN, SPENT of book %s by %s, %s, %s; it stands at %s, %s, %s',
                    operation_id, tenant, book_id, trim_scale(coalesce(m.held, 0)), trim_scale(coalesce(m.unknown, 0)),
                    trim_scale(coalesce(m.spent, 0)), trim_scale(s.held), trim_scale(s.unknown), trim_scale(s.spent))
            END
        FROM stated s FULL JOIN moved m USING (tenant, operation_id, book_id)
        """,
    ),
    Law(
        "3.4",
        "A hold has the amount and currency of its quote, and so have the books of its path, each once.",
        """
        SELECT CASE
            WHEN (quote->>'amount', quote->>'currency') IS DISTINCT FROM (trim_scale(amount)::text, currency)
                THEN format('the hold of operation %s of %s is %s %s, its quote %s %s', operation_id, tenant, trim_scale(amount),
                    currency, quote->>'amount', quote->>'currency')
            WHEN levels.currencies <> ARRAY[currency]
                THEN format('the hold of operation %s of %s is in %s, its books in %s',
                    operation_id, tenant, currency, levels.currencies)
            WHEN coalesce(levels.number, 0) <> cardinality(books)
                THEN format('the path of operation %s of %s has %s books, of which %s are there',
                    operation_id, tenant, cardinality(books), coalesce(levels.number, 0))
            END
        FROM hold LEFT JOIN (
            SELECT h.tenant, h.operation_id, array_agg(DISTINCT b.currency) AS currencies, count(DISTINCT b.book_id) AS number
            FROM hold h CROSS JOIN unnest(h.books) AS level JOIN book b ON (b.tenant, b.book_id) = (h.tenant, level)
            GROUP BY h.tenant, h.operation_id
        ) levels USING (tenant, operation_id)
        """,
    ),
    Law(
        "3.5",
        "The open holds of a book are counted: those that have it on their path and are not terminal.",
        """
        SELECT CASE WHEN b.open_holds <> coalesce(h.number, 0) THEN format('book %s of %s counts %s open holds, and has %s',
            book_id, tenant, b.open_holds, coalesce(h.number, 0)) END
        FROM book b LEFT JOIN (
            SELECT tenant, level AS book_id, count(*) AS number FROM hold, unnest(books) AS level
            WHERE state IN ('RESERVED', 'DISPATCHING', 'OUTCOME_UNKNOWN') GROUP BY 1, 2
        ) h USING (tenant, book_id)
        """,
    ),
    Law(
        "4.1",
        "A hold that was ever dispatched is not RELEASED, unless a correction found that out; one beyond RESERVED has an attempt.",
        """
        SELECT CASE
            WHEN state = 'RELEASED' AND attempt > 0 AND NOT (inferred AND revision > 1)
                THEN format('operation %s of %s was dispatched, and is RELEASED', operation_id, tenant)
            WHEN state = 'RELEASED' AND settled <> 0 AND revision < 2
                THEN format('operation %s of %s is RELEASED at a cost that no correction brought', operation_id, tenant)
            WHEN state = 'RELEASED' AND EXISTS (SELECT FROM entry e WHERE e.tenant = h.tenant AND e.operation_id = h.operation_id
                AND e.kind = 'OUTCOME_UNKNOWN')
                THEN format('operation %s of %s was unknown, and is RELEASED', operation_id, tenant)
            WHEN state = 'RESERVED' AND attempt > 0
                THEN format('operation %s of %s was dispatched, and is RESERVED', operation_id, tenant)
            WHEN state IN ('DISPATCHING', 'OUTCOME_UNKNOWN', 'SETTLED') AND attempt = 0
                THEN format('operation %s of %s is %s without an attempt', operation_id, tenant, state)
            WHEN state NOT IN ('RESERVED', 'DISPATCHING', 'OUTCOME_UNKNOWN', 'SETTLED', 'RELEASED')
                THEN format('operation %s of %s is %s', operation_id, tenant, state)
            END
        FROM hold h
        """,
    ),
    Law(
        "5.1",
        "A terminal hold has its resolution in force, with the same kind, digest, amount and currency; an open one has none.",
        """
        WITH latest AS (
            SELECT DISTINCT ON (tenant, operation_id) * FROM resolution ORDER BY tenant, operation_id, revision DESC
        )
        SELECT CASE
            WHEN h.state IS NULL THEN format('a resolution of operation %s of %s has no hold', operation_id, tenant)
            WHEN (h.state IN ('SETTLED', 'RELEASED')) <> (r.revision IS NOT NULL)
                THEN format('operation %s of %s is %s, with %s', operation_id, tenant, h.state,
                    coalesce('resolution ' || r.revision, 'no resolution'))
            WHEN r.revision IS NULL AND (h.revision <> 0 OR h.resolution_kind IS NOT NULL OR h.resolution_digest IS NOT NULL
                OR h.settled IS NOT NULL)
                THEN format('operation %s of %s is %s, and says that it is resolved', operation_id, tenant, h.state)
            WHEN (h.revision, h.resolution_kind, h.resolution_digest, h.settled, h.currency)
                IS DISTINCT FROM (r.revision, r.kind, r.digest, r.amount, r.currency) AND r.revision IS NOT NULL
                THEN format('operation %s of %s stands at revision %s, %s %s, its resolution at %s, %s %s%s', operation_id, tenant,
                    h.revision, h.resolution_kind, trim_scale(h.settled), r.revision, r.kind, trim_scale(r.amount),
                    CASE WHEN h.resolution_digest IS DISTINCT FROM r.digest THEN '; the digests differ' ELSE '' END)
            WHEN (h.state = 'RELEASED' AND r.revision = 1) <> (r.kind = 'NEVER_DISPATCHED')
                OR r.kind NOT IN ('NEVER_DISPATCHED', 'USAGE', 'NO_COST') OR (r.kind <> 'USAGE' AND r.amount <> 0)
                THEN format('operation %s of %s is %s on %s of %s', operation_id, tenant, h.state, r.kind, trim_scale(r.amount))
            END
        FROM hold h FULL JOIN latest r USING (tenant, operation_id)
        """,
    ),
    Law(
        "5.2",
        "The revisions of a resolution are a chain: 1, 2, …, each naming the digest that it replaces, with the overrun it has.",
        """
        SELECT CASE
            WHEN number <> revision
                THEN format('revision %s of operation %s of %s is the %s. in its chain', revision, operation_id, tenant, number)
            WHEN supersedes IS DISTINCT FROM before
                THEN format('revision %s of operation %s of %s does not name the digest before it', revision, operation_id, tenant)
            WHEN cost_over_hold <> greatest(amount - held, 0)
                THEN format('revision %s of operation %s of %s has %s over the hold, not %s', revision, operation_id, tenant,
                    trim_scale(cost_over_hold), trim_scale(greatest(amount - held, 0)))
            END
        FROM (
            SELECT r.*, h.amount AS held, row_number() OVER chain AS number, lag(r.digest) OVER chain AS before
            FROM resolution r LEFT JOIN hold h USING (tenant, operation_id)
            WINDOW chain AS (PARTITION BY r.tenant, r.operation_id ORDER BY r.revision)
        ) revisions
        """,
    ),
    Law(
        "5.3",
        "A resolution rests on authoritative evidence with its digest, which nothing rules out, and on the entry that it posted.",
        """
        SELECT CASE
            WHEN (r.kind = 'NEVER_DISPATCHED') <> (r.evidence_id IS NULL)
                THEN format('revision %s of operation %s of %s is %s %s evidence', r.revision, r.operation_id, r.tenant, r.kind,
                    CASE WHEN r.evidence_id IS NULL THEN 'without' ELSE 'with' END)
            WHEN r.evidence_id IS NOT NULL AND (v.classification, v.kind, v.digest)
                    IS DISTINCT FROM ('AUTHORITATIVE'::text, r.kind, r.digest)
                THEN format('revision %s of operation %s of %s rests on evidence that is %s', r.revision, r.operation_id, r.tenant,
                    coalesce(v.classification || ' ' || v.kind, 'not there'))
            WHEN r.revision = h.revision AND h.execution_seen AND v.source IN ('NEVER_SENT', 'GATEWAY_CACHE_HIT')
                THEN format('operation %s of %s ended by %s, against usage of its call', r.operation_id, r.tenant, v.source)
            WHEN r.kind = 'USAGE' AND NOT (h.execution_seen AND h.usage_seen)
                THEN format('operation %s of %s is settled by usage, and says that none was seen', r.operation_id, r.tenant)
            WHEN r.revision = h.revision AND h.provider_receipt IS NULL AND v.provider_receipt IS NOT NULL AND NOT EXISTS (
                    SELECT FROM incident i WHERE (i.tenant, i.operation_id, i.kind, i.detail ->> 'provider_receipt')
                        = (h.tenant, h.operation_id, 'RECEIPT_CONFLICT', v.provider_receipt))
                THEN format('operation %s of %s has not the receipt %s of its evidence, and nobody said that another has it',
                    r.operation_id, r.tenant, v.provider_receipt)
            WHEN r.revision = h.revision AND h.provider_receipt <> coalesce(v.provider_receipt, '') AND NOT EXISTS (
                    SELECT FROM evidence c WHERE (c.tenant, c.operation_id, c.provider_receipt)
                        = (h.tenant, h.operation_id, h.provider_receipt))
                AND NOT EXISTS (
                    SELECT FROM observation o WHERE (o.tenant, o.operation_id, o.provider_receipt)
                        = (h.tenant, h.operation_id, h.provider_receipt))
                THEN format('operation %s of %s has a provider receipt that nobody brought', r.operation_id, r.tenant)
            WHEN r.entry_id IS NULL AND r.revision = 1 AND (h.amount <> 0 OR r.amount <> 0)
                THEN format('revision %s of operation %s of %s has no entry', r.revision, r.operation_id, r.tenant)
            WHEN r.entry_id IS NOT NULL AND e.operation_id IS DISTINCT FROM r.operation_id
                THEN format('the entry of revision %s of operation %s of %s is of another or not there',
                    r.revision, r.operation_id, r.tenant)
            END
        FROM resolution r
        LEFT JOIN hold h USING (tenant, operation_id)
        LEFT JOIN evidence v ON (v.tenant, v.operation_id, v.evidence_id) = (r.tenant, r.operation_id, r.evidence_id)
        LEFT JOIN entry e ON (e.tenant, e.entry_id) = (r.tenant, r.entry_id)
        """,
    ),
    Law(
        "5.4",
        "What a hold was settled at is what its entries posted as EXPENSE, once.",
        """
        SELECT CASE WHEN coalesce(h.settled, 0) <> coalesce(m.expense, 0) OR h.operation_id IS NULL THEN
            format('operation %s of %s is settled at %s, its entries posted %s', operation_id, tenant,
                coalesce(trim_scale(h.settled)::text, 'nothing'), trim_scale(coalesce(m.expense, 0))) END
        FROM hold h FULL JOIN (
            SELECT e.tenant, e.operation_id, sum(p.amount) AS expense FROM entry e JOIN posting p USING (tenant, entry_id)
            WHERE p.account = 'EXPENSE' AND e.operation_id IS NOT NULL GROUP BY 1, 2
        ) m USING (tenant, operation_id)
        """,
    ),
    Law(
        "5.5",
        "At most one hold per exclusive key is open.",
        """
        SELECT CASE WHEN count(*) > 1 THEN format('exclusive key %s of %s has %s open holds', exclusive_key, tenant, count(*)) END
        FROM hold WHERE exclusive_key IS NOT NULL AND state IN ('RESERVED', 'DISPATCHING', 'OUTCOME_UNKNOWN')
        GROUP BY tenant, exclusive_key
        """,
    ),
    Law(
        "5.6",
        "Evidence is AUTHORITATIVE if, and only if, a resolution rests on it.",
        """
        SELECT CASE WHEN (v.classification = 'AUTHORITATIVE') <> (r.evidence_id IS NOT NULL)
            THEN format('evidence %s of operation %s of %s is %s, and %s resolution rests on it', v.evidence_id, v.operation_id,
                v.tenant, v.classification, CASE WHEN r.evidence_id IS NULL THEN 'no' ELSE 'a' END) END
        FROM evidence v LEFT JOIN resolution r
            ON (r.tenant, r.operation_id, r.evidence_id) = (v.tenant, v.operation_id, v.evidence_id)
        """,
    ),
    Law(
        "5.11",
        "Evidence names the revision of the policy that classified it: a version that is there, of its hold's provider.",
        """
        SELECT CASE WHEN v.policy NOT LIKE '#%' AND (p.provider IS NULL OR p.provider IS DISTINCT FROM h.quote->>'provider')
            THEN format('evidence %s of operation %s of %s was classified by policy %s, which is not there or of another provider',
                v.evidence_id, v.operation_id, v.tenant, v.policy) END
        FROM evidence v
        LEFT JOIN hold h USING (tenant, operation_id)
        LEFT JOIN evidence_policy p ON p.tenant = v.tenant AND p.provider || '#' || p.version = v.policy
        """,
    ),
    Law(
        "5.7",
        "Evidence has a body, or the hold has other evidence with the same fact that has one.",
        """
        SELECT CASE WHEN v.body IS NULL AND w.fact IS NULL
            THEN format('evidence %s of operation %s of %s has no body', v.evidence_id, v.operation_id, v.tenant) END
        FROM evidence v LEFT JOIN (
            SELECT DISTINCT tenant, operation_id, fact FROM evidence WHERE body IS NOT NULL
        ) w USING (tenant, operation_id, fact)
        """,
    ),
)
