"""Cases from the field: what became of a call, and who may say so. Over the real service and database."""

import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import aiohttp
import psycopg
import pytest

from ledger.client import Ledger
from ledger.demo import replies
from ledger.demo.books import RATES
from ledger.demo.gateway import Call, Gateway, NeverSent, Unknown
from ledger.demo.provider import FakeProvider, Mode
from tests.acceptance.harness import ROOT, refused
from tests.acceptance.tenant import ESTIMATE, RECORD, Tenant, closed_port, fault, metered, provider_socket
from tests.watching import until_waiting

MODEL = replies.OPENAI_MODEL
# What the fake provider charges for a call of this model: 1 600 x 2.5 + 2 400 x 1.25 + 500 x 10, per million
COST = "0.012"


def open_books(acme: Tenant) -> None:
    """A budget of 1, and the card of the model: a call of 8 000 in and 1 000 out is quoted at 0.03."""
    acme.budget(limit="1")
    rates = [f"{bucket} {price}" for bucket, price in RATES[MODEL].items()]
    acme.card(MODEL, "openai", *rates, max_in=8_000, max_out=1_000)


@asynccontextmanager
async def calling(acme: Tenant) -> AsyncIterator[tuple[Gateway, FakeProvider]]:
    """A gateway and a provider, over sockets."""
    address, token = acme.live.servers[0].address, acme.live.token(acme.name, "gateway")
    async with (
        Ledger.connect(address, token) as ledger,
        FakeProvider(delay=2.0).serving() as provider,
        aiohttp.ClientSession() as session,
    ):
        yield Gateway(ledger, session), provider


async def records(provider: FakeProvider, operation: str) -> list[dict[str, Any]]:
    """What the provider has on record of an operation."""
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"{provider.url}/records", params={"idempotency_key": operation}) as response,
    ):
        found: list[dict[str, Any]] = (await response.json())["records"]
        return found


def call(operation: str, url: str, mode: Mode, *, stream: bool = False) -> Call:
    return Call(operation, url, "openai.chat", MODEL, "team", {}, stream=stream, patience=0.5, mode=mode)


@pytest.mark.parametrize(("mode", "stream"), [(Mode.CUT_STREAM, True), (Mode.LOST_REPLY, False), (Mode.DELAYED, False)])
async def test_a_call_that_was_cut_stays_held_until_the_provider_reports_its_usage(
    acme: Tenant, mode: Mode, stream: bool
) -> None:
    open_books(acme)
    async with calling(acme) as (gateway, provider):
        seen, _ = await gateway.call(call("op-1", provider.url, mode, stream=stream))
        assert isinstance(seen, Unknown)
        assert acme.stands("op-1") == "OUTCOME_UNKNOWN"
        with refused("HOLD_STATE") as told:
            acme.release("op-1")
        assert told.metadata["recovery_action"] == "no_replay"
        assert acme.balances() == {"authority": "1", "available": "0.97", "unknown": "0.03"}
        (record,) = await records(provider, "op-1")
        usage = {"model": record["model"], "usage": record["usage"]}
        acme.report("op-1", "openai.chat", usage, source=RECORD, provider_receipt=record["receipt"])
        assert acme.stands("op-1") == f"SETTLED {COST}"
        assert acme.balances() == {"authority": "1", "available": "0.988", "spent": "0.012"}


async def test_connection_refused_is_a_proof_and_a_time_out_after_sending_is_none(acme: Tenant) -> None:
    open_books(acme)
    with closed_port() as closed:
        async with calling(acme) as (gateway, provider):
            refused_seen, _ = await gateway.call(call("refused", closed, Mode.NORMAL))
            silent_seen, _ = await gateway.call(call("silent", provider.url, Mode.DELAYED))
    assert isinstance(refused_seen, NeverSent)
    assert silent_seen == Unknown("time-out")
    assert (acme.stands("refused"), acme.stands("silent")) == ("SETTLED 0", "OUTCOME_UNKNOWN")
    assert acme.balances() == {"authority": "1", "available": "0.97", "unknown": "0.03"}


def test_usage_of_exactly_zero_posts_nothing_and_frees_the_hold(acme: Tenant) -> None:
    open_books(acme)
    acme.reserve("op-1", metered(MODEL), send=True)
    acme.report("op-1", "openai.chat", {"model": MODEL, "usage": {"prompt_tokens": 0, "completion_tokens": 0}})
    assert acme.stands("op-1") == "SETTLED 0"
    assert acme.postings("SPENT") == []
    assert acme.balances() == {"authority": "1", "available": "1"}


@pytest.mark.parametrize(
    ("usage", "missing"),
    [
        ({}, "usage.prompt_tokens"),
        ({"prompt_tokens": 5}, "usage.completion_tokens"),
        ({"prompt_tokens": 0, "completion_tokens": None}, "usage.completion_tokens"),
    ],
)
def test_what_is_absent_is_not_zero(acme: Tenant, usage: dict[str, Any], missing: str) -> None:
    open_books(acme)
    acme.reserve("op-1", metered(MODEL), send=True)
    with refused("EVIDENCE_REJECTED") as told:
        acme.report("op-1", "openai.chat", {"model": MODEL, "usage": usage})
    assert missing in told.metadata["reasons"]
    assert acme.stands("op-1") == "DISPATCHING"
    assert acme.balances()["held"] == "0.03"


def test_a_failure_callback_with_cost_0_is_no_proof_and_the_true_cost_lands_once(acme: Tenant) -> None:
    acme.budget()
    acme.reserve("op-1", "5", send=True)
    with refused("EVIDENCE_REJECTED"):
        acme.charge("op-1", "0", source=ESTIMATE)
    assert acme.stands("op-1") == "DISPATCHING"
    acme.charge("op-1", "4")
    with refused("EVIDENCE_REJECTED"):
        acme.charge("op-1", "0", source=ESTIMATE)
    assert acme.stands("op-1") == "SETTLED 4"
    assert acme.entries("op-1") == ["RESERVE", "SETTLE"]


@contextmanager
def gateway_process(acme: Tenant, operation: str, provider_url: str = "") -> Iterator["subprocess.Popen[bytes]"]:
    """A gateway that has reserved."""
    address, token = acme.live.servers[0].address, acme.live.token(acme.name, "gateway")
    command = [sys.executable, "-m", "tests.acceptance.gateway_process", address, token, operation, provider_url]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == b"reserved\n"
            yield process
        finally:
            process.kill()


def test_a_gateway_that_is_killed_after_the_reserve_frees_its_hold_by_expiry(acme: Tenant) -> None:
    open_books(acme)
    with gateway_process(acme, "op-1") as gateway:
        assert acme.stands("op-1") == "RESERVED"
        gateway.kill()
        assert gateway.wait() == -signal.SIGKILL
    acme.live.let_time_run_out(acme.name, "op-1")
    acme.live.wait_for_state(acme.gateway, "op-1", "RELEASED")
    hold = acme.hold("op-1")
    assert hold.update_time.ToDatetime() >= hold.expire_time.ToDatetime()
    assert acme.balances() == {"authority": "1", "available": "1"}


def test_a_gateway_that_is_killed_after_the_dispatch_leaves_an_unknown_outcome_on_the_list(acme: Tenant) -> None:
    open_books(acme)
    with provider_socket() as (url, request_arrives), gateway_process(acme, "op-1", url) as gateway:
        assert request_arrives().startswith(b"POST /v1/chat/completions")
        gateway.kill()
        assert gateway.wait() == -signal.SIGKILL
    assert acme.stands("op-1") == "DISPATCHING"
    acme.live.let_time_run_out(acme.name, "op-1")
    acme.live.wait_for_state(acme.gateway, "op-1", "OUTCOME_UNKNOWN")
    assert acme.in_state("OUTCOME_UNKNOWN") == ["op-1"]
    assert acme.balances() == {"authority": "1", "available": "0.97", "unknown": "0.03"}
    # The provider had executed it: its record, found later, is what settles.
    acme.report("op-1", "openai.chat", {"model": MODEL, "usage": replies.OPENAI_USAGE}, source=RECORD)
    assert acme.stands("op-1") == f"SETTLED {COST}"


def test_nothing_is_swept_of_a_call_that_was_sent_and_a_late_settle_under_another_key_lands_once(acme: Tenant) -> None:
    acme.budget()
    acme.reserve("op-1", "6", send=True, key="first")
    acme.live.let_time_run_out(acme.name, "op-1")
    acme.live.wait_for_state(acme.gateway, "op-1", "OUTCOME_UNKNOWN")
    # The sweep comes by again.
    acme.reserve("another", "1")
    acme.live.let_time_run_out(acme.name, "another")
    acme.live.wait_for_state(acme.gateway, "another", "RELEASED")
    assert acme.stands("op-1") == "OUTCOME_UNKNOWN"
    assert acme.balances() == {"authority": "100", "available": "94", "unknown": "6"}
    assert not acme.charge("op-1", "5", response_id="late").replayed
    assert acme.charge("op-1", "5", response_id="later").replayed
    with refused("RESOLUTION_CONFLICT"):
        acme.charge("op-1", "4", response_id="latest")
    assert acme.stands("op-1") == "SETTLED 5"
    assert acme.entries("op-1") == ["RESERVE", "OUTCOME_UNKNOWN", "SETTLE"]
    assert acme.balances() == {"authority": "100", "available": "95", "spent": "5"}


def test_of_four_dispatches_of_one_action_each_is_resolved_on_its_own_evidence(acme: Tenant) -> None:
    acme.budget()
    for number in range(4):
        acme.reserve(f"op-{number}", "1", send=True, request_group="action-1")
    acme.charge("op-0", "0.7")
    acme.never_sent("op-1")
    acme.unknown("op-2")
    found = acme.group("action-1")
    assert found == {"op-0": "SETTLED 0.7", "op-1": "SETTLED 0", "op-2": "OUTCOME_UNKNOWN", "op-3": "DISPATCHING"}
    assert acme.balances() == {"authority": "100", "available": "97.3", "held": "1", "unknown": "1", "spent": "0.7"}


@pytest.mark.parametrize("table", ["hold", "book", "entry", "posting", "receipt"])
def test_a_key_whose_first_write_failed_was_never_claimed(acme: Tenant, table: str) -> None:
    acme.budget()
    with fault(acme, table), refused("INTERNAL"):
        acme.reserve("op-1", "5", send=True, key="k1")
    with refused("NOT_FOUND"):
        acme.hold("op-1")
    assert acme.balances() == {"authority": "100", "available": "100"}
    again = acme.reserve("op-1", "5", send=True, key="k1")
    assert (again.replayed, again.may_send) == (False, True)
    assert acme.balances()["held"] == "5"


def test_a_server_that_is_killed_while_it_writes_has_not_claimed_the_key(acme: Tenant) -> None:
    """The reserve waits for a row that another program has locked; then the server is gone, and another takes its place."""
    acme.budget()
    server = acme.live.servers[0]
    with psycopg.connect(acme.live.database_url) as other:
        other.execute("SELECT 1 FROM book WHERE tenant = %s FOR UPDATE", [acme.name])
        under_way = acme.gateway.holds.Reserve.future(acme.reservation("op-1", "5", key="k1"))
        until_waiting(acme.live.database_url)
        server.kill()
        assert under_way.exception(timeout=30) is not None
    server.start()
    again = acme.patiently(acme.reservation("op-1", "5", key="k1"))
    assert not again.replayed
    assert acme.balances() == {"authority": "100", "available": "95", "held": "5"}
