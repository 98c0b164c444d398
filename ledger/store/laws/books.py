"""Law 2: books and budgets."""

from ledger.domain.model import DEBIT_NORMAL, Account
from ledger.store.laws.law import Law


def _sum(account: Account) -> str:
    """What the postings of an account come to on its normal side."""
    sign = "" if account in DEBIT_NORMAL else "-"
    return f"{sign}coalesce(sum(amount) FILTER (WHERE account = '{account}'), 0) AS {account.lower()}"


def _difference(account: Account) -> str:
    name = account.lower()
    return (
        f"CASE WHEN b.{name} <> coalesce(p.{name}, 0) THEN"
        f" format('{account} is %s, its postings %s', trim_scale(b.{name}), trim_scale(coalesce(p.{name}, 0))) END"
    )


_SUMS = ", ".join(map(_sum, Account))
_DIFFERENCES = ", ".join(map(_difference, Account))
# A period may begin in debt, and a stripe of the financial book is only a summand: see 2.9.
_ANY_SIGN = {Account.AVAILABLE, Account.AUTHORITY, Account.EXPENSE, Account.PAYABLE}
_POSITIVE = [account for account in Account if account not in _ANY_SIGN]
_NEGATIVES = ", ".join(f"CASE WHEN {account.lower()} < 0 THEN '{account} is negative' END" for account in _POSITIVE)

BOOKS = (
    Law(
        "2.1",
        "Every balance of a book is the sum of its postings.",
        f"""
        SELECT format('book %s of %s: ', book_id, tenant) || nullif(concat_ws(', ', {_DIFFERENCES}), '')
        FROM book b LEFT JOIN (SELECT tenant, book_id, {_SUMS} FROM posting GROUP BY 1, 2) p USING (tenant, book_id)
        """,  # noqa: S608 - put together from the names of the accounts
    ),
    Law(
        "2.2",
        "The postings of a book are numbered from 1 to its version, without a gap.",
        """
        SELECT CASE WHEN (coalesce(p.first, 1), coalesce(p.last, 0), coalesce(p.lines, 0)) <> (1, b.version, b.version) THEN
            format('book %s of %s at version %s has %s postings, %s to %s',
                book_id, tenant, b.version, coalesce(p.lines, 0), p.first, p.last) END
        FROM book b LEFT JOIN (
            SELECT tenant, book_id, min(version) AS first, max(version) AS last, count(*) AS lines FROM posting GROUP BY 1, 2
        ) p USING (tenant, book_id)
        """,
    ),
    Law(
        "2.3",
        "AUTHORITY + DEFICIT = AVAILABLE + HELD + UNKNOWN + SPENT, and EXPENSE = PAYABLE.",
        """
        SELECT CASE WHEN authority + deficit <> available + held + unknown + spent OR expense <> payable THEN
            format('book %s of %s: %s + %s and %s + %s + %s + %s; %s and %s', book_id, tenant,
                trim_scale(authority), trim_scale(deficit), trim_scale(available), trim_scale(held), trim_scale(unknown),
                trim_scale(spent), trim_scale(expense), trim_scale(payable)) END
        FROM book
        """,
    ),
    Law(
        "2.4",
        "AVAILABLE is never below its floor, the budget's; no other balance of a budget is negative, but AUTHORITY in debt.",
        f"""
        SELECT format('book %s of %s: ', b.book_id, b.tenant) || nullif(concat_ws(', ',
            CASE WHEN available < floor THEN format('AVAILABLE is %s, below %s', trim_scale(available), trim_scale(floor)) END,
            CASE WHEN b.budget_id IS NOT NULL AND NOT b.closed
                    AND floor IS DISTINCT FROM CASE WHEN limit_amount IS NOT NULL THEN -credit_line END
                THEN format('the floor is %s', coalesce(trim_scale(floor)::text, 'absent')) END,
            CASE WHEN authority < 0 AND carried >= 0 THEN 'AUTHORITY is negative, and no debt was carried' END, {_NEGATIVES}), '')
        FROM book b LEFT JOIN budget g ON (g.tenant, g.budget_id) = (b.tenant, b.budget_id)
        """,  # noqa: S608 - put together from the names of the accounts
    ),
    Law(
        "2.5",
        "Where AVAILABLE is above its floor, DEFICIT is 0.",
        """
        SELECT CASE WHEN deficit <> 0 AND available IS DISTINCT FROM floor THEN
            format('book %s of %s has DEFICIT %s and AVAILABLE %s', book_id, tenant, trim_scale(deficit), trim_scale(available))
            END
        FROM book
        """,
    ),
    Law(
        "2.6",
        "AUTHORITY of a period is its limit, its grants and what was carried; the limit of the open one is the budget's.",
        """
        WITH authorized AS (
            SELECT p.tenant, p.book_id,
                coalesce(sum(p.amount) FILTER (WHERE e.kind IN ('OPEN', 'LIMIT')), 0) AS by_limit,
                coalesce(sum(p.amount) FILTER (WHERE e.kind = 'GRANT'), 0) AS by_grants,
                coalesce(sum(p.amount) FILTER (WHERE e.kind NOT IN ('OPEN', 'LIMIT', 'GRANT', 'ROLLOVER')), 0) AS by_others
            FROM posting p JOIN entry e USING (tenant, entry_id) WHERE p.account = 'AUTHORITY' GROUP BY 1, 2
        ), granted AS (
            SELECT tenant, budget_id, sum(amount) AS amount FROM budget_grant GROUP BY 1, 2
        )
        SELECT CASE
            WHEN NOT b.closed AND coalesce(a.by_limit, 0) <> coalesce(g.limit_amount, 0)
                THEN format('book %s of %s has AUTHORITY by a limit of %s, the budget has one of %s', b.book_id, b.tenant,
                    trim_scale(coalesce(a.by_limit, 0)), trim_scale(coalesce(g.limit_amount, 0)))
            WHEN coalesce(a.by_others, 0) <> 0
                THEN format('book %s of %s has AUTHORITY that is neither limit nor grant nor carried', b.book_id, b.tenant)
            END
        FROM book b LEFT JOIN authorized a USING (tenant, book_id)
        LEFT JOIN budget g ON (g.tenant, g.budget_id) = (b.tenant, b.budget_id)
        WHERE b.budget_id IS NOT NULL
        UNION ALL
        SELECT CASE WHEN coalesce(sum(a.by_grants), 0) <> coalesce(max(granted.amount), 0) THEN
            format('the books of budget %s of %s were granted %s, its grants are %s', b.budget_id, b.tenant,
                trim_scale(coalesce(sum(a.by_grants), 0)), trim_scale(coalesce(max(granted.amount), 0))) END
        FROM book b LEFT JOIN authorized a USING (tenant, book_id)
        LEFT JOIN granted ON (granted.tenant, granted.budget_id) = (b.tenant, b.budget_id)
        WHERE b.budget_id IS NOT NULL GROUP BY b.tenant, b.budget_id
        """,
    ),
    Law(
        "2.7",
        "Every budget has one open book, in its currency, and stands below a parent of the same currency.",
        """
        SELECT CASE
            WHEN b.book_id IS NULL THEN format('budget %s of %s has no open book', g.budget_id, g.tenant)
            WHEN b.currency <> g.currency
                THEN format('budget %s of %s is in %s, its book in %s', g.budget_id, g.tenant, g.currency, b.currency)
            WHEN g.path[cardinality(g.path)] <> g.budget_id OR cardinality(g.path) > 1 AND g.path <> parent.path || g.budget_id
                OR cardinality(g.path) > 1 AND parent.path IS NULL
                THEN format('the path of budget %s of %s is not its parent''s and itself', g.budget_id, g.tenant)
            WHEN parent.currency <> g.currency
                THEN format('budget %s of %s is in %s, its parent in %s', g.budget_id, g.tenant, g.currency, parent.currency)
            END
        FROM budget g
        LEFT JOIN book b ON b.tenant = g.tenant AND b.budget_id = g.budget_id AND NOT b.closed
        LEFT JOIN budget parent ON parent.tenant = g.tenant AND parent.budget_id = g.path[cardinality(g.path) - 1]
        UNION ALL
        SELECT CASE
            WHEN NOT EXISTS (SELECT FROM budget g WHERE g.tenant = b.tenant AND g.budget_id = b.budget_id)
                THEN format('book %s of %s has no budget', b.book_id, b.tenant)
            WHEN split_part(b.book_id, '#', 1) <> b.budget_id
                THEN format('book %s of %s is not of budget %s', b.book_id, b.tenant, b.budget_id)
            END
        FROM book b WHERE b.budget_id IS NOT NULL
        """,
    ),
    Law(
        "2.8",
        "EXPENSE by provider, model and currency is what the holds there were settled at.",
        """
        SELECT CASE WHEN coalesce(b.expense, 0) <> coalesce(h.settled, 0) THEN
            format('%s at provider %s, model %s in %s: EXPENSE is %s, the holds come to %s', tenant, provider, model, currency,
                trim_scale(coalesce(b.expense, 0)), trim_scale(coalesce(h.settled, 0))) END
        FROM (
            SELECT tenant, provider, model, currency, sum(expense) AS expense FROM book WHERE budget_id IS NULL GROUP BY 1, 2, 3, 4
        ) b FULL JOIN (
            SELECT tenant, quote->>'provider' AS provider, quote->>'model' AS model, currency, sum(settled) AS settled
            FROM hold WHERE settled IS NOT NULL GROUP BY 1, 2, 3, 4
        ) h USING (tenant, provider, model, currency)
        """,
    ),
    Law(
        "2.9",
        "EXPENSE over the stripes of a provider, model and currency is not negative, and no budget has any.",
        """
        SELECT CASE
            WHEN budget_id IS NOT NULL AND sum(expense) <> 0
                THEN format('budget %s of %s has EXPENSE %s', budget_id, tenant, trim_scale(sum(expense)))
            WHEN sum(expense) < 0 THEN format('%s at provider %s, model %s in %s: EXPENSE is %s',
                tenant, provider, model, currency, trim_scale(sum(expense)))
            END
        FROM book GROUP BY tenant, budget_id, provider, model, currency
        """,
    ),
)
