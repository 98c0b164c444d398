"""What a batch changed is told, whatever the rule that changed it."""

from dataclasses import fields
from datetime import date
from uuid import UUID

import pytest

from ledger.domain import events
from ledger.domain.batch import Decision
from ledger.domain.model import Account, Entry, EntryKind, Posting
from tests.domain.table import run
from tests.domain.world import World

TABLES = {
    "the books": """
        adm: budget org USD 10 -> ok
        told BUDGET,org ENTRY,OPEN kind=OPEN books="['org#0']"
        adm: budget team USD unlimited under=org -> ok
        told BUDGET,team version=1 currency=USD parent_id=org limit=None closed=False
        adm: update org max_hold=5 -> ok
        told BUDGET,org version=2 limit=10 closed=False
        adm: budget old USD 1 -> ok
        adm: close old -> ok
        told BUDGET,old version=2 closed=True
        fin: grant org 5 ref=po-1 -> ok
        told GRANT,org,po-1 amount=5 currency=USD
        fin: card gpt USD in=3 out=15 -> ok
        told PRICE_CARD,gpt,1
        fin: card gpt USD in=3 out=16 -> ok
        told PRICE_CARD,gpt,2
        adm: policy acme gw:WEBHOOK -> ok
        told POLICY,acme,1
    """,
    "a hold from its reserve to its end": """
        adm: budget org USD 10 thresholds=none -> ok
        reserve op1 org 6 -> ok
        told HOLD,op1,RESERVED version=1 attempt=0 amount=6 currency=USD settled=None from=None
        dispatch op1 nonce=n1 -> ok send
        told HOLD,op1,RESERVED,DISPATCHING version=2 attempt=1 entries=None
        unknown op1 -> ok
        told HOLD,op1,DISPATCHING,OUTCOME_UNKNOWN OBSERVATION,op1,EXECUTION,UNKNOWN attempt=1
        charge op1 5.50 -> ok
        told HOLD,op1,OUTCOME_UNKNOWN,SETTLED version=4 revision=1 kind=USAGE settled=5.5
    """,
    "a release is told with its resolution": """
        adm: budget org USD 10 thresholds=none -> ok
        reserve op1 org 6 -> ok
        release op1 -> ok
        told HOLD,op1,RESERVED,RELEASED revision=1 kind=NEVER_DISPATCHED settled=0
    """,
    "what changes nothing tells nothing": """
        adm: budget org USD 10 thresholds=none -> ok
        reserve op1 org 6 nonce=n1 key=k1 -> ok send
        reserve op1 org 6 nonce=n1 key=k1 -> unchanged replayed send
        told none
        reserve op2 org 6 -> INSUFFICIENT_BUDGET
        told none
        release op1 -> HOLD_STATE
        told none
        sys: lapse op1 -> unchanged
        told none
        adm: budget org USD 10 thresholds=none -> unchanged replayed
        told none
    """,
    "evidence that is refused is told only where the hold says so": """
        adm: budget org USD 10 thresholds=none -> ok
        reserve op1 org 6 nonce=n1 -> ok send
        charge op1 7 -> EVIDENCE_REJECTED
        told HOLD,op1,DISPATCHING,DISPATCHING OBSERVATION,op1,EXECUTION,EXECUTED
        charge op1 7 -> EVIDENCE_REJECTED
        told none
    """,
    "incidents come after the hold, also when they are reported again": """
        adm: budget org USD 10 thresholds=none -> ok
        reserve op1 org 6 nonce=n1 -> ok send
        charge op1 5 receipt=r1 -> ok
        charge op1 4 receipt=r1 -> RESOLUTION_CONFLICT
        told INCIDENT,op1,RESOLUTION_CONFLICT
        charge op1 4 receipt=r1 -> RESOLUTION_CONFLICT
        told INCIDENT,op1,RESOLUTION_CONFLICT
    """,
    "a batch tells causes first": """
        adm: budget org USD 10 thresholds=none -> ok
        | fin: card gpt USD in=3 out=15 -> ok
        | fin: grant org 5 -> ok
        | reserve op1 org 15 -> ok
        told BUDGET,org PRICE_CARD,gpt,1 GRANT,org,invoice ENTRY,OPEN HOLD,op1,RESERVED
    """,
}


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
def test_told(table: str) -> None:
    run(table)


def test_tenants_are_told_apart() -> None:
    world = run("""
        t1/adm: budget org USD 10 thresholds=none -> ok
        | t2/adm: budget org USD 20 -> ok
    """)
    assert sorted((tenant, event["type"]) for tenant, event in world.told) == [
        ("t1", "BUDGET"), ("t1", "ENTRY"), ("t2", "BUDGET"), ("t2", "ENTRY"),
    ]  # fmt: skip


def test_every_kind_of_row_is_told_or_is_known_to_be_silent() -> None:
    told = {"holds", "budgets", "cards", "grants", "entries", "incidents", "observations", "policies", "crossings"}
    assert {field.name for field in fields(Decision)} == told | events.SILENT


def derived(world: World, decision: Decision) -> list[dict[str, object]]:
    events.derive(world.load(()), decision)
    return decision.events["t1"]


def test_an_entry_of_a_hold_that_stays_as_it_was_is_told_on_its_own() -> None:
    world = run("adm: budget org USD 10 thresholds=none -> ok")
    made, day = UUID(int=77), date(2025, 3, 1)
    entry = Entry("t1", made, EntryKind.SETTLE, "USD", world.now, world.now, day, "op1", "fin")
    lines = [
        Posting("t1", book, version, made, account, world.budgets[("t1", "org")].limit or 0)  # type: ignore[arg-type]
        for version, (book, account) in enumerate([("b", Account.HELD), ("a", Account.HELD), ("b", Account.SPENT)])
    ]
    (event,) = derived(world, Decision(entries=[entry], postings=lines))
    assert event == {"type": "ENTRY", "entry_id": made, "kind": "SETTLE", "books": ["b", "a"], "operation_id": "op1"}
