"""Cases from the field: what turned out otherwise after the end. Over the real service and database."""

from typing import Any

import pytest

from ledger.v1 import error_pb2, hold_pb2, journal_pb2
from tests.acceptance.harness import refused
from tests.acceptance.tenant import Tenant, at_once, metered

REFUSED_BY_PROVIDER = hold_pb2.NoCostProof(
    kind=hold_pb2.NO_COST_KIND_REJECTED_BEFORE_EXECUTION, provider_status=429, provider_request_id="request-1"
)


def correction_of(acme: Tenant, operation: str) -> journal_pb2.Entry:
    """The one entry of kind CORRECT."""
    found = acme.finance.journal.ListEntries(journal_pb2.ListEntriesRequest(operation_id=operation)).entries
    entry: journal_pb2.Entry
    (entry,) = [entry for entry in found if entry.kind == journal_pb2.ENTRY_KIND_CORRECT]
    return entry


def expense(acme: Tenant) -> str:
    request = journal_pb2.GetBalanceRequest(account=journal_pb2.ACCOUNT_EXPENSE, provider="psp", currency="USD")
    amount: str = acme.finance.journal.GetBalance(request).balance.amount
    return amount


def test_a_bill_for_a_hold_that_was_released_is_posted_and_the_end_stays(acme: Tenant) -> None:
    acme.budget()
    acme.reserve("op-1", "6")
    acme.release("op-1")
    with refused("RESOLUTION_CONFLICT") as told:
        acme.charge("op-1", "5")
    answer = acme.bill("op-1", "5", digest=told.metadata["digest_in_force"], provider_receipt="r-1")
    assert (answer.replayed, answer.superseded_by, answer.incident_id) == (False, "", "")
    assert acme.stands("op-1") == "RELEASED 5"
    assert acme.balances() == {"authority": "100", "available": "95", "spent": "5"}
    assert expense(acme) == "5"
    hold = acme.hold("op-1")
    assert (hold.attempt.number, hold.attempt.inferred, hold.attempt.provider_receipt) == (1, True, "r-1")
    first, second = acme.revisions("op-1")
    assert (first.kind, first.amount.amount, first.supersedes) == (
        hold_pb2.RESOLUTION_KIND_NEVER_DISPATCHED,
        "0",
        "",
    )
    assert (second.kind, second.amount.amount, second.supersedes) == (
        hold_pb2.RESOLUTION_KIND_USAGE,
        "5",
        first.digest,
    )
    assert (second.actor, second.reason) == ("finance-1", "the bill of March")
    entry = correction_of(acme, "op-1")
    assert (entry.entry_id, entry.corrects) == (second.entry_id, first.entry_id)
    assert acme.entries("op-1") == ["RESERVE", "RELEASE", "CORRECT"]


def test_a_bill_after_an_accepted_proof_of_no_cost_is_posted_and_the_end_stays(acme: Tenant) -> None:
    acme.budget()
    acme.reserve("op-1", "6", send=True)
    acme.never_sent("op-1")
    acme.bill("op-1", "5")
    assert acme.stands("op-1") == "SETTLED 5"
    assert acme.balances() == {"authority": "100", "available": "95", "spent": "5"}
    assert acme.postings("SPENT") == ["-5"]
    again = acme.never_sent("op-1")
    assert (again.replayed, again.superseded_by) == (True, acme.hold("op-1").resolution.digest)
    assert acme.incidents("op-1") == []


def test_a_cost_goes_up_into_the_deficit_and_down_out_of_it(acme: Tenant) -> None:
    acme.budget(limit="10")
    acme.reserve("op-1", "6", send=True)
    acme.charge("op-1", "5")
    acme.reserve("op-2", "4")
    with refused("EVIDENCE_REJECTED"):
        acme.bill("op-1", "9")
    up = acme.bill("op-1", "9", accept="the invoice")
    assert up.hold.resolution.cost_over_hold.amount == "3"
    # 10 + 3 = 0 + 4 + 9
    assert acme.balances() == {"authority": "10", "held": "4", "spent": "9", "deficit": "3"}
    acme.bill("op-1", "4.5")
    assert acme.balances() == {"authority": "10", "available": "1.5", "held": "4", "spent": "4.5"}
    assert acme.postings("SPENT") == ["-5", "-4", "4.5"]
    assert expense(acme) == "4.5"
    acme.correct("op-1", no_cost=REFUSED_BY_PROVIDER)
    assert acme.stands("op-1") == "SETTLED 0"
    assert acme.balances() == {"authority": "10", "available": "6", "held": "4"}
    assert expense(acme) == "0"
    assert [(r.revision, r.amount.amount) for r in acme.revisions("op-1")] == [(1, "5"), (2, "9"), (3, "4.5"), (4, "0")]


def test_a_correction_of_another_digest_than_the_one_in_force_is_refused_and_stays_so(acme: Tenant) -> None:
    acme.budget()
    acme.reserve("op-1", "6", send=True)
    first = acme.charge("op-1", "5").hold.resolution.digest
    second = acme.bill("op-1", "4", digest=first, key="k-4").hold.resolution.digest
    for _ in range(2):
        with refused("DIGEST_NOT_IN_FORCE") as told:
            acme.bill("op-1", "3", digest=first, key="k-3")
        assert (told.metadata["digest"], told.metadata["digest_in_force"]) == (first, second)
    assert acme.stands("op-1") == "SETTLED 4"
    # The key of the first correction: done once, and then superseded by a third revision.
    assert acme.bill("op-1", "4", digest=first, key="k-4").superseded_by == ""
    third = acme.bill("op-1", "3").hold.resolution.digest
    again = acme.bill("op-1", "4", digest=first, key="k-4")
    assert (again.replayed, again.superseded_by, again.hold.resolution.digest) == (True, third, third)
    assert acme.postings("SPENT") == ["-5", "1", "1"]


def test_of_two_corrections_of_one_digest_at_the_same_moment_one_wins(acme: Tenant) -> None:
    acme.budget()
    acme.reserve("op-1", "6", send=True)
    digest = acme.charge("op-1", "5").hold.resolution.digest
    told = at_once(
        *[lambda cost=cost: acme.bill("op-1", cost, digest=digest).replayed for cost in ("1", "2", "3", "4")]
    )
    assert sorted(map(str, told)) == ["DIGEST_NOT_IN_FORCE"] * 3 + ["False"]
    assert acme.hold("op-1").resolution.revision == 2
    assert len(acme.postings("SPENT")) == 2


def test_the_same_key_at_the_same_moment_corrects_once(acme: Tenant) -> None:
    acme.budget()
    acme.reserve("op-1", "6", send=True)
    digest = acme.charge("op-1", "5").hold.resolution.digest
    told = at_once(*[lambda: acme.bill("op-1", "4", digest=digest, key="k-1").replayed for _ in range(8)])
    assert sorted(told) == [False] + [True] * 7
    assert acme.postings("SPENT") == ["-5", "1"]
    with refused("IDEMPOTENCY_MISMATCH"):
        acme.bill("op-1", "3", digest=digest, key="k-1")


def test_a_settle_that_is_sent_again_after_a_correction_learns_of_it(acme: Tenant) -> None:
    acme.budget()
    acme.reserve("op-1", "6", send=True)
    acme.charge("op-1", "5", response_id="msg-1")
    in_force = acme.bill("op-1", "4").hold.resolution.digest
    for response_id in ("msg-1", "msg-2"):  # under its key, and under another
        again = acme.charge("op-1", "5", response_id=response_id)
        assert (again.replayed, again.superseded_by) == (True, in_force)
    agrees = acme.charge("op-1", "4")
    assert (agrees.replayed, agrees.superseded_by) == (True, "")
    with refused("RESOLUTION_CONFLICT"):
        acme.charge("op-1", "3")
    assert acme.postings("SPENT") == ["-5", "1"]


def test_evidence_of_what_is_in_force_is_corroboration(acme: Tenant) -> None:
    acme.budget()
    acme.reserve("op-1", "6", send=True)
    acme.charge("op-1", "5", provider_receipt="r-1")
    assert acme.bill("op-1", "5").replayed
    twice = acme.bill("op-1", "5", provider_receipt="r-2")
    assert twice.replayed
    assert twice.incident_id
    assert [kind for kind, _ in acme.incidents("op-1")] == ["DOUBLE_ACCEPTANCE"]
    assert [r.revision for r in acme.revisions("op-1")] == [1]


def test_usage_is_corrected_by_the_pinned_card(acme: Tenant) -> None:
    acme.budget()
    acme.card("gpt", "openai", "input_tokens 2", "output_tokens 10", max_in=1_000_000, max_out=100_000)
    acme.reserve("op-1", metered("gpt"), send=True)
    acme.count("op-1", "openai", input_tokens=1000, output_tokens=100)
    acme.card("gpt", "openai", "input_tokens 3", "output_tokens 30", max_in=1_000_000, max_out=100_000)
    usage = hold_pb2.UsageEvidence(
        source=hold_pb2.EVIDENCE_SOURCE_PROVIDER_RECORD,
        provider="openai",
        buckets=hold_pb2.BucketUsage(quantities={"input_tokens": 2000, "output_tokens": 300}),
    )
    acme.correct("op-1", usage=usage)
    # 2000 at 2 and 300 at 10, for a million.
    assert acme.stands("op-1") == "SETTLED 0.007"
    _, second = acme.revisions("op-1")
    assert [(line.bucket, line.quantity, line.rate, line.per, line.amount) for line in second.lines] == [
        ("input_tokens", 2000, "2", 1_000_000, "0.004"),
        ("output_tokens", 300, "10", 1_000_000, "0.003"),
    ]


def test_only_finance_corrects_and_only_what_has_ended(acme: Tenant) -> None:
    acme.budget()
    acme.reserve("op-1", "6", send=True)
    request = hold_pb2.CorrectRequest(
        idempotency_key="k", operation_id="op-1", digest_in_force="0" * 64, reason="r", no_cost=REFUSED_BY_PROVIDER
    )
    with refused("HOLD_STATE") as told:
        acme.finance.holds.Correct(request)
    assert told.metadata["state"] == "DISPATCHING"
    for caller in (acme.gateway, acme.admin):
        with refused("ROLE_NOT_ALLOWED"):
            caller.holds.Correct(request)
    with refused("ROLE_NOT_ALLOWED"):
        acme.gateway.holds.ListResolutions(hold_pb2.ListResolutionsRequest(operation_id="op-1"))
    assert acme.revisions("op-1") == []
    with refused("NOT_FOUND"):
        acme.revisions("op-2")


def test_a_batch_corrects_and_settles(acme: Tenant) -> None:
    acme.budget()
    for operation in ("op-1", "op-2"):
        acme.reserve(operation, "6", send=True)
    digest = acme.charge("op-1", "5").hold.resolution.digest
    correct = hold_pb2.CorrectRequest(
        idempotency_key="k-1",
        operation_id="op-1",
        digest_in_force=digest,
        reason="they had refused it",
        no_cost=REFUSED_BY_PROVIDER,
    )
    stale = hold_pb2.CorrectRequest()
    stale.CopyFrom(correct)
    stale.idempotency_key = "k-2"
    settle = hold_pb2.ResolveRequest(idempotency_key="k-3", operation_id="op-2", no_cost=REFUSED_BY_PROVIDER)
    commands = [hold_pb2.Command(correct=correct), hold_pb2.Command(correct=stale), hold_pb2.Command(resolve=settle)]
    results = acme.finance.holds.BatchExecute(hold_pb2.BatchExecuteRequest(commands=commands)).results
    assert [result.WhichOneof("result") for result in results] == ["correct", "error", "resolve"]
    assert results[0].correct.hold.resolution.revision == 2
    assert results[1].error.reason == error_pb2.ERROR_REASON_DIGEST_NOT_IN_FORCE
    denied = acme.gateway.holds.BatchExecute(hold_pb2.BatchExecuteRequest(commands=commands[:1])).results[0]
    assert denied.error.reason == error_pb2.ERROR_REASON_ROLE_NOT_ALLOWED


@pytest.mark.parametrize(
    ("field", "fields"),
    [
        ("reason", {"reason": ""}),
        ("reason", {"reason": "x" * 257}),
        ("digest_in_force", {"digest_in_force": "a" * 63}),
        ("digest_in_force", {"digest_in_force": "A" * 64}),
        ("digest_in_force", {"digest_in_force": "a" * 63 + "\n"}),
        ("evidence", {"no_cost": None}),
        ("attempt", {"attempt": -1}),
        ("accept_overrun_reason", {"accept_overrun_reason": "a\nb"}),
    ],
)
def test_what_is_malformed_is_named(acme: Tenant, field: str, fields: dict[str, Any]) -> None:
    given: dict[str, Any] = {"digest_in_force": "a" * 64, "no_cost": REFUSED_BY_PROVIDER} | fields
    with refused("INVALID_FIELD") as told:
        acme.correct("op-1", digest="a" * 64, **given)
    assert told.metadata["field"] == field


def test_a_list_of_resolutions_names_its_operation(acme: Tenant) -> None:
    with refused("INVALID_FIELD") as told:
        acme.finance.holds.ListResolutions(hold_pb2.ListResolutionsRequest())
    assert told.metadata["field"] == "operation_id"
