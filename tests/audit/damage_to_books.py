"""Damage to the journal, the guards of the rows, the books and their periods: laws 1 and 2."""

# What came free late in the first period of `second`, and was carried into the last.
INTO_THE_LAST = """
    account = 'AUTHORITY' AND book_id IN (SELECT book_id FROM book WHERE budget_id = 'second' AND NOT closed)
    AND entry_id IN (SELECT entry_id FROM entry WHERE kind = 'ROLLOVER' AND operation_id = 'outlives')
"""

DAMAGE = [
    ("1.1", "key#0", "UPDATE posting SET amount = amount + 1 WHERE book_id = 'key#0' AND version = 1"),
    ("1.2", "has no entry", "DELETE FROM entry WHERE operation_id = 'settled' AND kind = 'SETTLE'"),
    ("1.2", "has no book", "DELETE FROM book WHERE book_id = 'lab#0'"),
    ("1.2", "is in EUR, the entry in USD", "UPDATE book SET currency = 'EUR' WHERE book_id = 'lab#0'"),
    ("1.2", "account CASH", "UPDATE posting SET account = 'CASH' WHERE book_id = 'lab#0' AND version = 7"),
    ("1.3", "has no postings", "DELETE FROM posting WHERE book_id LIKE '%#0' AND version < 3"),
    ("1.3", "none: it is not there", "DELETE FROM hold WHERE operation_id = 'settled'"),
    ("1.3", "is in EUR", "UPDATE entry SET currency = 'EUR' WHERE operation_id = 'tokens'"),
    ("1.4", "trigger entry_balances on posting is off", "ALTER TABLE posting DISABLE TRIGGER entry_balances"),
    ("1.4", "hold_birth on hold is off", "ALTER TABLE hold ENABLE REPLICA TRIGGER hold_birth"),
    ("1.4", "entry_append_only on entry is not there", "DROP TRIGGER entry_append_only ON entry"),
    (
        "1.4",
        "refuses nothing",
        "CREATE OR REPLACE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'",
    ),
    ("1.4", "book_expense_equals_payable", "ALTER TABLE book DROP CONSTRAINT book_expense_equals_payable"),
    (
        "1.4",
        "was never held against the rows",
        "ALTER TABLE book DROP CONSTRAINT book_expense_equals_payable,"
        " ADD CONSTRAINT book_expense_equals_payable CHECK (expense = payable) NOT VALID",
    ),
    ("1.4", "posting_pkey on posting is not there", "ALTER TABLE posting DROP CONSTRAINT posting_pkey"),
    ("1.4", "index hold_one_open_per_exclusive_key", "DROP INDEX hold_one_open_per_exclusive_key"),
    ("2.1", "SPENT is", "UPDATE book SET available = available + 1, spent = spent - 1 WHERE book_id = 'key#0'"),
    ("2.2", "at version 8 has 7 postings", "UPDATE book SET version = 8 WHERE book_id = 'lab#0'"),
    ("2.2", "1 to 70", "UPDATE posting SET version = 70 WHERE book_id = 'lab#0' AND version = 7"),
    ("2.2", "0 to 6", "UPDATE posting SET version = version - 1 WHERE book_id = 'lab#0'"),
    (
        "2.3",
        "lab#0",
        "ALTER TABLE book DROP CONSTRAINT book_authority_and_deficit_equal_the_rest;"
        "UPDATE book SET authority = authority + 1 WHERE book_id = 'lab#0'",
    ),
    (
        "2.3",
        "#financial/openai#gpt-x#USD#3",
        "ALTER TABLE book DROP CONSTRAINT book_expense_equals_payable;"
        "UPDATE book SET expense = expense + 1 WHERE provider = 'openai'",
    ),
    (
        "2.4",
        "AVAILABLE is -1, below 0",
        "ALTER TABLE book DROP CONSTRAINT book_available_is_not_below_floor;"
        "ALTER TABLE book DROP CONSTRAINT book_available_above_floor_means_deficit_zero;"
        "UPDATE book SET available = -1, spent = spent + 1 WHERE book_id = 'lab#0'",
    ),
    ("2.4", "the floor is -100", "UPDATE book SET floor = -100 WHERE book_id = 'key#0'"),
    ("2.4", "the floor is absent", "UPDATE book SET floor = NULL WHERE book_id = 'key#0'"),
    (
        "2.4",
        "HELD is negative",
        "ALTER TABLE book DROP CONSTRAINT book_no_balance_but_available_is_negative;"
        "UPDATE book SET held = held - 100, spent = spent + 100 WHERE book_id = 'key#0'",
    ),
    (
        "2.5",
        "DEFICIT 1",
        "ALTER TABLE book DROP CONSTRAINT book_available_above_floor_means_deficit_zero;"
        "UPDATE book SET deficit = 1, authority = authority - 1 WHERE book_id = 'key#0'",
    ),
    (
        "2.6",
        "by a limit of 10, the budget has one of 11",
        "UPDATE budget SET limit_amount = 11 WHERE budget_id = 'key'",
    ),
    ("2.6", "were granted 90, its grants are 0", "DELETE FROM budget_grant"),
    ("2.7", "book lab#0 of acme has no budget", "DELETE FROM budget WHERE budget_id = 'lab'"),
    (
        "2.6",
        "neither limit nor grant nor carried",
        "UPDATE entry SET kind = 'SETTLE' WHERE kind = 'LIMIT'; UPDATE budget SET limit_amount = 10 WHERE budget_id = 'second'",
    ),
    ("2.7", "budget lab of acme has no open book", "DELETE FROM book WHERE book_id = 'lab#0'"),
    ("2.7", "not its parent's and itself", "UPDATE budget SET path = '{lab, key}' WHERE budget_id = 'key'"),
    ("2.7", "not its parent's and itself", "UPDATE budget SET path = '{none, key}' WHERE budget_id = 'key'"),
    ("2.7", "its parent in EUR", "UPDATE budget SET currency = 'EUR' WHERE budget_id = 'org'"),
    (
        "2.7",
        "book lab#0 of acme is not of budget key",
        "DROP INDEX book_one_open_per_budget; UPDATE book SET budget_id = 'key' WHERE book_id = 'lab#0'",
    ),
    ("2.10", "ends after the next one begins", "UPDATE book SET period_end = period_end + interval '9 s' WHERE closed"),
    ("2.10", "is closed, and is the last", "UPDATE book SET period_end = now(), closed = true WHERE book_id = 'lab#0'"),
    (
        "2.10",
        "is open, and has a later one",
        "DROP INDEX book_one_open_per_budget; UPDATE book SET closed = false, carried_on = 0 WHERE budget_id = 'second'",
    ),
    (
        "2.10",
        "as if it were later than",
        "UPDATE book SET book_id = 'second#3' WHERE period_start = (SELECT max(period_start) FROM book WHERE closed)",
    ),
    ("2.11", "not of one budget", "UPDATE book SET budget_id = 'second2' WHERE budget_id = 'second' AND NOT closed"),
    ("2.11", "loses 2", f"UPDATE posting SET amount = amount - 2 WHERE {INTO_THE_LAST}"),
    (
        "2.11",
        "makes 2 out of nothing",
        f"UPDATE posting SET amount = amount + 2 WHERE {INTO_THE_LAST};"
        "UPDATE book SET period_start = (SELECT max(period_end) FROM book WHERE closed) WHERE budget_id = 'second' AND NOT closed",
    ),
    ("2.12", "was carried, rollovers brought", "UPDATE book SET carried = carried + 1 WHERE budget_id = 'second'"),
    (
        "2.12",
        "was carried on, rollovers took",
        "UPDATE book SET carried_on = carried_on + 1 WHERE budget_id = 'second' AND closed",
    ),
    (
        "2.8",
        "provider openai, model gpt-x in USD",
        "UPDATE book SET expense = expense + 1, payable = payable + 1 WHERE provider = 'openai'",
    ),
    ("2.8", "provider psp", "DELETE FROM book WHERE provider = 'psp'"),
    (
        "2.4",
        "UNKNOWN is negative",
        "ALTER TABLE book DROP CONSTRAINT book_no_balance_but_available_is_negative;"
        "UPDATE book SET unknown = unknown - 100, spent = spent + 100 WHERE book_id = 'key#0'",
    ),
    (
        "2.9",
        "provider psp, model  in USD: EXPENSE is -",
        "UPDATE book SET expense = expense - 100, payable = payable - 100 WHERE book_id = '#financial/psp##USD#4'",
    ),
    (
        "2.9",
        "budget lab of acme has EXPENSE 1",
        "ALTER TABLE book DROP CONSTRAINT book_expense_is_the_financial_books;"
        "UPDATE book SET expense = 1, payable = 1 WHERE book_id = 'lab#0'",
    ),
]
