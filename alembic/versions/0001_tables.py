"""The tables, their indexes, and the laws that one row can keep.

Revision ID: 0001
Revises:
"""

from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

STATEMENTS = (
    """
    CREATE TABLE budget (
        tenant text COLLATE "C" NOT NULL,
        budget_id text COLLATE "C" NOT NULL,
        path text[] COLLATE "C" NOT NULL,
        currency text COLLATE "C" NOT NULL,
        display_name text COLLATE "C" NOT NULL,
        limit_amount numeric(38,18),
        created_at timestamptz NOT NULL,
        max_hold numeric(38,18),
        max_open_holds integer,
        closed_at timestamptz,
        version bigint NOT NULL,
        credit_line numeric(38,18) NOT NULL,
        period text COLLATE "C" NOT NULL,
        zone text COLLATE "C" NOT NULL,
        anchor timestamptz,
        period_seconds bigint,
        rollover text COLLATE "C" NOT NULL,
        rollover_cap numeric(38,18),
        thresholds integer[] NOT NULL,
        threshold_basis text COLLATE "C" NOT NULL,
        CONSTRAINT budget_pkey PRIMARY KEY (tenant, budget_id),
        CONSTRAINT budget_id_has_no_control_characters CHECK (budget_id !~ '[[:cntrl:]]'),
        CONSTRAINT budget_path_ends_at_the_budget CHECK (path[cardinality(path)] = budget_id),
        CONSTRAINT budget_path_has_at_most_eight_levels CHECK (cardinality(path) <= 8),
        CONSTRAINT budget_limit_is_not_negative CHECK (limit_amount >= 0),
        CONSTRAINT budget_caps_are_not_negative CHECK (max_hold >= 0 AND max_open_holds >= 0),
        CONSTRAINT budget_credit_line_is_below_a_limit
            CHECK (credit_line >= 0 AND (credit_line = 0 OR limit_amount IS NOT NULL)),
        CONSTRAINT budget_rollover_has_a_cap_if_it_says_so CHECK ((rollover = 'CAP') = (rollover_cap IS NOT NULL)),
        CONSTRAINT budget_fixed_period_has_anchor_and_length
            CHECK (
                (period = 'FIXED') = (period_seconds IS NOT NULL)
                AND (period <> 'FIXED' OR period_seconds > 0 AND anchor IS NOT NULL)
            ),
        CONSTRAINT budget_calendar_period_has_a_zone CHECK ((period IN ('DAY', 'WEEK', 'MONTH')) = (zone <> ''))
    )
    """,
    """
    CREATE INDEX budget_parent ON budget (tenant, (path[cardinality(path) - 1]), budget_id)
        WHERE cardinality(path) > 1
    """,
    """
    CREATE TABLE book (
        tenant text COLLATE "C" NOT NULL,
        book_id text COLLATE "C" NOT NULL,
        budget_id text COLLATE "C",
        provider text COLLATE "C",
        model text COLLATE "C",
        currency text COLLATE "C" NOT NULL,
        floor numeric(38,18),
        closed boolean NOT NULL,
        version bigint NOT NULL,
        open_holds bigint NOT NULL,
        authority numeric(38,18) NOT NULL,
        available numeric(38,18) NOT NULL,
        held numeric(38,18) NOT NULL,
        unknown numeric(38,18) NOT NULL,
        spent numeric(38,18) NOT NULL,
        deficit numeric(38,18) NOT NULL,
        expense numeric(38,18) NOT NULL,
        payable numeric(38,18) NOT NULL,
        period_start timestamptz,
        period_end timestamptz,
        rollover text COLLATE "C" NOT NULL,
        rollover_cap numeric(38,18),
        carried numeric(38,18) NOT NULL,
        carried_on numeric(38,18) NOT NULL,
        thresholds integer[] NOT NULL,
        threshold_basis text COLLATE "C" NOT NULL,
        crossed integer[] NOT NULL,
        CONSTRAINT book_pkey PRIMARY KEY (tenant, book_id),
        CONSTRAINT book_authority_and_deficit_equal_the_rest
            CHECK (authority + deficit = available + held + unknown + spent),
        CONSTRAINT book_expense_equals_payable CHECK (expense = payable),
        CONSTRAINT book_available_is_not_below_floor CHECK (available >= floor),
        CONSTRAINT book_available_above_floor_means_deficit_zero
            CHECK (deficit = 0 OR (floor IS NOT NULL AND available = floor)),
        CONSTRAINT book_no_balance_but_available_is_negative
            CHECK (held >= 0 AND unknown >= 0 AND spent >= 0 AND deficit >= 0),
        CONSTRAINT book_authority_is_negative_only_by_what_was_carried CHECK (authority >= 0 OR carried < 0),
        CONSTRAINT book_only_a_period_that_is_over_is_carried_on CHECK (closed OR carried_on = 0),
        CONSTRAINT book_expense_is_the_financial_books CHECK (budget_id IS NULL OR expense = 0),
        CONSTRAINT book_is_of_a_budget_or_of_a_provider CHECK ((budget_id IS NULL) = (provider IS NOT NULL)),
        CONSTRAINT book_version_counts_postings CHECK (version >= 0),
        CONSTRAINT book_money_is_held_by_open_holds
            CHECK (open_holds >= 0 AND (open_holds > 0 OR held = 0 AND unknown = 0)),
        CONSTRAINT book_period_is_of_a_budget CHECK ((budget_id IS NULL) = (period_start IS NULL)),
        CONSTRAINT book_period_ends_after_its_start CHECK (period_end > period_start),
        CONSTRAINT book_closed_means_that_the_period_ended CHECK (NOT closed OR period_end IS NOT NULL)
    ) WITH (fillfactor = 30)
    """,
    """
    CREATE UNIQUE INDEX book_one_open_per_budget ON book (tenant, budget_id)
        WHERE budget_id IS NOT NULL AND NOT closed
    """,
    """
    CREATE TABLE hold (
        tenant text COLLATE "C" NOT NULL,
        operation_id text COLLATE "C" NOT NULL,
        state text COLLATE "C" NOT NULL,
        currency text COLLATE "C" NOT NULL,
        amount numeric(38,18) NOT NULL,
        quote jsonb NOT NULL,
        budget_ids text[] COLLATE "C" NOT NULL,
        books text[] COLLATE "C" NOT NULL,
        labels jsonb NOT NULL,
        actor text COLLATE "C" NOT NULL,
        fingerprint bytea NOT NULL,
        fingerprint_version integer NOT NULL,
        created_at timestamptz NOT NULL,
        expire_at timestamptz NOT NULL,
        updated_at timestamptz NOT NULL,
        exclusive_key text COLLATE "C",
        request_group text COLLATE "C",
        attempt integer NOT NULL,
        generation integer NOT NULL,
        executor text COLLATE "C",
        dispatcher text COLLATE "C",
        nonce_hash bytea,
        dispatched_at timestamptz,
        lease_expires_at timestamptz,
        failure jsonb,
        retry_until timestamptz,
        inferred boolean NOT NULL,
        execution_seen boolean NOT NULL,
        usage_seen boolean NOT NULL,
        provider_receipt text COLLATE "C",
        revision integer NOT NULL,
        resolution_kind text COLLATE "C",
        resolution_digest bytea,
        settled numeric(38,18),
        resolved_at timestamptz,
        version bigint NOT NULL,
        CONSTRAINT hold_pkey PRIMARY KEY (tenant, operation_id),
        CONSTRAINT hold_amount_is_not_negative CHECK (amount >= 0),
        CONSTRAINT hold_once_dispatched_is_never_released
            CHECK (state <> 'RELEASED' OR attempt = 0 OR (inferred AND revision > 1)),
        CONSTRAINT hold_released_costs_only_by_correction
            CHECK (state <> 'RELEASED' OR settled = 0 OR revision > 1),
        CONSTRAINT hold_beyond_reserved_has_an_attempt CHECK (state IN ('RESERVED', 'RELEASED') OR attempt > 0),
        CONSTRAINT hold_dispatching_has_a_lease_or_a_failure
            CHECK (state <> 'DISPATCHING' OR lease_expires_at IS NOT NULL OR retry_until IS NOT NULL),
        CONSTRAINT hold_failure_ends_the_permission CHECK (
            (failure IS NULL) = (retry_until IS NULL)
            AND (failure IS NULL OR (nonce_hash IS NULL AND lease_expires_at IS NULL))
        )
    ) WITH (fillfactor = 45)
    """,
    """
    CREATE INDEX hold_due
        ON hold (
            (CASE WHEN state = 'RESERVED' THEN expire_at ELSE coalesce(lease_expires_at, retry_until) END),
            tenant, operation_id
        )
        WHERE state IN ('RESERVED', 'DISPATCHING')
    """,
    """
    CREATE UNIQUE INDEX hold_one_per_provider_receipt ON hold (tenant, (quote ->> 'provider'), provider_receipt)
        WHERE provider_receipt IS NOT NULL
    """,
    """
    CREATE UNIQUE INDEX hold_one_open_per_exclusive_key ON hold (tenant, exclusive_key)
        WHERE exclusive_key IS NOT NULL AND state IN ('RESERVED', 'DISPATCHING', 'OUTCOME_UNKNOWN')
    """,
    """
    CREATE INDEX hold_request_group ON hold (tenant, request_group, operation_id)
        WHERE request_group IS NOT NULL
    """,
    """
    CREATE INDEX hold_unknown ON hold (tenant, operation_id)
        WHERE state = 'OUTCOME_UNKNOWN'
    """,
    """
    CREATE INDEX hold_released ON hold (tenant, operation_id)
        WHERE state = 'RELEASED'
    """,
    """
    CREATE TABLE entry (
        tenant text COLLATE "C" NOT NULL,
        entry_id uuid NOT NULL,
        kind text COLLATE "C" NOT NULL,
        currency text COLLATE "C" NOT NULL,
        recorded_at timestamptz NOT NULL,
        effective_at timestamptz NOT NULL,
        accounting_date date NOT NULL,
        operation_id text COLLATE "C",
        actor text COLLATE "C" NOT NULL,
        corrects uuid,
        CONSTRAINT entry_pkey PRIMARY KEY (tenant, entry_id),
        CONSTRAINT entry_only_a_correction_is_linked CHECK (kind = 'CORRECT' OR corrects IS NULL)
    )
    """,
    "CREATE INDEX entry_operation ON entry (tenant, operation_id)",
    """
    CREATE TABLE posting (
        tenant text COLLATE "C" NOT NULL,
        book_id text COLLATE "C" NOT NULL,
        version bigint NOT NULL,
        entry_id uuid NOT NULL,
        account text COLLATE "C" NOT NULL,
        amount numeric(38,18) NOT NULL,
        CONSTRAINT posting_pkey PRIMARY KEY (tenant, book_id, version),
        CONSTRAINT posting_amount_is_not_zero CHECK (amount <> 0)
    )
    """,
    "CREATE INDEX posting_entry ON posting (tenant, entry_id)",
    """
    CREATE TABLE receipt (
        tenant text COLLATE "C" NOT NULL,
        actor text COLLATE "C" NOT NULL,
        command text COLLATE "C" NOT NULL,
        key text COLLATE "C" NOT NULL,
        fingerprint bytea NOT NULL,
        fingerprint_version integer NOT NULL,
        resource text COLLATE "C" NOT NULL,
        outcome text COLLATE "C" NOT NULL,
        refusal jsonb,
        state text COLLATE "C",
        recorded_at timestamptz NOT NULL,
        CONSTRAINT receipt_pkey PRIMARY KEY (tenant, actor, command, key)
    )
    """,
    "CREATE INDEX receipt_resource ON receipt (resource, tenant)",
    """
    CREATE TABLE refused (
        tenant text COLLATE "C" NOT NULL,
        refused_id uuid NOT NULL,
        actor text COLLATE "C" NOT NULL,
        command text COLLATE "C" NOT NULL,
        key text COLLATE "C" NOT NULL,
        fingerprint bytea NOT NULL,
        resource text COLLATE "C" NOT NULL,
        reason text COLLATE "C" NOT NULL,
        state text COLLATE "C",
        recorded_at timestamptz NOT NULL,
        CONSTRAINT refused_pkey PRIMARY KEY (tenant, refused_id)
    )
    """,
    "CREATE INDEX refused_resource ON refused (resource, tenant, recorded_at)",
    """
    CREATE TABLE evidence (
        tenant text COLLATE "C" NOT NULL,
        operation_id text COLLATE "C" NOT NULL,
        evidence_id uuid NOT NULL,
        attempt integer NOT NULL,
        kind text COLLATE "C" NOT NULL,
        classification text COLLATE "C" NOT NULL,
        reasons text[] COLLATE "C" NOT NULL,
        source text COLLATE "C" NOT NULL,
        actor text COLLATE "C" NOT NULL,
        adapter text COLLATE "C" NOT NULL,
        adapter_revision text COLLATE "C" NOT NULL,
        policy text COLLATE "C" NOT NULL,
        observed_at timestamptz,
        received_at timestamptz NOT NULL,
        provider_receipt text COLLATE "C",
        digest bytea,
        fact bytea NOT NULL,
        payload_digest bytea,
        body jsonb,
        CONSTRAINT evidence_pkey PRIMARY KEY (tenant, operation_id, evidence_id),
        CONSTRAINT evidence_classification_is_known
            CHECK (classification IN ('AUTHORITATIVE', 'CORROBORATING', 'ESTIMATE', 'REJECTED', 'CONFLICTING', 'PARKED')),
        CONSTRAINT evidence_what_resolves_is_kept_whole CHECK (body IS NOT NULL OR classification <> 'AUTHORITATIVE')
    )
    """,
    """
    CREATE TABLE parked (
        tenant text COLLATE "C" NOT NULL,
        operation_id text COLLATE "C" NOT NULL,
        evidence_id uuid NOT NULL,
        identity bytea NOT NULL,
        kind text COLLATE "C" NOT NULL,
        source text COLLATE "C" NOT NULL,
        actor text COLLATE "C" NOT NULL,
        role text COLLATE "C" NOT NULL,
        attempt integer NOT NULL,
        report jsonb NOT NULL,
        parked_at timestamptz NOT NULL,
        CONSTRAINT parked_pkey PRIMARY KEY (tenant, operation_id, evidence_id),
        CONSTRAINT parked_role_may_report CHECK (role IN ('gateway', 'finance'))
    )
    """,
    "CREATE UNIQUE INDEX parked_once ON parked (tenant, operation_id, identity)",
    """
    CREATE TABLE observation (
        tenant text COLLATE "C" NOT NULL,
        operation_id text COLLATE "C" NOT NULL,
        observation_id uuid NOT NULL,
        axis text COLLATE "C" NOT NULL,
        value text COLLATE "C" NOT NULL,
        attempt integer NOT NULL,
        source text COLLATE "C" NOT NULL,
        actor text COLLATE "C" NOT NULL,
        adapter text COLLATE "C" NOT NULL,
        adapter_revision text COLLATE "C" NOT NULL,
        observed_at timestamptz,
        received_at timestamptz NOT NULL,
        provider text COLLATE "C",
        provider_receipt text COLLATE "C",
        detail jsonb NOT NULL,
        CONSTRAINT observation_pkey PRIMARY KEY (tenant, operation_id, observation_id),
        CONSTRAINT observation_value_is_of_its_axis CHECK (
            axis = 'DELIVERY' AND value IN ('NOTHING', 'PARTIAL', 'COMPLETE', 'UNKNOWN')
            OR axis = 'EXECUTION' AND value IN ('NOT_SENT', 'REJECTED', 'ACCEPTED', 'EXECUTED', 'UNKNOWN')
        ),
        CONSTRAINT observation_receipt_is_of_a_provider CHECK ((provider IS NULL) = (provider_receipt IS NULL))
    )
    """,
    """
    CREATE UNIQUE INDEX observation_one_per_provider_receipt
        ON observation (tenant, provider, provider_receipt)
        WHERE provider_receipt IS NOT NULL
    """,
    """
    CREATE TABLE resolution (
        tenant text COLLATE "C" NOT NULL,
        operation_id text COLLATE "C" NOT NULL,
        revision integer NOT NULL,
        kind text COLLATE "C" NOT NULL,
        digest bytea NOT NULL,
        supersedes bytea,
        amount numeric(38,18) NOT NULL,
        currency text COLLATE "C" NOT NULL,
        cost_over_hold numeric(38,18) NOT NULL,
        lines jsonb NOT NULL,
        passed_ceilings text[] COLLATE "C" NOT NULL,
        evidence_id uuid,
        entry_id uuid,
        actor text COLLATE "C" NOT NULL,
        reason text COLLATE "C",
        recorded_at timestamptz NOT NULL,
        CONSTRAINT resolution_pkey PRIMARY KEY (tenant, operation_id, revision),
        CONSTRAINT resolution_revisions_start_at_one CHECK (revision >= 1),
        CONSTRAINT resolution_later_revision_names_what_it_replaces CHECK ((revision = 1) = (supersedes IS NULL))
    )
    """,
    """
    CREATE TABLE incident (
        tenant text COLLATE "C" NOT NULL,
        incident_id uuid NOT NULL,
        kind text COLLATE "C" NOT NULL,
        operation_id text COLLATE "C" NOT NULL,
        opened_at timestamptz NOT NULL,
        detail jsonb NOT NULL,
        CONSTRAINT incident_pkey PRIMARY KEY (tenant, incident_id)
    )
    """,
    "CREATE INDEX incident_opened ON incident (tenant, opened_at, incident_id)",
    "CREATE INDEX incident_operation ON incident (tenant, operation_id)",
    """
    CREATE TABLE budget_grant (
        tenant text COLLATE "C" NOT NULL,
        budget_id text COLLATE "C" NOT NULL,
        reference text COLLATE "C" NOT NULL,
        amount numeric(38,18) NOT NULL,
        entry_id uuid NOT NULL,
        actor text COLLATE "C" NOT NULL,
        recorded_at timestamptz NOT NULL,
        CONSTRAINT budget_grant_pkey PRIMARY KEY (tenant, budget_id, reference)
    )
    """,
    """
    CREATE TABLE evidence_policy (
        tenant text COLLATE "C" NOT NULL,
        provider text COLLATE "C" NOT NULL,
        version integer NOT NULL,
        digest bytea NOT NULL,
        document jsonb NOT NULL,
        created_at timestamptz NOT NULL,
        CONSTRAINT evidence_policy_pkey PRIMARY KEY (tenant, provider, version),
        CONSTRAINT evidence_policy_versions_start_at_one CHECK (version >= 1)
    )
    """,
    """
    CREATE TABLE price_card (
        tenant text COLLATE "C" NOT NULL,
        card_id text COLLATE "C" NOT NULL,
        version integer NOT NULL,
        provider text COLLATE "C" NOT NULL,
        model text COLLATE "C" NOT NULL,
        digest bytea NOT NULL,
        document jsonb NOT NULL,
        created_at timestamptz NOT NULL,
        CONSTRAINT price_card_pkey PRIMARY KEY (tenant, card_id, version),
        CONSTRAINT price_card_versions_start_at_one CHECK (version >= 1)
    )
    """,
    """
    CREATE TABLE outbox (
        tenant text COLLATE "C" NOT NULL,
        epoch integer NOT NULL,
        position bigint NOT NULL,
        turn bigint NOT NULL,
        xid bigint NOT NULL,
        cluster bigint NOT NULL,
        recorded_at timestamptz NOT NULL,
        events json NOT NULL,
        CONSTRAINT outbox_pkey PRIMARY KEY (tenant, epoch, position, turn, xid),
        CONSTRAINT outbox_position_is_not_before_its_transaction CHECK (position >= xid),
        CONSTRAINT outbox_epochs_start_at_one CHECK (epoch >= 1)
    )
    """,
    "ALTER TABLE outbox ALTER COLUMN events SET STORAGE EXTERNAL",
)


def upgrade() -> None:
    for statement in STATEMENTS:
        op.execute(statement)
