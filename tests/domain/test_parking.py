"""Evidence that comes before its hold."""

from datetime import timedelta
from decimal import Decimal

import pytest

from ledger.domain import parking
from ledger.domain.axes import axes
from ledger.domain.commands import NoCostProof, Resolve, Usage
from ledger.domain.filing import filing
from ledger.domain.model import Caller, Role
from tests.domain.table import run
from tests.domain.world import World

ORG = "adm: budget org USD 10 -> ok\n"
CARD = ORG + "adm: card gpt USD in=3 out=15 max_in=100000 max_out=1000 -> ok\n"
GATEWAY = Caller("t1", "gw", Role.GATEWAY)


def test_a_webhook_before_the_reserve_settles_the_hold_once_and_nobody_may_send() -> None:
    run(
        ORG
        + """
    charge op1 4 source=WEBHOOK receipt=r1 observed=09:58 key=k1 -> ok parked
    charge op1 4 source=WEBHOOK receipt=r1 observed=09:58 key=k1 -> unchanged parked replayed
    evidence op1 PARKED
    after 10m
    reserve op1 org 6 nonce=n1 -> ok CALL_WAS_SEEN          # no permission: the call was made
    hold op1 DISPATCHING attempt=1 inferred=yes execution_seen=yes executor=none
    balance org available=4 held=6
    release op1 -> HOLD_STATE says="was dispatched"
    sys: lapse op1 -> unchanged                             # its lease is over, but the evidence is filed first
    worker ok
    hold op1 SETTLED settled=4 provider_receipt=r1 attempt=1
    balance org available=6 held=0 spent=4
    entries op1 RESERVE SETTLE
    evidence op1 PARKED AUTHORITATIVE
    waits op1 0
    dispatch op1 nonce=n1 -> unchanged RESOLVED
    charge op1 4 source=WEBHOOK receipt=r1 key=k1 -> unchanged replayed
    worker
    """
    )


def test_the_call_was_made_when_the_first_evidence_came_at_the_latest() -> None:
    world = run(
        ORG
        + """
    charge op1 4 receipt=r1 -> ok parked                    # 10:00
    after 5m
    charge op1 4 receipt=r1 response=msg2 -> ok parked
    after 5m
    reserve op1 org 6 -> ok
    worker ok again
    """
    )
    hold = world.holds[("t1", "op1")]
    assert hold.dispatched_at is not None
    assert f"{hold.dispatched_at:%H:%M} {hold.created_at:%H:%M}" == "10:00 10:10"


def test_a_proof_that_the_provider_refused_waits_and_frees_the_hold() -> None:
    run(
        ORG
        + """
    proof op1 REJECTED_BEFORE_EXECUTION status=429 request=q1 -> ok parked
    reserve op1 org 6 nonce=n1 -> ok LEASE_RAN_OUT          # whatever became of the call, it was made
    hold op1 DISPATCHING execution_seen=no inferred=yes
    worker ok
    hold op1 SETTLED settled=0 resolution_kind=NO_COST
    balance org available=10 held=0
    """
    )


@pytest.mark.parametrize("proof", ["NEVER_SENT cause=DNS_FAILURE nonce=n1", "GATEWAY_CACHE_HIT nonce=n1"])
def test_that_nothing_was_sent_frees_nothing_where_there_is_no_hold(proof: str) -> None:
    run(f"""
    proof op1 {proof} -> NOT_FOUND
    fin: proof op1 {proof} -> NOT_FOUND
    evidence op1 none
    """)


def test_reports_of_one_operation_are_filed_in_their_order_in_the_name_of_who_brought_them() -> None:
    world = run(
        ORG
        + """
    gw2: charge op1 4 source=OPERATOR -> ok parked           # not for a gateway to say
    fin: charge op1 4 source=OPERATOR -> ok parked           # the same from finance is another report
    charge op1 5 receipt=r2 -> ok parked
    reserve op1 org 6 -> ok
    worker EVIDENCE_REJECTED ok RESOLUTION_CONFLICT
    hold op1 SETTLED settled=4
    evidence op1 PARKED PARKED PARKED REJECTED AUTHORITATIVE CONFLICTING
    incidents op1 RESOLUTION_CONFLICT provider_receipt=r2
    waits op1 0
    """
    )
    assert [e.actor for e in world.evidence] == ["gw2", "fin", "gw"] * 2


def test_the_same_report_from_another_role_of_the_same_actor_is_another() -> None:
    world = run(ORG)
    for role in (Role.GATEWAY, Role.FINANCE, Role.GATEWAY):
        world.step(Resolve(Caller("t1", "books", role), f"key of {role}", "op1", _charge("4", "STATEMENT")))
    run("waits op1 2\nreserve op1 org 6 -> ok\nworker EVIDENCE_REJECTED ok\nhold op1 SETTLED settled=4", world)


def test_finance_may_accept_an_overrun_before_the_hold_is_there() -> None:
    run(
        ORG
        + """
    fin: charge op1 7 accept="the statement of March" -> ok parked
    reserve op1 org 6 -> ok
    worker ok
    resolution op1 USAGE amount=7 cost_over_hold=1 reason="the statement of March"
    """
    )


def test_evidence_that_does_not_fit_the_hold_ends_its_waiting_and_the_hold_stays_unknown() -> None:
    run(
        ORG
        + """
    charge op1 4 provider=other -> ok parked
    reserve op1 org 6 nonce=n1 -> ok CALL_WAS_SEEN
    sys: lapse op1 -> unchanged
    worker EVIDENCE_REJECTED
    waits op1 0
    hold op1 DISPATCHING
    sys: lapse op1 -> ok
    hold op1 OUTCOME_UNKNOWN
    balance org available=4 unknown=6
    evidence op1 PARKED REJECTED
    charge op1 5 -> ok
    hold op1 SETTLED settled=5
    """
    )


def test_usage_in_tokens_is_priced_by_the_card_of_the_hold_that_comes() -> None:
    """1000 * 3 / 10⁶ + 200 * 15 / 10⁶ = 0.006; usage that could not be read stays what it was."""
    run(
        CARD
        + """
    usage op1 in=1000 out=200 -> ok parked
    usage op2 in=1000 out=200 defects=unreadable document={} flavor=acme.chat -> ok parked
    reserve op1 org card=gpt in=1000 out=1000 -> ok
    reserve op2 org card=gpt in=1000 out=1000 -> ok
    worker ok EVIDENCE_REJECTED
    hold op1 SETTLED settled=0.006
    hold op2 DISPATCHING
    """
    )


def test_a_refused_reserve_leaves_the_evidence_parked() -> None:
    run(
        ORG
        + """
    charge op1 4 -> ok parked
    reserve op1 org 11 -> INSUFFICIENT_BUDGET
    worker waits
    waits op1 1
    reserve op1 org 6 -> ok
    worker ok
    """
    )


def test_the_same_report_waits_once() -> None:
    run(
        ORG
        + """
    charge op1 4 receipt=r1 -> ok parked
    charge op1 4 receipt=r1 -> unchanged parked             # another key
    charge op1 4 receipt=r1 observed=09:00 -> unchanged parked
    waits op1 1
    evidence op1 PARKED
    charge op1 4 receipt=r2 -> ok parked
    charge op1 4.5 receipt=r1 -> ok parked
    waits op1 3
    """
    )


def test_evidence_whose_hold_does_not_come_in_time_is_a_case_and_stays() -> None:
    run(
        ORG
        + """
    charge op1 4 receipt=r1 key=k1 -> ok parked
    after 86399s
    worker waits
    incidents op1 none
    after 1s
    worker orphan
    incidents op1 ORPHAN_EVIDENCE kind=USAGE source=PROVIDER_RESPONSE actor=gw because="no hold came"
    waits op1 0
    evidence op1 PARKED
    charge op1 4 receipt=r1 key=k1 -> unchanged parked replayed incident
    charge op1 4 receipt=r1 -> unchanged parked incident     # it is the same case
    waits op1 0
    incidents op1 ORPHAN_EVIDENCE
    after 1h
    reserve op1 org 6 nonce=n1 -> ok CALL_WAS_SEEN           # still nobody may send
    hold op1 DISPATCHING inferred=yes execution_seen=yes
    sys: lapse op1 -> ok
    hold op1 OUTCOME_UNKNOWN
    fin: charge op1 4 receipt=r1 -> ok
    balance org available=6 unknown=0 spent=4
    """
    )


def test_no_more_than_so_many_reports_wait_for_one_operation(monkeypatch: pytest.MonkeyPatch) -> None:
    assert parking.MOST_FACTS == 16
    monkeypatch.setattr(parking, "MOST_FACTS", 2)
    run(
        ORG
        + """
    charge op1 1 -> ok parked
    charge op1 2 -> ok parked
    charge op1 3 key=k3 -> EVIDENCE_NOT_PARKED operation_id=op1 says="2 different reports wait"
    charge op1 2 -> unchanged parked                        # what waits already may be said again
    charge op1 4 -> EVIDENCE_NOT_PARKED
    incidents op1 ORPHAN_EVIDENCE kind=USAGE
    evidence op1 PARKED PARKED
    charge op2 1 -> ok parked
    reserve op1 org 6 -> ok
    worker ok RESOLUTION_CONFLICT waits
    charge op1 1 key=k3 -> unchanged replayed               # the refused key was never claimed
    """
    )


def test_no_more_than_so_many_reports_of_a_tenant_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    assert parking.MOST_PARKED == 10_000
    monkeypatch.setattr(parking, "MOST_PARKED", 2)
    run(
        ORG
        + """
    charge op1 1 -> ok parked
    charge op2 1 -> ok parked
    | charge op3 1 -> EVIDENCE_NOT_PARKED says="2 reports of the tenant wait"
    charge op4 1 -> EVIDENCE_NOT_PARKED
    incidents op3 ORPHAN_EVIDENCE
    incidents op4 none                                      # one case a day
    after 24h
    charge op4 1 -> EVIDENCE_NOT_PARKED
    incidents op4 ORPHAN_EVIDENCE
    t2/gw: charge op1 1 -> ok parked
    reserve op3 org 1 nonce=n1 -> ok CALL_WAS_SEEN          # its evidence was there, if only as a case
    hold op3 DISPATCHING
    """
    )


def _charge(amount: str, source: str = "WEBHOOK") -> Usage:
    return Usage(source, "acme", "", "", "sdk", "7", charged=Decimal(amount), charged_currency="USD")


@pytest.mark.parametrize(
    ("evidence", "reported", "established"),
    [
        ("4 source=GATEWAY_ESTIMATE", "ESTIMATE", "UNKNOWN inferred 10:00"),
        ("4 provider=other", "REJECTED", "UNKNOWN inferred 10:00"),
        ("9", "REJECTED", "EXECUTED FileParked 10:01"),
    ],
)
def test_what_is_established_of_the_call_is_what_was_filed(evidence: str, reported: str, established: str) -> None:
    """While it waits, the evidence has been held against nothing: it establishes nothing."""
    world = run(
        ORG
        + f"""
    charge op1 {evidence} -> ok parked                       # 10:00
    after 1m
    reserve op1 org 6 -> ok
    """
    )
    assert _execution(world) == "UNKNOWN inferred 10:00"
    run(f"worker EVIDENCE_REJECTED\nevidence op1 PARKED {reported}", world)
    assert _execution(world) == established


def _execution(world: World) -> str:
    found = axes(world.holds[("t1", "op1")], world.observations, world.evidence, None).execution
    assert found is not None
    return f"{found.value} {found.source} {found.since:%H:%M}"


def test_who_comes_second_finds_nothing_to_file() -> None:
    world = run(ORG + "charge op1 4 -> ok parked\nreserve op1 org 6 -> ok")
    (parked,) = world.parked.values()
    command = filing(parked, timedelta(hours=24))
    assert world.step(command)[0].applied
    again = world.step(command)[0]
    assert (again.applied, again.replayed, again.parked) == (False, True, False)

    world = run(ORG + "charge op1 4 provider=other -> ok parked\nreserve op1 org 6 -> ok")
    (parked,) = world.parked.values()
    command = filing(parked, timedelta(hours=24))
    assert world.step(command)[0].refusal is not None
    again = world.step(command)[0]
    assert (again.refusal, again.applied, again.replayed) == (None, False, False)
    assert len(world.receipts) == 3, "create, park and reserve"


def test_a_report_is_filed_as_it_came() -> None:
    world = World()
    reports = [
        Resolve(GATEWAY, "k1", "op1", _charge("4")),
        Resolve(
            Caller("t1", "fin", Role.FINANCE), "k2", "op1",
            Usage(
                "STATEMENT", "acme", "gpt", "priority", "sdk", "7", buckets=(("input_tokens", 5), ("requests", 1)),
                document='{"a": 1}', flavor="acme.chat", defects=("one", "two"), provider_receipt="r1", response_id="m1",
                observed_at=world.now, read_model="gpt-2", read_tier="standard", payload_digest=b"p" * 32,
            ),
            attempt=1, accept_overrun_reason="agreed",
        ),
        Resolve(GATEWAY, "k3", "op2", NoCostProof("REJECTED_BEFORE_EXECUTION", "sdk", "7", "", 429, "q1", world.now)),
    ]  # fmt: skip
    for report in reports:
        assert world.step(report)[0].parked
    filings = [filing(parked, timedelta(hours=1)) for parked in world.parked.values()]
    for report, filed in zip(reports, filings, strict=True):
        assert (filed.caller, filed.operation_id, filed.evidence, filed.attempt, filed.accept_overrun_reason) == (
            report.caller, report.operation_id, report.evidence, report.attempt, report.accept_overrun_reason
        )  # fmt: skip
        assert filed.content() == report.content()
        assert filed.receipt_key[:3] == (*report.receipt_key[:2], "FileParked")
