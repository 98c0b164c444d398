"""Cases from the field: evidence that comes before its hold. Over the real service and database."""

from pathlib import Path

import pytest

from ledger.v1 import budget_pb2, hold_pb2
from tests.acceptance.harness import LiveLedger, live_ledger, refused
from tests.acceptance.tenant import Tenant, at_once

WEBHOOK = hold_pb2.EVIDENCE_SOURCE_WEBHOOK


def test_a_settle_before_anything_was_recorded_applies_once_and_the_late_dispatch_may_not_send(acme: Tenant) -> None:
    """The writes of the gateway are late: the provider's webhook is there before the reserve, and before the dispatch."""
    acme.budget()
    early = acme.charge("op-1", "5", source=WEBHOOK, provider_receipt="r-1", response_id="evt-1")
    assert (early.parked, early.HasField("hold")) == (True, False)
    with refused("NOT_FOUND"):
        acme.hold("op-1")
    reserved = acme.reserve("op-1", "6", send=True)
    assert (reserved.may_send, reserved.hold.attempt.inferred) == (False, True)
    acme.live.wait_for_state(acme.finance, "op-1", "SETTLED")
    settled = acme.hold("op-1")
    assert not acme.dispatch("op-1").may_send
    assert (acme.stands("op-1"), acme.hold("op-1").version) == ("SETTLED 5", settled.version)
    again = acme.charge("op-1", "5", source=WEBHOOK, provider_receipt="r-1", response_id="evt-1")
    assert (again.parked, again.replayed, again.hold.version) == (False, True, settled.version)
    assert acme.balances() == {"authority": "100", "available": "95", "spent": "5"}
    assert (acme.postings("HELD"), acme.postings("SPENT")) == (["-6", "6"], ["-5"])
    assert acme.entries("op-1") == ["RESERVE", "SETTLE"]


def test_usage_in_tokens_is_priced_by_the_card_of_the_hold_that_comes(acme: Tenant) -> None:
    """2006 prompt tokens of which 1920 cached, 300 out: 86 * 1.25 + 1920 * 0.125 + 300 * 10 = 3347.5 millionths."""
    acme.budget()
    acme.card("gpt-5", "openai", "input_tokens 1.25", "cache_read_tokens 0.125", "output_tokens 10")
    document = {
        "model": "gpt-5",
        "usage": {"prompt_tokens": 2006, "completion_tokens": 300, "prompt_tokens_details": {"cached_tokens": 1920}},
    }
    assert acme.report("op-1", "openai.chat", document).parked
    ceilings = {"input_tokens": 10_000, "output_tokens": 1_000}
    quote = hold_pb2.QuoteSpec(metered=hold_pb2.MeteredQuote(card_id="gpt-5", ceilings=ceilings))
    acme.reserve("op-1", quote, send=True)
    acme.live.wait_for_state(acme.finance, "op-1", "SETTLED")
    assert acme.stands("op-1") == "SETTLED 0.0033475"


def test_a_report_and_a_reserve_at_the_same_moment_come_to_the_same_end(acme: Tenant) -> None:
    acme.budget()
    for number in range(20):
        operation = f"op-{number}"
        calls = [
            lambda name=operation: acme.charge(name, "0.5", source=WEBHOOK),
            lambda name=operation: acme.reserve(name, "1", send=True),
        ]
        answers = at_once(*calls)
        assert not [answer for answer in answers if isinstance(answer, str)]
    for number in range(20):
        acme.live.wait_for_state(acme.finance, f"op-{number}", "SETTLED")
    assert acme.balances() == {"authority": "100", "available": "90", "spent": "10"}
    assert len(acme.postings("SPENT")) == 20


@pytest.mark.timeout(120)
def test_the_server_is_killed_between_parking_and_filing(database_url: str, tmp_path: Path) -> None:
    with live_ledger(database_url, tmp_path) as live:
        acme = Tenant(live, "t0")
        acme.budget()
        resting = {"SPEND_LEDGER_SWEEP_SECONDS": "3600"}
        restart(live, resting)
        assert acme.charge("early", "5", source=WEBHOOK).parked
        assert acme.charge("earlier", "4", source=WEBHOOK).parked
        restart(live, resting)
        assert not acme.reserve("early", "6", send=True).may_send
        assert acme.stands("early") == "DISPATCHING"
        assert live.violations() == []
        restart(live, {"SPEND_LEDGER_SWEEP_SECONDS": "0.05"})
        live.wait_for_state(acme.finance, "early", "SETTLED")
        acme.reserve("earlier", "6")
        live.wait_for_state(acme.finance, "earlier", "SETTLED")
        assert acme.balances() == {"authority": "100", "available": "91", "spent": "9"}
        assert live.violations() == []


def restart(live: LiveLedger, settings: dict[str, str]) -> None:
    """kill -9, and up again on the same address."""
    (server,) = live.servers
    server.kill()
    server.environment = {**server.environment, **settings}
    server.start()
    tenant = Tenant(live, "t0")
    tenant.finance.budgets.ListBudgets(budget_pb2.ListBudgetsRequest(), wait_for_ready=True)
