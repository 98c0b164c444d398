"""Damage to the feed: law 8."""

DAMAGE = [
    ("8.1", "has 0 versions", "DELETE FROM outbox"),
    ("8.1", "out of order", "UPDATE outbox SET turn = -turn, position = 1000000000 - position, xid = 1"),
    ("8.1", "which has no hold", "DELETE FROM hold"),
    (
        "8.1",
        "its feed leads to",
        """UPDATE outbox SET events = replace(events::text, '"to":"SETTLED"', '"to":"RELEASED"')::json""",
    ),
    ("8.2", "is told 0 times", "DELETE FROM outbox"),
    (
        "8.2",
        "is told 2 times",
        "INSERT INTO outbox SELECT (jsonb_populate_record(o, '{\"epoch\": 9}')).* FROM outbox o",
    ),
    ("8.2", "which is not there", "DELETE FROM entry"),
    ("8.4", "grant", "DELETE FROM budget_grant"),
    ("8.4", "is told 0 times", "DELETE FROM outbox"),
    ("8.4", "incident", "DELETE FROM incident"),
    ("8.4", "price card", "DELETE FROM price_card"),
    ("8.5", "which bears no mark", "UPDATE book SET crossed = '{}'"),
    ("8.5", "its feed has 0", "DELETE FROM outbox"),
    ("8.5", "has 2 marks of", "UPDATE book SET crossed = crossed || crossed"),
    ("8.6", "and no mark of", "UPDATE book SET crossed = '{}'"),
    ("8.6", "has the thresholds", "UPDATE budget SET thresholds = '{1}'"),
    ("8.3", "which is not there", "DELETE FROM budget"),
    ("8.3", "has 0 versions", "DELETE FROM outbox"),
    (
        "8.3",
        "out of order",
        """UPDATE outbox SET events = regexp_replace(events::text, '("type":"BUDGET".*?"version":)1', '\\1 7')::json""",
    ),
]
