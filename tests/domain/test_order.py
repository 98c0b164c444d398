"""Agreeing observations in any order: the same end, digest, amount and balances."""

from collections.abc import Sequence
from decimal import Decimal
from typing import NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.domain.table import run

# What a webhook, a record and a statement say of one call, and what its gateway says of its outcome and of its dispatch.
REPORTS = {
    "response": "usage op1 in=1000 out=500 source=PROVIDER_RESPONSE",
    "response with its receipt": "usage op1 in=1000 out=500 source=PROVIDER_RESPONSE receipt=r1 response=m1",
    "webhook": "usage op1 in=1000 out=500 source=WEBHOOK receipt=r1 observed=09:30",
    "record": "usage op1 in=1000 out=500 source=PROVIDER_RECORD",
    "statement": "fin: usage op1 in=1000 out=500 source=STATEMENT receipt=r1",
    "unknown": "unknown op1",
    "dispatch": "dispatch op1 nonce=n1",
}
START = """
    adm: budget org USD 10 -> ok
    adm: budget team USD 1 under=org -> ok
    adm: card gpt USD in=3 out=10 max_in=10000 max_out=10000 -> ok
    reserve op1 team card=gpt {dispatched}
"""


class End(NamedTuple):
    state: str
    kind: str | None
    digest: bytes | None
    settled: Decimal | None
    receipt: str | None
    attempt: int
    balances: Sequence[tuple[Decimal, ...]]
    incidents: int


def end_of(order: Sequence[str], dispatched: bool) -> End:
    """How it ends if the reports arrive in this order."""
    world = run(START.format(dispatched="nonce=n1 -> ok send" if dispatched else "-> ok"))
    for number, name in enumerate(order):
        run(f"    {REPORTS[name]} key=k{number} -> any", world)
    hold = world.holds[("t1", "op1")]
    balances = [(b.available, b.held, b.unknown, b.spent, b.deficit, b.expense) for _, b in sorted(world.books.items())]
    return End(
        hold.state, hold.resolution_kind, hold.resolution_digest, hold.settled, hold.provider_receipt, hold.attempt,
        balances, len(world.incidents),
    )  # fmt: skip


@settings(max_examples=100, deadline=None)
@given(st.permutations(list(REPORTS)), st.booleans())
def test_agreeing_observations_come_to_the_same_end_in_any_order(order: list[str], dispatched: bool) -> None:
    # 1000 at 3 and 500 at 10 for a million: 0.008. The team's 1 and the organisation's 10 are less by that, once.
    end = end_of(order, dispatched)
    assert (end.state, end.kind, end.settled, end.receipt) == ("SETTLED", "USAGE", Decimal("0.008"), "r1")
    assert [(b[0], b[3]) for b in end.balances[1:]] == [
        (Decimal("9.992"), Decimal("0.008")),
        (Decimal("0.992"), Decimal("0.008")),
    ]
    assert end == end_of(list(REPORTS), dispatched=True)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from(list(REPORTS)), min_size=1, max_size=12), st.booleans())
def test_repeated_observations_change_nothing(reports: list[str], dispatched: bool) -> None:
    if not any(name not in {"unknown", "dispatch"} for name in reports):
        reports = [*reports, "record"]
    end, once = end_of(reports, dispatched), end_of(["statement"], dispatched)
    assert (end.state, end.digest, end.settled, end.balances) == (once.state, once.digest, once.settled, once.balances)
    assert end.incidents == 0
