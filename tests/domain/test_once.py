"""Once and only once: keys, operations, and permissions to send."""

from decimal import Decimal
from typing import Any, cast

import pytest

from ledger.domain.batch import Loaded, StaleRows
from ledger.domain.commands import CreateBudget, Release
from ledger.domain.decide import decide
from ledger.domain.keyed import FINGERPRINTS
from ledger.domain.model import Caller, Role
from tests.domain.table import run

ORG = "    adm: budget org USD 10 -> ok\n"


def test_the_same_key_and_content_gives_the_hold_as_it_is_now() -> None:
    run(
        ORG
        + """
    reserve op1 org 6 key=k1 -> ok
    reserve op1 org 6 key=k1 -> unchanged replayed
    dispatch op1 nonce=n1 key=k1 -> ok send                   # keys are unique per command
    unknown op1 key=k1 -> ok
    unknown op1 key=k1 -> unchanged replayed
    charge op1 5 key=k1 -> ok
    charge op1 5 key=k1 -> unchanged replayed
    unknown op1 key=k1 -> unchanged replayed
    reserve op1 org 6 key=k1 -> unchanged replayed
    evidence op1 AUTHORITATIVE
    balance org available=5 spent=5
    """
    )


def test_the_same_key_with_another_amount_writes_nothing() -> None:
    run(
        ORG
        + """
    reserve op1 org 1 key=k1 -> ok
    reserve op1 org 2 key=k1 -> IDEMPOTENCY_MISMATCH idempotency_key=k1 resource=op1
    reserve op2 org 1 key=k1 -> IDEMPOTENCY_MISMATCH resource=op1
    hold op2 none
    dispatch op1 nonce=n1 key=k1 -> ok send
    dispatch op1 nonce=n1 lease=1m key=k1 -> IDEMPOTENCY_MISMATCH
    charge op1 1 key=k1 -> ok
    charge op1 0.5 key=k1 -> IDEMPOTENCY_MISMATCH
    charge op1 1 receipt=r1 key=k1 -> IDEMPOTENCY_MISMATCH
    adm: grant org 10 ref=a key=k1 -> ok
    adm: grant org 20 ref=a key=k1 -> IDEMPOTENCY_MISMATCH resource=org
    incidents op1 none
    balance org available=19 spent=1 authority=20
    """
    )


def test_a_key_belongs_to_its_actor_and_tenant() -> None:
    run(
        ORG
        + """
    reserve op1 org 1 key=k1 -> ok
    gw2: reserve op2 org 1 key=k1 -> ok
    other/adm: budget org USD 10 key=k1 -> ok
    other/gw: reserve op1 org 1 key=k1 -> ok
    """
    )


def test_a_refused_permission_is_remembered_under_its_key_and_another_key_may_succeed() -> None:
    run(
        ORG
        + """
    reserve op1 org 11 key=k1 -> INSUFFICIENT_BUDGET available=10
    adm: grant org 5 -> ok
    reserve op1 org 11 key=k1 -> INSUFFICIENT_BUDGET replayed available=10
    hold op1 none
    reserve op1 org 11 key=k2 -> ok                           # the refusal did not claim the operation
    reserve op1 org 11 key=k1 -> INSUFFICIENT_BUDGET replayed
    """
    )


def test_a_refused_dispatch_and_a_refused_grant_are_remembered() -> None:
    run(
        ORG
        + """
    reserve op1 org 1 -> ok
    adm: grant org 1 ref=a -> ok
    adm: grant org 2 ref=a key=k1 -> RESOURCE_EXISTS
    adm: grant org 2 ref=a key=k1 -> RESOURCE_EXISTS replayed reference=a
    adm: close org -> ok
    dispatch op1 nonce=n1 key=k1 -> BUDGET_CLOSED
    dispatch op1 nonce=n1 key=k1 -> BUDGET_CLOSED replayed budget_id=org
    """
    )


def test_a_refused_report_is_not_remembered() -> None:
    run(
        ORG
        + """
    proof op1 NEVER_SENT cause=DNS_FAILURE key=k1 -> NOT_FOUND
    unknown op1 key=k1 -> NOT_FOUND
    release op1 key=k1 -> NOT_FOUND
    dispatch op1 nonce=n1 key=k1 -> NOT_FOUND                 # nor is what was not there
    reserve op1 org 5 -> ok
    unknown op1 key=k1 -> HOLD_STATE
    dispatch op1 nonce=n1 key=k1 -> ok send
    release op1 key=k1 -> HOLD_STATE
    unknown op1 key=k1 -> ok
    charge op1 6 key=k1 -> EVIDENCE_REJECTED
    charge op1 5 key=k1 -> ok
    """
    )


def test_the_same_operation_under_another_key_is_the_same_hold_or_another_intent() -> None:
    run(
        ORG
        + """
    reserve op1 org 1 labels=team:ml,stage:prod exclusive=x group=g ttl=5m -> ok
    gw2: reserve op1 org 1 labels=team:ml,stage:prod exclusive=x group=g ttl=5m -> unchanged matched
    reserve op1 org 1 labels=team:ml exclusive=x group=g ttl=5m -> OPERATION_EXISTS field=labels
    reserve op1 org 1 labels=team:ml,stage:prod group=g ttl=5m -> OPERATION_EXISTS field=exclusive_key
    reserve op1 org 1 labels=team:ml,stage:prod exclusive=x ttl=5m -> OPERATION_EXISTS field=request_group
    reserve op1 org 1 labels=team:ml,stage:prod exclusive=x group=g ttl=6m -> OPERATION_EXISTS field=ttl
    reserve op1 other 1 labels=team:ml,stage:prod exclusive=x group=g ttl=5m -> OPERATION_EXISTS field=budget_ids
    reserve op1 org card=gpt labels=team:ml,stage:prod exclusive=x group=g ttl=5m -> OPERATION_EXISTS field=quote.kind
    reserve op1 org 2 labels=team:ml,stage:prod exclusive=x group=g ttl=5m key=k1 -> OPERATION_EXISTS field=quote
    reserve op1 org 2 labels=team:ml,stage:prod exclusive=x group=g ttl=5m key=k1 -> OPERATION_EXISTS replayed field=quote
    balance org available=9 held=1
    """
    )


def test_of_two_workers_that_begin_the_same_dispatch_with_the_same_key_one_may_send() -> None:
    run(
        ORG
        + """
    reserve op1 org 1 -> ok
    dispatch op1 nonce=first key=k1 -> ok send
    dispatch op1 nonce=second key=k1 -> unchanged replayed ANOTHER_ATTEMPT_RUNS
    dispatch op1 nonce=first key=k1 -> unchanged replayed send    # the answer was lost; the asker is the same
    hold op1 DISPATCHING attempt=1 generation=1
    """
    )


def test_the_permission_to_send_ends_with_the_lease_and_with_the_attempt() -> None:
    run(
        ORG
        + """
    reserve op1 org 1 nonce=n1 lease=10m key=k1 -> ok send
    reserve op1 org 1 nonce=n1 lease=10m key=k2 -> unchanged matched send
    reserve op1 org 1 nonce=n2 lease=10m key=k1 -> unchanged replayed ANOTHER_ATTEMPT_RUNS
    reserve op1 org 1 nonce=n2 lease=10m key=k2 -> unchanged replayed ANOTHER_ATTEMPT_RUNS
    dispatch op1 nonce=n1 -> unchanged send
    dispatch op1 nonce=n2 -> unchanged ANOTHER_ATTEMPT_RUNS
    after 599s
    dispatch op1 nonce=n1 -> unchanged send
    after 1s
    dispatch op1 nonce=n1 -> unchanged LEASE_RAN_OUT
    reserve op1 org 1 nonce=n1 lease=10m key=k1 -> unchanged replayed LEASE_RAN_OUT
    sys: lapse op1 -> ok
    dispatch op1 nonce=n1 -> unchanged OUTCOME_UNKNOWN
    """
    )


def test_marking_the_outcome_unknown_takes_the_permission_back() -> None:
    run(
        ORG
        + """
    reserve op1 org 1 -> ok
    dispatch op1 nonce=n1 key=k1 -> ok send
    gw2: unknown op1 -> ok
    dispatch op1 nonce=n1 key=k1 -> unchanged replayed OUTCOME_UNKNOWN
    """
    )


def test_the_same_top_up_twice_is_once_by_key_and_by_reference() -> None:
    run(
        ORG
        + """
    adm: grant org 5 ref=invoice-1 key=k1 -> ok
    adm: grant org 5 ref=invoice-1 key=k1 -> unchanged replayed
    fin: grant org 5 ref=invoice-1 key=k2 -> unchanged replayed
    adm: grant org 6 ref=invoice-1 key=k3 -> RESOURCE_EXISTS reference=invoice-1 field=amount says="of 5"
    adm: grant org 5 ref=invoice-2 -> ok
    | adm: grant org 5 ref=invoice-2 -> unchanged replayed
    balance org authority=20 available=20
    """
    )


def test_a_lapse_that_does_nothing_leaves_no_receipt() -> None:
    world = run(
        ORG
        + """
    reserve op1 org 1 ttl=1m -> ok
    sys: lapse op1 key=k1 -> unchanged
    after 1m
    sys: lapse op1 key=k1 -> ok
    sys: lapse op1 key=k1 -> unchanged replayed
    """
    )
    assert [r.state for r in world.receipts.values() if r.command == "Lapse"] == ["RELEASED"]


def test_a_receipt_tells_what_the_key_did() -> None:
    world = run(
        ORG
        + """
    reserve op1 org 11 key=k1 -> INSUFFICIENT_BUDGET
    reserve op1 org 6 key=k2 -> ok
    adm: card gpt USD in=1 key=k3 -> ok
    adm: grant org 5 key=k4 -> ok
    """
    )
    said = [(r.command, r.key, r.resource, r.outcome, r.state) for r in world.receipts.values()]
    assert said == [
        ("CreateBudget", "line 0", "org", "OK", None),
        ("Reserve", "k1", "op1", "INSUFFICIENT_BUDGET", None),
        ("Reserve", "k2", "op1", "OK", "RESERVED"),
        ("PutPriceCard", "k3", "gpt#1", "OK", None),
        ("GrantBudget", "k4", "org", "OK", None),
    ]


def test_a_receipt_of_an_older_version_is_compared_by_its_own_function(monkeypatch: pytest.MonkeyPatch) -> None:
    """Version 0 is made up here: a fingerprint of the operation alone."""
    world = run(ORG + "    reserve op1 org 6 key=k1 -> ok")
    monkeypatch.setitem(cast(dict[int, Any], FINGERPRINTS), 0, lambda command: command.operation_id.encode())
    key = ("t1", "gw", "Reserve", "k1")
    world.receipts[key] = world.receipts[key]._replace(fingerprint_version=0, fingerprint=b"op1")
    run(
        """
    reserve op1 org 6 key=k1 -> unchanged replayed
    reserve op1 org 5 key=k1 -> unchanged replayed
    reserve op2 org 6 key=k1 -> IDEMPOTENCY_MISMATCH resource=op1
    """,
        world,
    )


def test_a_receipt_of_a_newer_version_is_told_as_such() -> None:
    world = run(ORG + "    reserve op1 org 6 key=k1 -> ok")
    key = ("t1", "gw", "Reserve", "k1")
    world.receipts[key] = world.receipts[key]._replace(fingerprint_version=2, fingerprint=b"of a function to come")
    run(
        """
    reserve op1 org 6 key=k1 -> UNKNOWN_WRITE_OUTCOME fingerprint_version=2 says="at a server of the newer version"
    reserve op2 org 6 key=k1 -> UNKNOWN_WRITE_OUTCOME recovery_action=retry_same_key resource=op1 idempotency_key=k1
    hold op2 none
    """,
        world,
    )


def test_a_hold_of_a_newer_version_is_told_as_such() -> None:
    world = run(ORG + "    reserve op1 org 6 key=k1 -> ok")
    hold = world.holds[("t1", "op1")]
    world.holds[("t1", "op1")] = hold._replace(fingerprint_version=2, fingerprint=b"of a function to come")
    run(
        """
    reserve op1 org 6 key=k2 -> UNKNOWN_WRITE_OUTCOME operation_id=op1 fingerprint_version=2 says="at a server of the newer version"
    reserve op1 org 6 key=k2 -> UNKNOWN_WRITE_OUTCOME recovery_action=retry_same_key     # the key was not claimed
    reserve op1 org 6 key=k1 -> unchanged replayed
    """,
        world,
    )


def test_a_receipt_that_speaks_of_rows_which_were_not_there_yet_asks_for_another_load() -> None:
    """READ COMMITTED: the hold was looked for, then another transaction committed it, then the receipt was read."""
    world = run(ORG + "    reserve op1 org 6 -> ok\n    release op1 key=k1 -> ok\n    adm: budget b USD 1 key=k1 -> ok")
    release = Release(Caller("t1", "gw", Role.GATEWAY), "k1", "op1")
    create = CreateBudget(Caller("t1", "adm", Role.ADMIN), "k1", "b", None, "USD", "b", Decimal(1))
    for command in (release, create):
        loaded = world.load([command])
        stale = Loaded(now=loaded.now, new_id=loaded.new_id, receipts=loaded.receipts)
        with pytest.raises(StaleRows):
            decide(stale, [command])
