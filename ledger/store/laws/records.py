"""Law 6: what is recorded of commands is about things that exist."""

from typing import get_args

from ledger.domain.commands import BudgetCommand, HoldCommand
from ledger.domain.document_commands import PutEvidencePolicy, PutPriceCard
from ledger.store.laws.law import Law

RECORDS = (
    Law(
        "6.1",
        "A receipt names what its command did, and that is there.",
        """
        SELECT CASE
            WHEN (r.outcome = 'OK') <> (r.refusal IS NULL)
                THEN format('receipt %s of %s/%s/%s says %s %s a refusal', r.key, r.tenant, r.actor, r.command, r.outcome,
                    CASE WHEN r.refusal IS NULL THEN 'without' ELSE 'with' END)
            WHEN r.outcome = 'OK' AND NOT coalesce(CASE
                WHEN r.command = 'Resolve' AND r.state IS NULL THEN EXISTS (SELECT FROM evidence v
                    WHERE (v.tenant, v.operation_id, v.classification) = (r.tenant, r.resource, 'PARKED'))
                WHEN r.command = ANY (:on_holds) THEN h.operation_id IS NOT NULL
                WHEN r.command = ANY (:on_budgets) THEN g.budget_id IS NOT NULL
                WHEN r.command = :on_cards THEN c.card_id IS NOT NULL
                WHEN r.command = :on_policies THEN p.provider IS NOT NULL END, false)
                THEN format('receipt %s of %s/%s/%s names %s, which is not there', r.key, r.tenant, r.actor, r.command, r.resource)
            END
        FROM receipt r
        LEFT JOIN hold h ON r.command = ANY (:on_holds) AND (h.tenant, h.operation_id) = (r.tenant, r.resource)
        LEFT JOIN budget g ON r.command = ANY (:on_budgets) AND (g.tenant, g.budget_id) = (r.tenant, r.resource)
        LEFT JOIN price_card c ON r.command = :on_cards
            AND c.tenant = r.tenant AND c.card_id || '#' || c.version = r.resource
        LEFT JOIN evidence_policy p ON r.command = :on_policies
            AND p.tenant = r.tenant AND p.provider || '#' || p.version = r.resource
        """,
        {
            "on_holds": [command.NAME for command in get_args(HoldCommand)],
            "on_budgets": [command.NAME for command in get_args(BudgetCommand)],
            "on_cards": PutPriceCard.NAME,
            "on_policies": PutEvidencePolicy.NAME,
        },
    ),
    Law(
        "6.2",
        "Every hold has the receipt of the command that made it.",
        """
        SELECT CASE WHEN r.resource IS NULL
            THEN format('the hold of operation %s of %s has no receipt of its reserve', h.operation_id, h.tenant) END
        FROM hold h LEFT JOIN (
            SELECT DISTINCT tenant, actor, resource, fingerprint FROM receipt WHERE command = 'Reserve' AND outcome = 'OK'
        ) r ON (r.tenant, r.actor, r.resource, r.fingerprint) = (h.tenant, h.actor, h.operation_id, h.fingerprint)
        """,
    ),
    Law(
        "6.3",
        "Evidence, observations and incidents are about holds, or came without one, and grants about budgets, with the entry that"
        " posted them.",
        """
        SELECT CASE WHEN v.classification <> 'PARKED'
            AND NOT EXISTS (SELECT FROM hold h WHERE (h.tenant, h.operation_id) = (v.tenant, v.operation_id))
            THEN format('evidence %s of %s is about operation %s, which has no hold', v.evidence_id, v.tenant, v.operation_id) END
        FROM evidence v
        UNION ALL
        SELECT CASE WHEN NOT EXISTS (SELECT FROM hold h WHERE (h.tenant, h.operation_id) = (o.tenant, o.operation_id))
            THEN format('observation %s of %s is about operation %s, which has no hold', o.observation_id, o.tenant, o.operation_id)
            END
        FROM observation o
        UNION ALL
        SELECT CASE WHEN i.kind NOT IN ('ORPHAN_EVIDENCE', 'WRITE_MISMATCH')
            AND NOT EXISTS (SELECT FROM hold h WHERE (h.tenant, h.operation_id) = (i.tenant, i.operation_id))
            THEN format('incident %s of %s is about operation %s, which has no hold', i.incident_id, i.tenant, i.operation_id) END
        FROM incident i
        UNION ALL
        SELECT CASE WHEN -posted.amount IS DISTINCT FROM g.amount
            THEN format('grant %s to budget %s of %s is %s, its entry posted %s', g.reference, g.budget_id, g.tenant,
                trim_scale(g.amount), coalesce(trim_scale(-posted.amount)::text, 'nothing')) END
        FROM budget_grant g LEFT JOIN (
            SELECT tenant, entry_id, split_part(book_id, '#', 1) AS budget_id, sum(amount) AS amount FROM posting
            WHERE account IN ('AVAILABLE', 'DEFICIT') GROUP BY 1, 2, 3
        ) posted ON (posted.tenant, posted.entry_id, posted.budget_id) = (g.tenant, g.entry_id, g.budget_id)
        """,
    ),
    Law(
        "6.4",
        "Parked evidence waits, or was filed in the name of who brought it, or is a case: it is never lost.",
        """
        SELECT CASE WHEN NOT EXISTS (
                SELECT FROM parked p WHERE (p.tenant, p.operation_id, p.evidence_id) = (v.tenant, v.operation_id, v.evidence_id))
            AND NOT EXISTS (SELECT FROM evidence f WHERE (f.tenant, f.operation_id, f.fact, f.kind, f.source, f.actor)
                = (v.tenant, v.operation_id, v.fact, v.kind, v.source, v.actor) AND f.classification <> 'PARKED')
            AND NOT EXISTS (SELECT FROM incident i WHERE (i.tenant, i.operation_id, i.kind, i.detail->>'evidence_id')
                = (v.tenant, v.operation_id, 'ORPHAN_EVIDENCE', v.evidence_id::text))
            THEN format('parked evidence %s of operation %s of %s waits no longer, was not filed and is no case',
                v.evidence_id, v.operation_id, v.tenant) END
        FROM evidence v WHERE v.classification = 'PARKED'
        """,
    ),
    Law(
        "6.5",
        "What waits for its hold is parked evidence, of the same kind, source, caller and time.",
        """
        SELECT CASE WHEN (v.kind, v.source, v.actor, v.received_at) IS DISTINCT FROM (p.kind, p.source, p.actor, p.parked_at)
            THEN format('what waits for operation %s of %s as evidence %s is not what was parked',
                p.operation_id, p.tenant, p.evidence_id) END
        FROM parked p LEFT JOIN evidence v ON (v.tenant, v.operation_id, v.evidence_id, v.classification)
            = (p.tenant, p.operation_id, p.evidence_id, 'PARKED')
        """,
    ),
)
