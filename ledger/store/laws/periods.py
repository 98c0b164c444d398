"""Law 2, over time: the periods of a budget, and what is carried from one into another."""

from ledger.store.laws.law import Law

# Of each rollover what it added to AUTHORITY of its books: the last one by name is the later one. Where it moved nothing in one of
# the two, the period of the other was over already if that is the earlier one.
_ROLLED = """
    SELECT *, count(*) OVER entry AS books, min(budget_id) OVER entry <> max(budget_id) OVER entry AS mixed,
        CASE WHEN count(*) OVER entry > 1 THEN row_number() OVER (PARTITION BY tenant, entry_id ORDER BY book_id DESC) = 1
            ELSE period_end IS NULL OR recorded_at < period_end END AS arrives
    FROM (
        SELECT p.tenant, p.entry_id, p.book_id, e.recorded_at, b.budget_id, b.period_start, b.period_end, sum(p.amount) AS amount
        FROM posting p JOIN entry e USING (tenant, entry_id) LEFT JOIN book b USING (tenant, book_id)
        WHERE e.kind = 'ROLLOVER' AND p.account = 'AUTHORITY' GROUP BY 1, 2, 3, 4, 5, 6, 7
    ) sums WINDOW entry AS (PARTITION BY tenant, entry_id)
"""

PERIODS = (
    Law(
        "2.10",
        "The periods of a budget follow each other without an overlap, and only the last is open.",
        """
        SELECT CASE
            WHEN next_start IS NOT NULL AND (period_end IS NULL OR period_end > next_start)
                THEN format('the period of book %s of %s ends after the next one begins', book_id, tenant)
            WHEN closed <> (next_start IS NOT NULL)
                THEN format('book %s of %s is %s, and %s', book_id, tenant, CASE WHEN closed THEN 'closed' ELSE 'open' END,
                    CASE WHEN next_start IS NULL THEN 'is the last of its budget' ELSE 'has a later one' END)
            WHEN next_book <= book_id THEN format('book %s of %s is named as if it were later than %s', book_id, tenant, next_book)
            END
        FROM (
            SELECT tenant, book_id, closed, period_end, lead(period_start) OVER periods AS next_start,
                lead(book_id) OVER periods AS next_book
            FROM book WHERE budget_id IS NOT NULL WINDOW periods AS (PARTITION BY tenant, budget_id ORDER BY period_start, book_id)
        ) followed
        """,
    ),
    Law(
        "2.11",
        "What is carried leaves one period of a budget and arrives in a later; more arrives only by limits of those between.",
        f"""
        SELECT CASE
            WHEN bool_or(mixed) OR max(books) > 2
                THEN format('rollover %s of %s is not of one budget and two of its periods', entry_id, tenant)
            WHEN coalesce(sum(amount) FILTER (WHERE arrives), 0) < -coalesce(sum(amount) FILTER (WHERE NOT arrives), 0)
                THEN format('rollover %s of %s loses %s', entry_id, tenant, trim_scale(-sum(amount)))
            WHEN sum(amount) > 0
                AND max(period_end) FILTER (WHERE NOT arrives) = max(period_start) FILTER (WHERE arrives)
                THEN format('rollover %s of %s makes %s out of nothing', entry_id, tenant, trim_scale(sum(amount)))
            END
        FROM ({_ROLLED}) rolled GROUP BY tenant, entry_id
        """,  # noqa: S608 - put together from constants
    ),
    Law(
        "2.12",
        "What a book says was carried into its period, and on out of it, is what rollovers brought and took.",
        f"""
        SELECT CASE
            WHEN b.carried <> coalesce(r.brought, 0)
                THEN format('book %s of %s says that %s was carried, rollovers brought %s', b.book_id, b.tenant,
                    trim_scale(b.carried), trim_scale(coalesce(r.brought, 0)))
            WHEN b.carried_on <> coalesce(r.took, 0)
                THEN format('book %s of %s says that %s was carried on, rollovers took %s', b.book_id, b.tenant,
                    trim_scale(b.carried_on), trim_scale(coalesce(r.took, 0)))
            END
        FROM book b LEFT JOIN (
            SELECT tenant, book_id, sum(amount) FILTER (WHERE arrives) AS brought, -sum(amount) FILTER (WHERE NOT arrives) AS took
            FROM ({_ROLLED}) rolled GROUP BY 1, 2
        ) r USING (tenant, book_id) WHERE b.budget_id IS NOT NULL
        """,  # noqa: S608 - put together from constants
    ),
)
