"""Law 8: the feed tells what happened, all of it, and in order."""

from ledger.store.laws.law import Law

# Each event of a type, with its place in its tenant's feed.
_TOLD = """
    SELECT o.tenant, e.event, (o.epoch, o.position, o.turn, o.xid, e.number) AS place
    FROM outbox o CROSS JOIN LATERAL jsonb_array_elements(o.events::jsonb) WITH ORDINALITY AS e (event, number)
    WHERE e.event->>'type' = '{}'
"""


_HOLDS = f"""
    WITH told AS (
        SELECT tenant, event->>'operation_id' AS operation_id, (event->>'version')::bigint AS version, event->>'from' AS before,
            event->>'to' AS after, row_number() OVER feed AS number, lag(event->>'to') OVER feed AS last
        FROM ({_TOLD.format("HOLD")}) events WINDOW feed AS (PARTITION BY tenant, event->>'operation_id' ORDER BY place)
    )
    SELECT CASE
        WHEN h.version IS NULL THEN format('an event of %s names operation %s, which has no hold', tenant, operation_id)
        WHEN coalesce(t.versions, 0) <> h.version OR NOT t.in_order
            THEN format('operation %s of %s is at version %s, its feed has %s versions%s', operation_id, tenant, h.version,
                coalesce(t.versions, 0), CASE WHEN t.in_order THEN '' ELSE ', out of order' END)
        WHEN NOT t.chained OR t.state <> h.state
            THEN format('operation %s of %s is %s, its feed leads to %s', operation_id, tenant, h.state, t.state)
        END
    FROM hold h FULL JOIN (
        SELECT tenant, operation_id, count(*) AS versions, bool_and(number = version) AS in_order,
            bool_and(before IS NOT DISTINCT FROM last) AS chained, (array_agg(after ORDER BY number DESC))[1] AS state
        FROM told GROUP BY 1, 2
    ) t USING (tenant, operation_id)
"""  # noqa: S608 - put together from constants

_BUDGETS = f"""
    SELECT CASE
        WHEN g.version IS NULL THEN format('an event of %s names budget %s, which is not there', tenant, budget_id)
        WHEN coalesce(t.versions, 0) <> g.version OR NOT t.in_order
            THEN format('budget %s of %s is at version %s, its feed has %s versions%s', budget_id, tenant, g.version,
                coalesce(t.versions, 0), CASE WHEN t.in_order THEN '' ELSE ', out of order' END)
        END
    FROM budget g FULL JOIN (
        SELECT tenant, budget_id, count(*) AS versions, bool_and(number = version) AS in_order
        FROM (
            SELECT tenant, event->>'budget_id' AS budget_id, (event->>'version')::bigint AS version,
                row_number() OVER (PARTITION BY tenant, event->>'budget_id' ORDER BY place) AS number
            FROM ({_TOLD.format("BUDGET")}) events
        ) told GROUP BY 1, 2
    ) t USING (tenant, budget_id)
"""  # noqa: S608 - put together from constants

_ENTRIES = """
    SELECT CASE
        WHEN e.entry_id IS NULL THEN format('an event of %s names entry %s, which is not there', tenant, entry_id)
        WHEN coalesce(t.times, 0) <> 1 THEN format('entry %s of %s is told %s times', entry_id, tenant, coalesce(t.times, 0))
        END
    FROM entry e FULL JOIN (
        SELECT tenant, entry_id::uuid AS entry_id, count(*) AS times
        FROM outbox CROSS JOIN LATERAL jsonb_array_elements(events::jsonb) AS event CROSS JOIN LATERAL (
            SELECT event->>'entry_id' UNION ALL SELECT jsonb_array_elements(event->'entries')->>'id'
        ) AS named (entry_id)
        WHERE entry_id IS NOT NULL GROUP BY 1, 2
    ) t USING (tenant, entry_id)
"""

# To take the events of an outbox apart is the largest cost of these laws: once for five kinds of rows.
_ROWS = """
    SELECT CASE
        WHEN r.name IS NULL THEN format('an event of %s names %s %s, which is not there', tenant, thing, name)
        WHEN coalesce(times, 0) = 0 OR times > 1 AND thing <> 'incident'
            THEN format('%s %s of %s is told %s times', thing, name, tenant, coalesce(times, 0))
        END
    FROM (
        SELECT tenant, 'policy' AS thing, concat_ws('#', provider, version) AS name FROM evidence_policy
        UNION ALL SELECT tenant, 'observation', observation_id::text FROM observation
        UNION ALL SELECT tenant, 'incident', incident_id::text FROM incident
        UNION ALL SELECT tenant, 'grant', concat_ws(' to ', reference, budget_id) FROM budget_grant
        UNION ALL SELECT tenant, 'price card', concat_ws('#', card_id, version) FROM price_card
    ) r FULL JOIN (
        SELECT tenant, thing, name, count(*) AS times
        FROM outbox CROSS JOIN LATERAL jsonb_array_elements(events::jsonb) AS event CROSS JOIN LATERAL (
            SELECT CASE event->>'type' WHEN 'POLICY' THEN 'policy' WHEN 'OBSERVATION' THEN 'observation'
                WHEN 'INCIDENT' THEN 'incident' WHEN 'GRANT' THEN 'grant' WHEN 'PRICE_CARD' THEN 'price card' END AS thing,
            CASE event->>'type' WHEN 'POLICY' THEN concat_ws('#', event->>'provider', event->>'version')
                WHEN 'OBSERVATION' THEN event->>'observation_id' WHEN 'INCIDENT' THEN event->>'incident_id'
                WHEN 'GRANT' THEN concat_ws(' to ', event->>'reference', event->>'budget_id')
                WHEN 'PRICE_CARD' THEN concat_ws('#', event->>'card_id', event->>'version') END AS name
        ) AS told
        WHERE event->>'type' IN ('POLICY', 'OBSERVATION', 'INCIDENT', 'GRANT', 'PRICE_CARD') GROUP BY 1, 2, 3
    ) t USING (tenant, thing, name)
"""

_CROSSINGS = f"""
    SELECT CASE
        WHEN m.percent IS NULL
            THEN format('an event of %s says that book %s crossed %s %%, which bears no mark', tenant, book_id, percent)
        WHEN coalesce(t.times, 0) <> 1 OR m.marks <> 1
            THEN format('book %s of %s has %s marks of %s %%, its feed has %s', book_id, tenant, m.marks, percent,
                coalesce(t.times, 0))
        END
    FROM (
        SELECT tenant, book_id, percent, count(*) AS marks FROM book CROSS JOIN unnest(crossed) AS percent GROUP BY 1, 2, 3
    ) m FULL JOIN (
        SELECT tenant, event->>'book_id' AS book_id, (event->>'percent')::int AS percent, count(*) AS times
        FROM ({_TOLD.format("THRESHOLD")}) events GROUP BY 1, 2, 3
    ) t USING (tenant, book_id, percent)
"""  # noqa: S608 - put together from constants

_REACHED = """
    SELECT CASE
        WHEN cardinality(missed) > 0 THEN format('book %s of %s has %s of %s, and no mark of %s %%', book_id, tenant,
            trim_scale(amount), trim_scale(authority + carried_on), missed)
        WHEN NOT closed AND (g.thresholds, g.threshold_basis) IS DISTINCT FROM (b.thresholds, b.threshold_basis)
            THEN format('book %s of %s has the thresholds %s of %s, its budget %s of %s', book_id, tenant, b.thresholds,
                b.threshold_basis, g.thresholds, g.threshold_basis)
        END
    FROM (
        SELECT *, CASE threshold_basis WHEN 'SPENT' THEN spent ELSE spent + held + unknown END AS amount
        FROM book WHERE budget_id IS NOT NULL
    ) b LEFT JOIN budget g USING (tenant, budget_id) CROSS JOIN LATERAL (
        SELECT array_agg(percent) AS missed FROM unnest(b.thresholds) AS percent
        WHERE b.floor IS NOT NULL AND amount > 0 AND 100 * amount >= percent * (authority + carried_on) AND percent <> ALL (crossed)
    ) reached
"""

EVENTS = (
    Law("8.1", "The feed has every version of every hold, once and in order, each from the state before.", _HOLDS),
    Law("8.2", "The feed names every entry once, and none that is not there.", _ENTRIES),
    Law("8.3", "The feed has every version of every budget, once and in order.", _BUDGETS),
    Law(
        "8.4",
        "Grants, price cards, policies, observations and incidents are told, and none that is not there.",
        _ROWS,
    ),
    Law("8.5", "Every threshold that a period crossed is told once, and none that it did not.", _CROSSINGS),
    Law("8.6", "A period that stands at or above a threshold of its budget has crossed it.", _REACHED),
)
