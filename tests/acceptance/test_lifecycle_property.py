"""Random lives of holds, over the real service and database, beside a naive model; every law after every step."""

import os
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from decimal import Decimal
from itertools import count
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from ledger.audit.check import check
from ledger.store.database import Database
from ledger.v1 import hold_pb2
from ledger.v1.budget_pb2 import CreateBudgetRequest, GetBudgetRequest, GrantBudgetRequest
from tests.acceptance.early_evidence import AMOUNTS
from tests.acceptance.harness import LiveLedger, Stubs, live_ledger, refused, state, usd
from tests.acceptance.naive_model import BUDGETS, CHAINS, OPEN, ModelHold
from tests.acceptance.rare_ways import RareWays
from tests.conftest import new_database
from tests.figures import record

LIMITS = st.sampled_from([Decimal(10), Decimal("9.5"), Decimal(20), Decimal(1), Decimal(0), None])


# What is rare enough to be missed, and how often it came about.
REACHED = """
    SELECT lower(classification), count(*) FROM evidence GROUP BY 1
    UNION ALL SELECT lower(kind), count(*) FROM incident GROUP BY 1
    UNION ALL SELECT lower(outcome), count(*) FROM receipt WHERE refusal IS NOT NULL GROUP BY 1
    UNION ALL SELECT 'unknown', count(*) FROM entry WHERE kind = 'OUTCOME_UNKNOWN'
    UNION ALL SELECT 'corrected', count(*) FROM resolution WHERE revision > 1
    UNION ALL SELECT 'corrected_after_release', count(*) FROM hold WHERE state = 'RELEASED' AND revision > 1
    UNION ALL SELECT 'cost_over_hold', count(*) FROM resolution WHERE cost_over_hold > 0
    UNION ALL SELECT 'deficit', count(*) FROM posting WHERE account = 'DEFICIT'
    UNION ALL SELECT 'inferred_attempt', count(*) FROM hold WHERE inferred
    UNION ALL SELECT 'second_attempt', count(*) FROM hold WHERE attempt > 1
"""
RARE = (
    "corroborating", "rejected", "conflicting", "parked", "double_acceptance", "resolution_conflict", "receipt_conflict",
    "insufficient_budget", "digest_not_in_force", "unknown", "corrected", "corrected_after_release", "cost_over_hold",
    "deficit", "inferred_attempt", "second_attempt",
)  # fmt: skip


class Lives(RareWays, RuleBasedStateMachine):
    """One running ledger of its own."""

    fresh: Callable[[], AbstractContextManager[LiveLedger]]
    # What the lives have come to, and how often.
    reached: Counter[str]

    def __init__(self) -> None:
        super().__init__()
        self.stack = ExitStack()
        self.live = self.stack.enter_context(type(self).fresh())
        # Kept, for what is asked after every step is prepared once.
        self.database = Database(self.live.database_url, pool_size=1)
        self.stack.callback(self.database.close)
        self.tenant = "t0"
        self.gateway: Stubs = self.live.stubs(self.tenant, "gateway")
        self.finance: Stubs = self.live.stubs(self.tenant, "finance")
        self.admin: Stubs = self.live.stubs(self.tenant, "admin")
        self.refusals = 0

    @initialize(limits=st.tuples(*[LIMITS for _ in BUDGETS]))
    def budgets(self, limits: tuple[Decimal | None, ...]) -> None:
        for (name, parent), limit in zip(BUDGETS.items(), limits, strict=True):
            request = CreateBudgetRequest(
                idempotency_key=f"create-{name}", budget_id=name, parent_id=parent or "", currency="USD"
            )
            if limit is not None:
                request.limit = str(limit)
            self.admin.budgets.CreateBudget(request)
            self.limits[name] = limit

    def teardown(self) -> None:
        with self.stack, psycopg.connect(self.live.database_url) as connection:
            type(self).reached.update(dict(connection.execute(REACHED).fetchall()))

    # --- rules -----------------------------------------------------------------------------------------------------

    @rule(
        amount=AMOUNTS,
        tolerance=st.sampled_from([Decimal(0), Decimal(2)]),
        named=st.sets(st.sampled_from(list(BUDGETS)), min_size=1),
        dispatch=st.booleans(),
    )
    def reserve(self, amount: Decimal, tolerance: Decimal, named: set[str], dispatch: bool) -> None:
        operation = f"op-{len(self.holds)}-{self.refusals}"
        request = self.reservation(operation, amount, tolerance, named, dispatch)
        levels = set().union(*(CHAINS[name] for name in named))
        short = [level for level in levels if (room := self.room(level)) is not None and amount > room]
        if short:
            with refused("INSUFFICIENT_BUDGET") as error:
                self.gateway.holds.Reserve(request)
            assert error.metadata["budget_id"] in short
            with refused("INSUFFICIENT_BUDGET"):  # the key remembers the answer
                self.gateway.holds.Reserve(request)
            self.refusals += 1
            return
        answer = self.gateway.holds.Reserve(request)
        assert not answer.replayed
        assert answer.may_send == dispatch
        hold = ModelHold(amount, tolerance, levels, request)
        if dispatch:
            hold.state, hold.nonce, hold.attempts = "DISPATCHING", request.dispatch.nonce, 1
        self.holds[operation] = hold

    @precondition(lambda self: self.holds)
    @rule(data=st.data(), same=st.booleans())
    def reserve_again(self, data: st.DataObject, same: bool) -> None:
        name = self.some_hold(data)
        request = hold_pb2.ReserveRequest()
        request.CopyFrom(self.holds[name].request)
        if same:
            answer = self.gateway.holds.Reserve(request)
            assert answer.replayed
            assert state(answer.hold) == self.holds[name].state
            return
        request.quote.fixed.amount.amount = "7.77"
        with refused("IDEMPOTENCY_MISMATCH"):
            self.gateway.holds.Reserve(request)
        request.idempotency_key += "-other"
        with refused("OPERATION_EXISTS"):
            self.gateway.holds.Reserve(request)

    @precondition(lambda self: self.holds)
    @rule(data=st.data())
    def mark_outcome_unknown(self, data: st.DataObject) -> None:
        name = self.some_hold(data)
        hold = self.holds[name]
        request = hold_pb2.MarkOutcomeUnknownRequest(
            idempotency_key=f"u-{uuid4().hex}", operation_id=name, observation="timeout"
        )
        if hold.state == "RESERVED":
            with refused("HOLD_STATE"):
                self.gateway.holds.MarkOutcomeUnknown(request)
            return
        answer = self.gateway.holds.MarkOutcomeUnknown(request)
        assert answer.applied == (hold.state == "DISPATCHING")
        if answer.applied:
            hold.state = "OUTCOME_UNKNOWN"
        assert state(answer.hold) == hold.state

    @precondition(lambda self: self.holds)
    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        name = self.some_hold(data)
        hold = self.holds[name]
        request = hold_pb2.ReleaseRequest(idempotency_key=f"l-{uuid4().hex}", operation_id=name)
        if hold.state in {"RESERVED", "RELEASED"}:
            answer = self.gateway.holds.Release(request)
            assert answer.replayed == (hold.state == "RELEASED")
            if hold.state == "RESERVED":
                # One that is RELEASED may have been corrected since: its end stays what it is.
                hold.state, hold.kind = "RELEASED", "NEVER_DISPATCHED"
            return
        with refused("HOLD_STATE"):
            self.gateway.holds.Release(request)

    @precondition(lambda self: self.holds)
    @rule(
        data=st.data(),
        difference=st.sampled_from([Decimal(text) for text in ("0", "-0.5", "1", "3", "-100", "9")]),
        accept=st.sampled_from([True, True, False]),
        receipt=st.sampled_from(["", "rcpt-1", "rcpt-2"]),
    )
    def resolve_usage(self, data: st.DataObject, difference: Decimal, accept: bool, receipt: str) -> None:
        name = self.some_hold(data)
        hold = self.holds[name]
        cost = max(hold.amount + difference, Decimal(0))
        request = hold_pb2.ResolveRequest(
            idempotency_key=f"s-{uuid4().hex}",
            operation_id=name,
            usage=hold_pb2.UsageEvidence(
                source=hold_pb2.EVIDENCE_SOURCE_PROVIDER_RECORD,
                provider="acme",
                charged=usd(cost),
                provider_receipt=receipt,
            ),
            accept_overrun_reason="agreed" if accept else "",
        )
        if hold.state not in OPEN and self.superseded(name, "USAGE", cost):
            self.superseded_answer(name, self.finance.holds.Resolve(request), receipt)
        elif hold.state not in OPEN and (hold.kind, hold.settled) != ("USAGE", cost):
            with refused("RESOLUTION_CONFLICT"):
                self.finance.holds.Resolve(request)
            self.incidents.add((name, f"usage of {cost}"))
            self.brings(name, receipt, kept=False)
        elif hold.state not in OPEN:
            answer = self.finance.holds.Resolve(request)
            assert answer.replayed
            assert answer.superseded_by == ""
            assert bool(answer.incident_id) == self.brings(name, receipt)
        elif cost > hold.amount + hold.tolerance and not accept:
            with refused("EVIDENCE_REJECTED") as error:
                self.finance.holds.Resolve(request)
            assert ("incident_id" in error.metadata) == self.brings(name, receipt)
            hold.executed, hold.attempted = True, True
            if hold.state == "RESERVED":  # it was evidently dispatched: it can never be released any more
                hold.state = self.after_inferred_dispatch(name)
        else:
            answer = self.finance.holds.Resolve(request)
            assert not answer.replayed
            assert Decimal(answer.hold.resolution.amount.amount) == cost
            assert bool(answer.incident_id) == self.brings(name, receipt)
            hold.state, hold.kind, hold.settled = "SETTLED", "USAGE", cost
            hold.executed, hold.attempted = True, True

    @precondition(lambda self: self.holds)
    @rule(data=st.data(), who=st.sampled_from(["finance", "sender", "replica"]))
    def never_sent(self, data: st.DataObject, who: str) -> None:
        name = self.some_hold(data)
        hold = self.holds[name]
        nonce = {"finance": "", "sender": hold.nonce, "replica": f"nonce-{uuid4().hex}"}[who]
        proof = hold_pb2.NoCostProof(
            kind=hold_pb2.NO_COST_KIND_NEVER_SENT, cause=hold_pb2.NEVER_SENT_CAUSE_CONNECTION_REFUSED, nonce=nonce
        )
        is_open = hold.state in OPEN
        believed = who == "finance" or (nonce != "" and nonce == hold.nonce and hold.state != "OUTCOME_UNKNOWN")
        if hold.state in {"RESERVED", "RELEASED"} and not hold.attempted:
            self.no_cost_is_refused(name, proof, who, "HOLD_STATE")
        elif not believed or (is_open and (hold.executed or hold.receipt)):
            self.no_cost_is_refused(name, proof, who, "EVIDENCE_REJECTED")
        else:
            self.no_cost_is_believed(name, proof, who)

    @precondition(lambda self: self.holds)
    @rule(data=st.data(), who=st.sampled_from(["finance", "gateway"]))
    def refused_by_provider(self, data: st.DataObject, who: str) -> None:
        name = self.some_hold(data)
        hold = self.holds[name]
        proof = hold_pb2.NoCostProof(
            kind=hold_pb2.NO_COST_KIND_REJECTED_BEFORE_EXECUTION, provider_status=429, provider_request_id="request-1"
        )
        if hold.state in OPEN and (hold.receipt or (hold.state == "OUTCOME_UNKNOWN" and who == "gateway")):
            self.no_cost_is_refused(name, proof, who, "EVIDENCE_REJECTED")
        else:
            self.no_cost_is_believed(name, proof, who)

    def no_cost_is_believed(self, name: str, proof: hold_pb2.NoCostProof, who: str) -> None:
        """It settles an open hold, repeats one that ended by such a proof, and contradicts any other."""
        hold = self.holds[name]
        if hold.state not in OPEN and self.superseded(name, "NO_COST", Decimal(0)):
            self.superseded_answer(name, self.file(name, proof, who), "")
            return
        if hold.state not in OPEN and hold.kind != "NO_COST":
            self.no_cost_is_refused(name, proof, who, "RESOLUTION_CONFLICT")
            self.incidents.add((name, "no cost"))
            return
        answer = self.file(name, proof, who)
        assert answer.replayed == (hold.state not in OPEN)
        if hold.state in OPEN:
            hold.state, hold.kind, hold.attempted = "SETTLED", "NO_COST", True

    def no_cost_is_refused(self, name: str, proof: hold_pb2.NoCostProof, who: str, reason: str) -> None:
        with refused(reason):
            self.file(name, proof, who)

    def file(self, name: str, proof: hold_pb2.NoCostProof, who: str) -> hold_pb2.ResolveResponse:
        request = hold_pb2.ResolveRequest(idempotency_key=f"n-{uuid4().hex}", operation_id=name, no_cost=proof)
        stubs = self.finance if who == "finance" else self.gateway
        answer: hold_pb2.ResolveResponse = stubs.holds.Resolve(request)
        return answer

    @precondition(lambda self: any(h.state in {"RESERVED", "DISPATCHING"} for h in self.holds.values()))
    @rule(data=st.data())
    def time_runs_out(self, data: st.DataObject) -> None:
        name = self.some_hold(data, "RESERVED", "DISPATCHING")
        hold = self.holds[name]
        if hold.state == "RESERVED":
            hold.state, hold.kind = "RELEASED", "NEVER_DISPATCHED"
        else:
            self.without_another_attempt(hold)
        self.live.let_time_run_out(self.tenant, name)
        self.live.wait_for_state(self.gateway, name, hold.state)

    @rule(
        level=st.sampled_from(list(BUDGETS)), amount=st.sampled_from([Decimal("0.5"), Decimal(4)]), twice=st.booleans()
    )
    def grant(self, level: str, amount: Decimal, twice: bool) -> None:
        request = GrantBudgetRequest(
            idempotency_key=f"g-{uuid4().hex}", budget_id=level, amount=usd(amount), reference=f"ref-{uuid4().hex}"
        )
        self.finance.budgets.GrantBudget(request)
        if twice:
            request.idempotency_key += "-again"
            assert self.finance.budgets.GrantBudget(request).replayed
        limit = self.limits[level]
        if limit is not None:
            self.limits[level] = limit + amount

    # --- the laws --------------------------------------------------------------------------------------------------

    @invariant()
    def balances_are_the_models(self) -> None:
        for level, limit in self.limits.items():
            got = self.gateway.budgets.GetBudget(GetBudgetRequest(budget_id=level)).budget.balances
            mine = [h for h in self.holds.values() if level in h.levels]
            held = sum((h.amount for h in mine if h.state in {"RESERVED", "DISPATCHING"}), Decimal(0))
            unknown = sum((h.amount for h in mine if h.state == "OUTCOME_UNKNOWN"), Decimal(0))
            spent = sum((h.settled for h in mine), Decimal(0))
            assert (Decimal(got.held), Decimal(got.unknown), Decimal(got.spent)) == (held, unknown, spent), level
            if limit is not None:
                free = limit - held - unknown - spent
                assert (Decimal(got.available), Decimal(got.deficit)) == (max(free, 0), max(-free, 0)), level

    @invariant()
    def states_are_the_models(self) -> None:
        got = {
            h.operation_id: state(h)
            for h in self.gateway.holds.ListHolds(hold_pb2.ListHoldsRequest(page_size=1000)).holds
        }
        assert got == {name: h.state for name, h in self.holds.items()}

    @invariant()
    def incidents_are_the_models(self) -> None:
        found = self.finance.holds.ListIncidents(hold_pb2.ListIncidentsRequest(page_size=1000)).incidents
        assert len(found) == len(self.incidents)

    @invariant()
    def every_law_holds(self) -> None:
        assert [law for law in check(self.database) if law.violations] == []
        type(self).reached["steps"] += 1


# Without the variable the same few lives each time, so that a run is as long as the one before; with it as many at random.
ASKED = os.environ.get("LEDGER_TEST_EXAMPLES")
EXAMPLES = int(ASKED or "4")
# From so many lives on everything rare is among them.
ENOUGH = 30


@pytest.mark.timeout(60 + 20 * EXAMPLES)
def test_random_lives_of_holds_keep_every_law(server_url: str, template: str, tmp_path: Path) -> None:
    numbers = count()

    @contextmanager
    def fresh() -> Iterator[LiveLedger]:
        folder = tmp_path / str(next(numbers))
        folder.mkdir()
        with new_database(server_url, template) as url, live_ledger(url, folder) as live:
            yield live

    Lives.fresh = staticmethod(fresh)
    Lives.reached = Counter()
    run_state_machine_as_test(
        Lives,
        settings=settings(
            max_examples=EXAMPLES,
            stateful_step_count=40,
            deadline=None,
            derandomize=ASKED is None,
            suppress_health_check=list(HealthCheck),
            database=None,
            print_blob=True,
        ),
    )
    missed = [name for name in RARE if not Lives.reached[name]]
    assert missed == [] if EXAMPLES >= ENOUGH else len(missed) < len(RARE) / 2, (missed, Lives.reached)
    record("lives of holds", lives=EXAMPLES, violations=0, **Lives.reached)
