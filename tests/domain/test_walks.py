"""Random walks: whatever is asked, in whatever order and batch, every law holds after every step."""

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

from hypothesis import given, settings
from hypothesis import strategies as st

from ledger.domain.attempt_commands import (
    Cancel,
    Heartbeat,
    RecordDelivery,
    RecordFailedBeforeDispatch,
    RecordReceipt,
)
from ledger.domain.batch import NotLoaded
from ledger.domain.budget_commands import CloseBudget, MoveBudget, UpdateBudget
from ledger.domain.commands import (
    BeginDispatch,
    Command,
    Correct,
    Dispatch,
    GrantBudget,
    Lapse,
    MarkOutcomeUnknown,
    NoCostProof,
    Release,
    Reserve,
    Resolve,
    Usage,
)
from ledger.domain.document_commands import PutEvidencePolicy, PutPriceCard
from ledger.domain.keyed import OnBudget
from ledger.domain.model import Caller, Delivery, Role
from ledger.domain.quotes import QuoteKind, QuoteSpec
from tests.domain.table import run
from tests.domain.world import World

GATEWAY = st.sampled_from([Caller("t1", "gw", Role.GATEWAY), Caller("t1", "gw2", Role.GATEWAY)])
FINANCE = st.just(Caller("t1", "fin", Role.FINANCE))
ANYONE = GATEWAY | FINANCE
SYSTEM = st.just(Caller("t1", "sys", Role.SYSTEM))
# Stands for the digest that is in force when the command is decided.
IN_FORCE = b""
ADMIN = st.just(Caller("t1", "adm", Role.ADMIN))
BUDGETS = st.sampled_from(["org", "team", "key", "free", "spare"])
KEYS = st.integers(0, 40).map(str)
OPERATIONS = st.sampled_from(["op1", "op2", "op3", "op4"])
AMOUNTS = st.integers(0, 12).map(lambda n: Decimal(n) / 2)
NONCES = st.sampled_from(["n1", "n2"])
DISPATCHES = st.builds(Dispatch, NONCES, st.sampled_from([timedelta(minutes=1), timedelta(minutes=9)]), st.just("h"))
FIXED = st.builds(
    QuoteSpec,
    kind=st.just(QuoteKind.FIXED),
    tolerance=st.sampled_from([Decimal(0), Decimal("0.5")]),
    amount=AMOUNTS,
    currency=st.just("USD"),
    provider=st.just("acme"),
    reason=st.just("agreed"),
)
METERED = st.builds(
    QuoteSpec,
    kind=st.just(QuoteKind.METERED),
    tolerance=st.just(Decimal(0)),
    card_id=st.just("gpt"),
    ceilings=st.sampled_from([(), (("input_tokens", 500_000), ("output_tokens", 10_000))]),
)
RESERVES = st.builds(
    Reserve,
    GATEWAY,
    KEYS,
    OPERATIONS,
    st.sampled_from([("key",), ("team",), ("key", "free"), ("free",), ("spare",)]),
    FIXED | METERED,
    st.sampled_from([timedelta(minutes=2), timedelta(minutes=15)]),
    exclusive_key=st.sampled_from([None, "x"]),
    dispatch=st.none() | DISPATCHES,
)
USAGES = st.builds(
    Usage,
    source=st.sampled_from(["PROVIDER_RESPONSE", "PROVIDER_RESPONSE", "STATEMENT", "GATEWAY_ESTIMATE"]),
    provider=st.sampled_from(["acme", "acme", "acme", "other"]),
    model=st.just(""),
    service_tier=st.sampled_from(["", "standard", "priority"]),
    adapter=st.just("sdk"),
    adapter_revision=st.just("1"),
    buckets=st.sampled_from(
        [(), (("input_tokens", 400_000), ("output_tokens", 9_999)), (("input_tokens", 10**9), ("output_tokens", 0))]
    ),
    charged=st.none() | AMOUNTS,
    charged_currency=st.just("USD"),
    provider_receipt=st.sampled_from([None, "r1", "r2"]),
)
PROOFS = st.builds(
    NoCostProof,
    st.sampled_from(["NEVER_SENT", "REJECTED_BEFORE_EXECUTION", "GATEWAY_CACHE_HIT"]),
    st.just("sdk"),
    st.just("1"),
    st.sampled_from(["", "DNS_FAILURE"]),
    st.sampled_from([429, 500]),
    st.sampled_from(["", "q1"]),
)
COMMANDS: st.SearchStrategy[Command] = st.one_of(
    RESERVES,
    RESERVES,
    st.builds(BeginDispatch, GATEWAY, KEYS, OPERATIONS, DISPATCHES),
    st.builds(MarkOutcomeUnknown, ANYONE, KEYS, OPERATIONS, st.just("timeout")),
    st.builds(Release, GATEWAY, KEYS, OPERATIONS),
    st.builds(
        Resolve, ANYONE, KEYS, OPERATIONS, USAGES, st.sampled_from([0, 0, 1, 2]), st.sampled_from(["", "agreed"])
    ),
    st.builds(Resolve, ANYONE, KEYS, OPERATIONS, PROOFS),
    st.builds(
        Correct,
        FINANCE,
        KEYS,
        OPERATIONS,
        st.sampled_from([IN_FORCE, IN_FORCE, IN_FORCE, b"stale"]),
        USAGES | PROOFS,
        st.just("a bill"),
        st.sampled_from([0, 0, 1, 2]),
        st.sampled_from(["", "agreed"]),
    ),
    st.builds(Lapse, SYSTEM, KEYS, OPERATIONS),
    st.builds(
        Heartbeat, GATEWAY, KEYS, OPERATIONS, NONCES, st.sampled_from([timedelta(minutes=1), timedelta(minutes=9)])
    ),
    st.builds(
        RecordFailedBeforeDispatch,
        GATEWAY,
        KEYS,
        OPERATIONS,
        NONCES,
        st.just("DNS_FAILURE"),
        st.just("sdk"),
        st.just("1"),
        st.sampled_from([0, 0, 1, 2]),
    ),
    st.builds(Cancel, ANYONE, KEYS, OPERATIONS, st.just("left")),
    st.builds(
        RecordReceipt,
        ANYONE,
        KEYS,
        OPERATIONS,
        st.sampled_from(["acme", "acme", "other"]),
        st.sampled_from(["r1", "r2", "r3"]),
        st.sampled_from([0, 0, 1, 2]),
    ),
    st.builds(RecordDelivery, GATEWAY, KEYS, OPERATIONS, st.sampled_from(Delivery), st.sampled_from([0, 1])),
    st.builds(
        GrantBudget,
        ANYONE,
        KEYS,
        st.sampled_from(["key", "team"]),
        st.just(Decimal(1)),
        st.just("USD"),
        st.sampled_from("abc"),
    ),
    st.builds(MoveBudget, ADMIN, KEYS, BUDGETS, st.none() | BUDGETS),
    st.one_of(
        st.builds(UpdateBudget, ADMIN, KEYS, BUDGETS, st.just(("max_hold",)), max_hold=st.none() | AMOUNTS),
        st.builds(
            UpdateBudget,
            ADMIN,
            KEYS,
            BUDGETS,
            st.just(("max_open_holds",)),
            max_open_holds=st.none() | st.integers(0, 3),
        ),
        st.builds(CloseBudget, ADMIN, KEYS, st.sampled_from(["key", "spare"])),
    ),
)


def with_digest(world: World, command: Command) -> Command:
    hold = world.holds.get(command.hold_key) if isinstance(command, Correct) else None
    if not isinstance(command, Correct) or hold is None or command.digest_in_force != IN_FORCE:
        return command
    return replace(command, digest_in_force=hold.resolution_digest or b"")


def admissible(batch: list[Command]) -> list[Command]:
    """The batch as the engine makes it: one command per hold and per key."""
    taken: set[object] = set()
    kept = []
    for command in batch:
        names: set[object] = {command.receipt_key}
        if not isinstance(command, OnBudget | PutPriceCard | PutEvidencePolicy):
            names.add(command.hold_key)
        if not names & taken:
            kept.append(command)
            taken |= names
    return kept


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(st.lists(COMMANDS, min_size=1, max_size=4), st.integers(0, 200)), max_size=25))
def test_every_law_holds_after_every_step(steps: list[tuple[list[Command], int]]) -> None:
    world = run("""
    adm: budget org USD 20 -> ok
    adm: budget team USD 10 under=org -> ok
    adm: budget key USD 8 under=team -> ok
    adm: budget free USD unlimited -> ok
    adm: budget spare USD 5 under=org max_open=2 max_hold=4 -> ok
    adm: card gpt USD in=1.25 in>272000=2.5 out=10 out>272000=15 max_in=1000000 max_out=20000 -> ok
    """)
    for batch, seconds in steps:
        commands = [with_digest(world, command) for command in admissible(batch)]
        try:
            world.step(*commands)
        except NotLoaded:
            # The engine takes such a batch apart.
            for command in commands:
                world.step(command)
        world.now += timedelta(seconds=seconds)
