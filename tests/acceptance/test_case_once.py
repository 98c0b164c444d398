"""Cases from the field: once and only once. Over the real service and database."""

import psycopg
import pytest

from ledger.v1 import hold_pb2
from tests.acceptance.harness import refused
from tests.acceptance.tenant import Tenant, at_once, fault, fixed


def test_two_settles_with_the_same_usage_and_other_response_ids_are_one_fact(acme: Tenant) -> None:
    acme.budget()
    acme.reserve("op-1", "6", send=True)
    acme.charge("op-1", "5", response_id="msg-1", provider_receipt="r-1")
    again = acme.charge("op-1", "5", response_id="msg-2", provider_receipt="r-1")
    assert (again.replayed, again.incident_id) == (True, "")
    assert acme.entries("op-1") == ["RESERVE", "SETTLE"]
    assert acme.incidents("op-1") == []


def test_another_provider_receipt_posts_nothing_and_is_a_double_acceptance(acme: Tenant) -> None:
    acme.budget()
    acme.reserve("op-1", "6", send=True)
    acme.charge("op-1", "5", provider_receipt="r-1")
    again = acme.charge("op-1", "5", provider_receipt="r-2")
    assert again.replayed
    assert again.incident_id
    ((kind, detail),) = acme.incidents("op-1")
    assert kind == "DOUBLE_ACCEPTANCE"
    assert (detail["provider_receipt_in_force"], detail["provider_receipt"]) == ("r-1", "r-2")
    assert acme.postings("SPENT") == ["-5"]


def test_other_usage_of_a_settled_hold_is_a_conflict_that_names_both_digests(acme: Tenant) -> None:
    acme.budget()
    acme.reserve("op-1", "6", send=True)
    in_force = acme.charge("op-1", "5").hold.resolution.digest
    with refused("RESOLUTION_CONFLICT") as told:
        acme.charge("op-1", "4.5")
    assert told.metadata["digest_in_force"] == in_force != told.metadata["digest"]
    ((kind, detail),) = acme.incidents("op-1")
    assert (kind, detail["digest"]) == ("RESOLUTION_CONFLICT", told.metadata["digest"])
    assert acme.postings("SPENT") == ["-5"]


@pytest.mark.parametrize("table", ["hold", "book", "entry", "posting", "evidence", "resolution", "receipt"])
def test_a_fault_between_freeing_the_hold_and_posting_the_cost_leaves_both_or_neither(acme: Tenant, table: str) -> None:
    """Wherever the write fails: neither. And the same key, sent again, does both."""
    acme.budget()
    acme.reserve("op-1", "6", send=True)
    before = acme.balances()
    with fault(acme, table), refused("INTERNAL"):
        acme.charge("op-1", "5", response_id="msg-1")
    assert acme.stands("op-1") == "DISPATCHING"
    assert acme.balances() == before == {"authority": "100", "available": "94", "held": "6"}
    assert not acme.charge("op-1", "5", response_id="msg-1").replayed
    assert acme.stands("op-1") == "SETTLED 5"
    assert acme.balances() == {"authority": "100", "available": "95", "spent": "5"}
    assert (acme.postings("HELD"), acme.postings("SPENT")) == (["-6", "6"], ["-5"])


def test_a_fault_of_one_settlement_does_not_keep_its_neighbours_in_the_batch_from_theirs(acme: Tenant) -> None:
    acme.budget()
    other = Tenant(acme.live, acme.live.next_tenant())
    for tenant in (acme, other):
        tenant.budget()
        tenant.reserve("op-1", "6", send=True)
    with fault(acme, "posting"):
        told = at_once(*[lambda tenant=tenant: tenant.charge("op-1", "5").replayed for tenant in (acme, other) * 4])
    assert told[::2] == ["INTERNAL"] * 4
    assert sorted(told[1::2]) == [False, True, True, True]
    assert (acme.stands("op-1"), other.stands("op-1")) == ("DISPATCHING", "SETTLED 5")


def test_the_same_top_up_twice_is_once(acme: Tenant) -> None:
    acme.budget(limit="10")
    told = at_once(*[lambda: acme.grant("5", "invoice-1", key="k1").replayed for _ in range(8)])
    assert sorted(told) == [False] + [True] * 7
    # Without its key it is still the same invoice.
    assert acme.grant("5", "invoice-1").replayed
    with refused("IDEMPOTENCY_MISMATCH"):
        acme.grant("6", "invoice-1", key="k1")
    assert acme.balances() == {"authority": "15", "available": "15"}


def test_the_same_key_with_another_amount_writes_nothing(acme: Tenant) -> None:
    acme.budget()
    acme.reserve("op-1", "10", key="k1")
    for operation in ("op-1", "op-2"):
        with refused("IDEMPOTENCY_MISMATCH"):
            acme.reserve(operation, "20", key="k1")
    with refused("NOT_FOUND"):
        acme.hold("op-2")
    assert acme.balances() == {"authority": "100", "available": "90", "held": "10"}
    assert acme.reserve("op-1", "10", key="k1").replayed


def test_settles_at_the_same_moment_post_once(acme: Tenant) -> None:
    acme.budget()
    acme.reserve("op-1", "6", send=True)
    calls = [lambda by=by: acme.charge("op-1", "5", by=by).replayed for by in ("gateway", "finance") * 8]
    assert sorted(at_once(*calls)) == [False] + [True] * 15
    assert (acme.postings("HELD"), acme.postings("SPENT")) == (["-6", "6"], ["-5"])


def test_of_different_settles_at_the_same_moment_one_stands_and_the_others_are_conflicts(acme: Tenant) -> None:
    acme.budget()
    acme.reserve("op-1", "6", send=True)
    told = at_once(*[lambda cost=cost: acme.charge("op-1", f"{cost}").replayed for cost in (1, 2, 3, 4)])
    assert told.count("RESOLUTION_CONFLICT") == 3
    assert len(acme.postings("SPENT")) == 1
    assert len(acme.incidents("op-1")) == 3


def test_a_cost_above_the_hold_is_never_cut_to_it(acme: Tenant) -> None:
    acme.budget()
    acme.reserve("strict", "1.00", send=True)
    with refused("EVIDENCE_REJECTED"):
        acme.charge("strict", "1.20")
    assert (acme.stands("strict"), acme.balances()["held"]) == ("DISPATCHING", "1")
    # A gateway may not say so.
    with refused("EVIDENCE_REJECTED"):
        acme.charge("strict", "1.20", accept="it is what they charged")
    accepted = acme.charge("strict", "1.20", by="finance", accept="the provider's statement of March").hold.resolution
    assert (accepted.amount.amount, accepted.cost_over_hold.amount) == ("1.2", "0.2")

    acme.reserve("tolerant", fixed("1.00", tolerance="0.20"), send=True)
    within = acme.charge("tolerant", "1.20").hold.resolution
    assert (within.amount.amount, within.cost_over_hold.amount) == ("1.2", "0.2")
    assert acme.balances() == {"authority": "100", "available": "97.6", "spent": "2.4"}


def test_a_bill_for_a_hold_that_ended_without_cost_is_a_case_and_the_end_stays(acme: Tenant) -> None:
    acme.budget()
    acme.reserve("released", "6")
    acme.release("released")
    acme.reserve("no-cost", "6", send=True)
    acme.never_sent("no-cost")
    for operation, end in (("released", "RELEASED 0"), ("no-cost", "SETTLED 0")):
        with refused("RESOLUTION_CONFLICT"):
            acme.charge(operation, "5", by="finance", source=hold_pb2.EVIDENCE_SOURCE_STATEMENT)
        assert acme.stands(operation) == end
        assert [kind for kind, _ in acme.incidents(operation)] == ["RESOLUTION_CONFLICT"]
    assert acme.balances() == {"authority": "100", "available": "100"}


def test_a_settle_before_the_dispatch_was_recorded_applies_and_the_late_dispatch_may_not_send(acme: Tenant) -> None:
    acme.budget()
    acme.reserve("op-1", "6")
    settled = acme.charge("op-1", "5", provider_receipt="r-1").hold
    assert settled.attempt.inferred
    late = acme.dispatch("op-1")
    assert not late.may_send
    assert (acme.stands("op-1"), acme.hold("op-1").version) == ("SETTLED 5", settled.version)
    assert acme.balances() == {"authority": "100", "available": "95", "spent": "5"}


def test_of_workers_that_begin_the_same_dispatch_with_the_same_key_one_may_send(acme: Tenant) -> None:
    acme.budget()
    acme.reserve("op-1", "6")
    calls = [
        lambda number=number: acme.dispatch("op-1", f"nonce-of-worker-{number}", "k1").may_send for number in range(8)
    ]
    assert sorted(at_once(*calls)) == [False] * 7 + [True]
    assert acme.hold("op-1").attempt.number == 1


def test_a_worker_that_may_not_send_cannot_free_the_money_of_the_one_that_does(acme: Tenant) -> None:
    """Both are replicas of one gateway: the same actor, and the same token."""
    acme.budget()
    acme.reserve("op-1", "6")
    assert acme.dispatch("op-1", "nonce-of-worker-1", "k1").may_send
    assert not acme.dispatch("op-1", "nonce-of-worker-2", "k1").may_send
    with refused("EVIDENCE_REJECTED") as told:
        acme.never_sent("op-1", "nonce-of-worker-2")
    assert "needs the nonce of the attempt" in told.metadata["reasons"]
    assert (acme.stands("op-1"), acme.balances()["held"]) == ("DISPATCHING", "6")
    acme.never_sent("op-1", "nonce-of-worker-1")
    assert acme.stands("op-1") == "SETTLED 0"
    with psycopg.connect(acme.live.database_url) as connection:
        kept = connection.execute("SELECT evidence::text FROM evidence WHERE tenant = %s", [acme.name]).fetchall()
    assert len(kept) == 2
    assert "nonce-of-worker" not in str(kept)


def test_what_comes_free_repays_the_deficit_first(acme: Tenant) -> None:
    acme.budget(limit="10")
    acme.reserve("op-1", "5", send=True)
    acme.reserve("op-2", "5", send=True)
    acme.charge("op-1", "7", by="finance", accept="agreed with the provider")
    assert acme.balances() == {"authority": "10", "held": "5", "spent": "7", "deficit": "2"}
    acme.charge("op-2", "2")
    # 3 come free: 2 repay the deficit, 1 is available.
    assert acme.balances() == {"authority": "10", "available": "1", "spent": "9"}
    with refused("INSUFFICIENT_BUDGET") as told:
        acme.reserve("op-3", "3")
    assert told.metadata["available"] == "1"


def test_a_refused_reserve_does_not_claim_its_operation(acme: Tenant) -> None:
    acme.budget(limit="1")
    with refused("INSUFFICIENT_BUDGET"):
        acme.reserve("op-1", "5", key="k1")
    acme.grant("10", "invoice-1")
    # The permission that was refused stays refused under its key, and is given under another.
    with refused("INSUFFICIENT_BUDGET"):
        acme.reserve("op-1", "5", key="k1")
    assert not acme.reserve("op-1", "5", key="k2").replayed
    assert acme.balances() == {"authority": "11", "available": "6", "held": "5"}
