"""Law 1: entries and postings."""

from ledger.domain.model import Account
from ledger.store.laws.law import Law

ENTRIES = (
    Law(
        "1.1",
        "Every entry balances in each of its books.",
        """
        SELECT CASE WHEN sum(amount) <> 0 THEN
            format('entry %s of %s moves book %s by %s', entry_id, tenant, book_id, trim_scale(sum(amount))) END
        FROM posting GROUP BY tenant, entry_id, book_id
        """,
    ),
    Law(
        "1.2",
        "Every posting is a line of an entry, in a book of the entry's currency, on a known account.",
        """
        SELECT CASE
            WHEN e.entry_id IS NULL THEN format('posting %s of book %s of %s has no entry', p.version, p.book_id, p.tenant)
            WHEN b.book_id IS NULL THEN format('posting %s of book %s of %s has no book', p.version, p.book_id, p.tenant)
            WHEN b.currency <> e.currency THEN format('posting %s of book %s of %s is in %s, the entry in %s',
                p.version, p.book_id, p.tenant, b.currency, e.currency)
            WHEN p.account <> ALL (:accounts) THEN format('posting %s of book %s of %s is on account %s',
                p.version, p.book_id, p.tenant, p.account)
            END
        FROM posting p LEFT JOIN entry e USING (tenant, entry_id) LEFT JOIN book b ON (b.tenant, b.book_id) = (p.tenant, p.book_id)
        """,
        {"accounts": [account.value for account in Account]},
    ),
    Law(
        "1.3",
        "Every entry has postings; one that is about an operation has a hold of its currency.",
        """
        SELECT CASE
            WHEN NOT EXISTS (SELECT FROM posting p WHERE p.tenant = e.tenant AND p.entry_id = e.entry_id)
                THEN format('entry %s of %s has no postings', e.entry_id, e.tenant)
            WHEN e.operation_id IS NOT NULL AND h.currency IS DISTINCT FROM e.currency
                THEN format('entry %s of %s is in %s, the hold of operation %s in %s',
                    e.entry_id, e.tenant, e.currency, e.operation_id, coalesce(h.currency, 'none: it is not there'))
            END
        FROM entry e LEFT JOIN hold h USING (tenant, operation_id)
        """,
    ),
)
