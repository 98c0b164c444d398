"""Corrections: a later revision on other evidence, with a linked entry of the difference. The terminal state stays."""

import pytest

from ledger.domain.money import plain
from tests.domain.table import run

ORG = "    adm: budget org USD 10 -> ok\n"
SETTLED = (
    ORG
    + """
    reserve op1 org 6 nonce=n1 -> ok send
    charge op1 5 -> ok
"""
)


def test_a_bill_for_a_released_hold_is_posted_and_the_hold_stays_released() -> None:
    run(
        ORG
        + """
    reserve op1 org 6 -> ok
    release op1 -> ok
    charge op1 5 -> RESOLUTION_CONFLICT says="Finance may Correct it"
    fin: correct op1 charge 5 source=STATEMENT receipt=r1 reason="invoice 7" -> ok
    hold op1 RELEASED settled=5 revision=2 attempt=1 inferred=yes execution_seen=yes provider_receipt=r1
    resolution op1 NEVER_DISPATCHED revision=1 amount=0
    resolution op1 USAGE revision=2 amount=5 cost_over_hold=0 reason="invoice 7"
    entries op1 RESERVE RELEASE CORRECT
    evidence op1 CONFLICTING AUTHORITATIVE
    balance org available=5 held=0 spent=5
    expense acme refunds 5
    release op1 -> unchanged replayed
    dispatch op1 nonce=n9 -> unchanged RESOLVED   # nobody may send on it
    """
    )


def test_a_bill_after_a_proof_of_no_cost_is_posted_and_rules_the_proof_out() -> None:
    run(
        ORG
        + """
    reserve op1 org 6 nonce=n1 -> ok send
    proof op1 NEVER_SENT cause=DNS_FAILURE nonce=n1 -> ok
    fin: correct op1 charge 5 source=STATEMENT -> ok
    hold op1 SETTLED settled=5 revision=2 attempt=1 inferred=no execution_seen=yes
    balance org available=5 held=0 spent=5
    entries op1 RESERVE SETTLE CORRECT
    fin: correct op1 proof NEVER_SENT cause=DNS_FAILURE -> EVIDENCE_REJECTED says="usage of zero"
    fin: correct op1 charge 0 source=OPERATOR -> ok
    resolution op1 USAGE revision=3 amount=0
    balance org available=10 held=0 spent=0
    """
    )


def test_a_settled_cost_goes_up_and_down_by_the_difference() -> None:
    world = run(
        SETTLED
        + """
    fin: correct op1 charge 6 -> ok
    balance org available=4 held=0 spent=6 deficit=0
    fin: correct op1 charge 2 observed=09:00 reason="credit note" -> ok
    balance org available=8 held=0 spent=2 deficit=0
    fin: correct op1 charge 5 -> ok                             # back to the first fact, as a fourth revision
    balance org available=5 spent=5
    expense acme refunds 5
    entries op1 RESERVE SETTLE CORRECT CORRECT CORRECT
    evidence op1 AUTHORITATIVE AUTHORITATIVE AUTHORITATIVE AUTHORITATIVE
    """
    )
    spent = [plain(p.amount) for p in world.postings if p.account == "SPENT"]
    assert spent == ["-5", "-1", "4", "-3"]
    payable = [plain(p.amount) for p in world.postings if p.account == "PAYABLE"]
    assert payable == ["-5", "-1", "4", "-3"]
    credit_note = [e for e in world.entries.values() if e.effective_at.hour == 9]
    assert [e.kind for e in credit_note] == ["CORRECT"]


def test_a_refusal_by_the_provider_corrects_usage_to_nothing() -> None:
    run(
        SETTLED
        + """
    fin: correct op1 proof REJECTED_BEFORE_EXECUTION status=429 request=q1 -> ok
    resolution op1 NO_COST revision=2 amount=0
    hold op1 SETTLED settled=0 execution_seen=yes
    balance org available=10 spent=0
    expense acme refunds 0
    """
    )


def test_a_receipt_of_the_provider_rules_out_that_there_was_no_cost() -> None:
    run(
        ORG
        + """
    reserve op1 org 6 nonce=n1 -> ok send
    charge op1 5 receipt=r1 -> ok
    fin: correct op1 proof REJECTED_BEFORE_EXECUTION status=429 request=q1 -> EVIDENCE_REJECTED says="receipt r1"
    fin: correct op1 charge 0 receipt=r1 -> ok
    balance org available=10 spent=0
    """
    )


def test_beyond_what_is_available_a_correction_is_deficit_and_one_back_repays_it_first() -> None:
    run(
        ORG
        + """
    reserve op1 org 6 nonce=n1 -> ok send
    charge op1 5 -> ok
    reserve op2 org 4 -> ok
    balance org available=1 held=4 spent=5 deficit=0
    fin: correct op1 charge 9 accept="the invoice" reason="bill" -> ok
    balance org available=0 held=4 spent=9 deficit=3            # 10 + 3 = 0 + 4 + 9
    resolution op1 USAGE revision=2 amount=9 cost_over_hold=3 reason="bill; the invoice"
    reserve op3 org 1 -> INSUFFICIENT_BUDGET deficit=3
    fin: correct op1 charge 7 accept="the invoice" -> ok
    balance org available=0 held=4 spent=7 deficit=1
    fin: correct op1 charge 4.5 -> ok
    balance org available=1.5 held=4 spent=4.5 deficit=0
    """
    )


def test_each_level_takes_and_gives_by_its_own_book() -> None:
    run("""
    adm: budget org USD 100 -> ok
    adm: budget team USD 6 under=org -> ok
    adm: budget free USD unlimited -> ok
    reserve op1 team,free 5 nonce=n1 -> ok send
    charge op1 2 -> ok
    fin: correct op1 charge 9 accept=agreed -> ok
    balance org available=91 spent=9 deficit=0
    balance team available=0 spent=9 deficit=3
    balance free available=-9 spent=9 deficit=0
    fin: correct op1 charge 1 -> ok
    balance org available=99 spent=1
    balance team available=5 spent=1 deficit=0
    balance free available=-1 spent=1
    """)


def test_an_overrun_needs_its_reason_as_in_resolve() -> None:
    run(
        ORG
        + """
    reserve op1 org 5 tolerance=0.5 nonce=n1 -> ok send
    charge op1 5 -> ok
    fin: correct op1 charge 5.6 -> EVIDENCE_REJECTED says="above hold 5 and tolerance 0.5"
    fin: correct op1 charge 5.5 -> ok
    resolution op1 USAGE revision=2 cost_over_hold=0.5
    evidence op1 AUTHORITATIVE REJECTED AUTHORITATIVE
    """
    )


def test_another_digest_than_the_one_in_force_changes_nothing() -> None:
    world = run(
        SETTLED
        + """
    fin: correct op1 charge 4 -> ok
    fin: correct op1 charge 3 of=1 key=late -> DIGEST_NOT_IN_FORCE state=SETTLED says="look at it"
    fin: correct op1 charge 3 of=0 -> DIGEST_NOT_IN_FORCE
    evidence op1 AUTHORITATIVE AUTHORITATIVE
    balance org spent=4
    fin: correct op1 charge 3 of=1 key=late -> DIGEST_NOT_IN_FORCE replayed
    fin: correct op1 charge 3 key=late -> IDEMPOTENCY_MISMATCH
    """
    )
    first, second = world.resolutions
    refused = world.receipts[("t1", "fin", "Correct", "late")].refusal
    assert refused is not None
    told = refused["metadata"]
    assert (told["digest"], told["digest_in_force"]) == (first.digest.hex(), second.digest.hex())


def test_an_open_hold_is_not_corrected_and_neither_is_none() -> None:
    run(
        ORG
        + """
    fin: correct op1 charge 5 -> NOT_FOUND
    reserve op1 org 6 -> ok
    fin: correct op1 charge 5 -> HOLD_STATE state=RESERVED says="Resolve it"
    dispatch op1 nonce=n1 -> ok send
    fin: correct op1 charge 5 -> HOLD_STATE state=DISPATCHING
    unknown op1 -> ok
    fin: correct op1 charge 5 -> HOLD_STATE state=OUTCOME_UNKNOWN recovery_action=no_replay
    """
    )


@pytest.mark.parametrize("kind", ["NEVER_SENT cause=DNS_FAILURE", "GATEWAY_CACHE_HIT"])
def test_a_released_hold_needs_no_proof_that_it_was_not_sent(kind: str) -> None:
    run(
        ORG
        + f"""
    reserve op1 org 6 -> ok
    release op1 -> ok
    fin: correct op1 proof {kind} -> HOLD_STATE says="never dispatched"
    fin: correct op1 proof REJECTED_BEFORE_EXECUTION status=429 request=q1 -> ok
    hold op1 RELEASED settled=0 revision=2 attempt=1 execution_seen=no
    fin: correct op1 proof {kind} -> unchanged replayed         # nothing new: it cost nothing
    entries op1 RESERVE RELEASE
    """
    )


def test_evidence_of_what_is_in_force_is_corroboration() -> None:
    run(
        SETTLED
        + """
    fin: correct op1 charge 5 source=STATEMENT receipt=r1 -> unchanged replayed
    hold op1 SETTLED revision=1 provider_receipt=r1
    evidence op1 AUTHORITATIVE CORROBORATING
    fin: correct op1 charge 5 source=STATEMENT receipt=r2 -> unchanged replayed incident
    entries op1 RESERVE SETTLE
    """
    )


def test_another_receipt_of_the_provider_is_a_second_acceptance() -> None:
    run(
        ORG
        + """
    reserve op1 org 6 nonce=n1 -> ok send
    charge op1 5 receipt=r1 -> ok
    fin: correct op1 charge 4 receipt=r2 -> ok incident
    hold op1 SETTLED settled=4 provider_receipt=r1
    fin: correct op1 charge 3 receipt=r3 provider=other -> EVIDENCE_REJECTED
    fin: correct op1 charge 7 receipt=r3 -> EVIDENCE_REJECTED says=above
    incidents op1 DOUBLE_ACCEPTANCE DOUBLE_ACCEPTANCE provider_receipt=r3
    """
    )


def test_refused_evidence_is_kept_and_the_key_remembers() -> None:
    run(
        SETTLED
        + """
    fin: correct op1 charge 4 attempt=2 key=k -> EVIDENCE_REJECTED says="attempt 2 is not the hold's attempt 1"
    fin: correct op1 charge 4 attempt=2 key=k -> EVIDENCE_REJECTED replayed
    fin: correct op1 charge 4 source=GATEWAY_ESTIMATE -> EVIDENCE_REJECTED
    fin: correct op1 charge 4 attempt=1 -> ok
    evidence op1 AUTHORITATIVE REJECTED ESTIMATE AUTHORITATIVE
    """
    )


def test_what_was_superseded_is_a_replay_that_says_so() -> None:
    world = run(
        ORG
        + """
    reserve op1 org 6 nonce=n1 -> ok send
    charge op1 5 key=first -> ok
    charge op1 5 source=WEBHOOK key=again -> unchanged replayed
    charge op1 5 key=first -> unchanged replayed
    after 1s
    fin: correct op1 charge 4 key=c -> ok
    fin: correct op1 charge 4 of=1 key=c -> unchanged replayed
    charge op1 5 key=first -> unchanged replayed superseded
    charge op1 5 source=WEBHOOK key=again -> unchanged replayed superseded
    charge op1 5 source=PROVIDER_RECORD -> unchanged replayed superseded
    charge op1 4 source=PROVIDER_RECORD -> unchanged replayed
    charge op1 3 -> RESOLUTION_CONFLICT amount_in_force=4
    after 1s
    fin: correct op1 charge 2 -> ok
    fin: correct op1 charge 4 of=1 key=c -> unchanged replayed superseded
    charge op1 4 source=WEBHOOK receipt=r1 -> unchanged replayed superseded
    charge op1 4 source=WEBHOOK receipt=r2 -> unchanged replayed incident superseded
    after 1s
    fin: correct op1 charge 5 -> ok
    charge op1 5 key=first -> unchanged replayed                # it is in force again
    charge op1 4 source=WEBHOOK receipt=r1 -> unchanged replayed superseded
    balance org spent=5
    """
    )
    assert [r.revision for r in world.resolutions] == [1, 2, 3, 4]


def test_other_facts_of_the_same_amount_are_a_revision_without_an_entry() -> None:
    # 1000 of 2 in at 3 and 500 of 10 out; the statement has other quantities that come to the same: 0.008.
    world = run(
        ORG
        + """
    adm: card gpt USD in=3 out=10 max_in=10000 max_out=10000 -> ok
    reserve op1 org card=gpt nonce=n1 -> ok send
    usage op1 in=1000 out=500 -> ok
    hold op1 SETTLED settled=0.008
    fin: correct op1 usage in=2000 out=200 source=STATEMENT -> ok
    hold op1 SETTLED settled=0.008 revision=2
    resolution op1 USAGE revision=2 entry_id=none
    fin: correct op1 usage in=3000 out=200 -> ok
    balance org spent=0.011
    entries op1 RESERVE SETTLE CORRECT
    """
    )
    settle, correction = [e for e in world.entries.values() if e.kind in {"SETTLE", "CORRECT"}]
    assert correction.corrects == settle.entry_id


def test_a_correction_of_nothing_posted_is_linked_to_nothing() -> None:
    world = run(
        ORG
        + """
    reserve op1 org 0 -> ok
    release op1 -> ok
    fin: correct op1 charge 1 accept=agreed -> ok
    entries op1 CORRECT
    balance org available=9 spent=1
    """
    )
    assert [e.corrects for e in world.entries.values() if e.kind == "CORRECT"] == [None]


def test_a_stripe_may_go_below_zero_but_not_the_sum_of_the_stripes() -> None:
    world = run(SETTLED)
    world.stripe = 5
    run("    fin: correct op1 charge 2 key=c -> ok\n    expense acme refunds 2", world)
    assert [plain(b.expense) for b in world.books.values() if b.budget_id is None] == ["5", "-3"]


def test_a_cost_that_no_balance_can_hold_is_kept_and_not_booked() -> None:
    # The most is 20 digits before the point; 6e19 is spent already, and another 6e19 is more.
    run("""
    adm: budget org USD unlimited -> ok
    reserve op1 org 1 nonce=n1 -> ok send
    fin: charge op1 60000000000000000000 accept=agreed -> ok
    reserve op2 org 1 nonce=n2 -> ok send
    charge op2 1 -> ok
    fin: correct op2 charge 60000000000000000000 accept=agreed -> EVIDENCE_REJECTED says="book org#0 would be above"
    balance org spent=60000000000000000001
    fin: correct op1 charge 0 -> ok
    balance org spent=1
    """)


def test_another_observation_of_what_was_superseded_is_a_replay_too() -> None:
    # Other request ids and documents are other observations, of what comes to the same digest.
    run(
        ORG
        + """
    reserve op1 org 6 nonce=n1 -> ok send
    proof op1 REJECTED_BEFORE_EXECUTION status=429 request=q1 -> ok
    fin: correct op1 charge 5 -> ok
    proof op1 REJECTED_BEFORE_EXECUTION status=400 request=q2 -> unchanged replayed superseded
    adm: card gpt USD in=3 out=10 max_in=10000 max_out=10000 -> ok
    reserve op2 org card=gpt nonce=n2 -> ok send
    usage op2 in=1000 out=500 -> ok
    fin: correct op2 usage in=2000 out=500 -> ok
    usage op2 in=1000 out=500 tier=standard -> unchanged replayed superseded
    usage op2 in=1000 out=501 -> RESOLUTION_CONFLICT
    """
    )
