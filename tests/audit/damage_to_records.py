"""Damage to what was recorded beside the books, and to what prices are worked out from: laws 6 and 7."""

DAMAGE = [
    ("6.1", "PutEvidencePolicy names psp#1", "DELETE FROM evidence_policy"),
    (
        "7.7",
        "revision 1 of operation tokens of acme passed no ceiling, and says ('input_tokens',)",
        "UPDATE resolution SET passed_ceilings = '{input_tokens}' WHERE operation_id = 'tokens'",
    ),
    (
        "7.7",
        "operation tokens of acme has a line of no known bucket",
        "UPDATE resolution SET lines = jsonb_set(lines, '{0,bucket}', '\"x\"') WHERE operation_id = 'tokens'",
    ),
    (
        "7.6",
        "version 1 of the policy about psp of acme has another digest",
        "UPDATE evidence_policy SET document = jsonb_set(document, '{rules,0,standing}', '\"ESTIMATE\"')",
    ),
    ("7.6", "of the policy about psp of acme cannot be read", "UPDATE evidence_policy SET document = '[]'"),
    ("6.1", "names none, which is not there", "UPDATE receipt SET resource = 'none' WHERE resource = 'settled'"),
    ("6.1", "CreateBudget names lab", "DELETE FROM budget WHERE budget_id = 'lab'"),
    ("6.1", "PutPriceCard names gpt#1", "DELETE FROM price_card WHERE card_id = 'gpt' AND version = 1"),
    ("6.1", "says OK with a refusal", "UPDATE receipt SET refusal = '{}' WHERE resource = 'settled'"),
    ("6.1", "without a refusal", "UPDATE receipt SET refusal = NULL"),
    ("6.2", "operation reserved", "DELETE FROM receipt WHERE resource = 'reserved'"),
    ("6.3", "evidence", "UPDATE evidence SET operation_id = 'none' WHERE operation_id = 'rejected'"),
    ("6.3", "observation", "UPDATE observation SET operation_id = 'none'"),
    ("6.3", "incident", "UPDATE incident SET operation_id = 'none'"),
    ("6.1", "which is not there", "UPDATE evidence SET classification = 'ESTIMATE' WHERE operation_id = 'waiting'"),
    ("6.3", "which has no hold", "UPDATE evidence SET classification = 'ESTIMATE' WHERE operation_id = 'waiting'"),
    ("6.3", "which has no hold", "UPDATE incident SET kind = 'DOUBLE_ACCEPTANCE' WHERE operation_id = 'orphan'"),
    ("6.4", "of operation waiting of acme", "DELETE FROM parked"),
    ("6.4", "of operation orphan of acme", "DELETE FROM incident WHERE operation_id = 'orphan'"),
    (
        "6.4",
        "of operation misfit of acme",
        "DELETE FROM evidence WHERE operation_id = 'misfit' AND classification <> 'PARKED'",
    ),
    ("6.5", "is not what was parked", "UPDATE parked SET evidence_id = gen_random_uuid()"),
    ("6.5", "is not what was parked", "UPDATE parked SET actor = 'another'"),
    ("6.3", "is 91, its entry posted 90", "UPDATE budget_grant SET amount = 91"),
    (
        "7.1",
        "version 2 of price card gpt",
        "UPDATE price_card SET document = jsonb_set(document, '{rates,0,price}', '\"9\"')",
    ),
    ("7.2", "which is not there", "DELETE FROM price_card WHERE card_id = 'gpt'"),
    ("7.2", "pinned to another content", "UPDATE price_card SET digest = 'x' WHERE card_id = 'gpt'"),
    (
        "7.2",
        "its lines come to",
        "UPDATE hold SET amount = 1, quote = jsonb_set(quote, '{amount}', '\"1\"') WHERE operation_id = 'tokens'",
    ),
    (
        "7.2",
        "not its quantity at its rate",
        "UPDATE hold SET quote = jsonb_set(quote, '{lines,0,1}', '\"1\"') WHERE operation_id = 'tokens'",
    ),
    (
        "7.3",
        "operation tokens of acme is 0.045171, priced again it is 0.045183",
        "UPDATE evidence SET body = jsonb_set(body, '{buckets,output_tokens}', '\"679\"') WHERE operation_id = 'tokens'",
    ),
    (
        "7.3",
        "operation settled of acme is 4.5, priced again it is 4",
        "UPDATE evidence SET body = jsonb_set(body, '{charged,0}', '\"4\"')"
        " WHERE operation_id = 'settled' AND classification = 'AUTHORITATIVE'",
    ),
    ("7.3", "priced again it is 0", "UPDATE evidence SET body = '{}' WHERE operation_id = 'tokens'"),
    ("7.3", "cannot be priced", "UPDATE evidence SET body = '{\"buckets\": {}}' WHERE operation_id = 'tokens'"),
    ("7.3", "cannot be priced", "DELETE FROM price_card WHERE card_id = 'gpt'"),
    ("7.1", "claude of acme cannot be read", "UPDATE price_card SET document = '{}' WHERE card_id = 'claude'"),
    ("7.2", "operation unknown of acme cannot be read", "UPDATE hold SET quote = '{}' WHERE operation_id = 'unknown'"),
    (
        "7.3",
        "operation tokens of acme cannot be read",
        "UPDATE resolution SET lines = '[{}]' WHERE operation_id = 'tokens'",
    ),
    ("7.3", "no evidence to be priced from", "DELETE FROM evidence WHERE operation_id = 'tokens'"),
    ("7.3", "its lines come to 0.037035", "UPDATE resolution SET lines = lines - 1 WHERE operation_id = 'tokens'"),
    (
        "7.4",
        "operation tokens",
        "UPDATE resolution SET lines = jsonb_set(lines, '{0,rate}', '\"4\"') WHERE operation_id = 'tokens'",
    ),
    (
        "7.5",
        "of operation tokens of acme has another fact than its content",
        "UPDATE evidence SET body = jsonb_set(body, '{model}', '\"gpt-y\"') WHERE operation_id = 'tokens'",
    ),
    (
        "7.5",
        "of operation tokens of acme cannot be read",
        "UPDATE evidence SET body = '[]' WHERE operation_id = 'tokens'",
    ),
    ("7.5", "says nothing that could be observed", "UPDATE evidence SET body = '{}' WHERE operation_id = 'tokens'"),
    ("7.4", "operation released", "UPDATE resolution SET digest = 'x' WHERE operation_id = 'released'"),
    (
        "7.3",
        "revision 3 of operation recounted of acme is 0.03, priced again it is 0.030012",
        "UPDATE evidence SET body = jsonb_set(body, '{buckets,output_tokens}', '\"2001\"')"
        " WHERE operation_id = 'recounted' AND body->'buckets'->>'output_tokens' = '2000'",
    ),
    (
        "7.3",
        "revision 1 of operation recounted of acme is 0.018, priced again it is 0.018012",
        "UPDATE evidence SET body = jsonb_set(body, '{buckets,output_tokens}', '\"501\"')"
        " WHERE operation_id = 'recounted' AND body->'buckets'->>'output_tokens' = '500'",
    ),
    ("7.4", "operation never-sent", "UPDATE resolution SET digest = 'x' WHERE operation_id = 'never-sent'"),
]
