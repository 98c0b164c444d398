"""The client's rules that need no server: keys, pauses, what an error means, and what leaves the process."""

import pickle
import random
from datetime import timedelta
from decimal import Decimal
from typing import Any

import grpc
import pytest

from ledger.client import (
    Backoff,
    Batching,
    NotDone,
    NotPermitted,
    Refused,
    WriteOutcomeUnknown,
    fixed_quote,
    metered_quote,
    usage_evidence,
)
from ledger.client.commands import resolve_command, unknown_command
from ledger.client.errors import CUT_OFF, Fate, Fault, error_of, fault_of_command
from ledger.client.keys import LONGEST, permission_key
from ledger.client.messages import usage_in
from ledger.client.relay import Relay, never
from ledger.client.retry import AGAIN, DOUBTFUL
from ledger.domain.refusals import Reason, Refusal
from ledger.service.errors import CATALOGUE, command_error
from ledger.v1 import error_pb2, hold_pb2


def key(receipt: str = "r-1", **fields: Any) -> str:
    evidence = usage_evidence("openai", charged=(Decimal(7), "USD"), receipt=receipt)
    evidence.observe_time.FromSeconds(fields.get("seen", 0))
    return resolve_command(fields.get("operation", "op"), evidence).resolve.idempotency_key


def test_a_derived_key_is_the_same_in_every_process() -> None:
    assert permission_key("op", "reserve") == "op/reserve"
    # SHA-256 of "ledger.client/1/unknown\n" and {"observation":"time-out","operation_id":"op"}, its first 24 hex digits
    assert (
        unknown_command("op", "time-out").mark_outcome_unknown.idempotency_key == "op/unknown/a0cef032283b1eb6c16b4e72"
    )


def test_another_report_has_another_key() -> None:
    assert key() == key()
    assert key("r-2") != key()
    assert unknown_command("op", "a").mark_outcome_unknown.idempotency_key != (
        unknown_command("op", "b").mark_outcome_unknown.idempotency_key
    )


def test_when_it_was_seen_and_the_nonce_are_no_part_of_a_key() -> None:
    assert key(seen=5) == key(seen=6)
    proofs = [hold_pb2.NoCostProof(kind=hold_pb2.NO_COST_KIND_NEVER_SENT, nonce=nonce * 16) for nonce in "ab"]
    first, second = (resolve_command("op", proof).resolve.idempotency_key for proof in proofs)
    assert first == second


def test_a_key_fits_however_long_the_operation_s_name_is() -> None:
    longest = "x" * LONGEST
    assert len(permission_key(longest, "reserve")) <= LONGEST
    assert len(key(operation=longest)) <= LONGEST
    assert permission_key(longest, "reserve") != permission_key("y" * LONGEST, "reserve")
    assert permission_key("x" * 120, "reserve") == "x" * 120 + "/reserve"
    grants = {permission_key(longest, f"grant/{'r' * 127}{number}") for number in range(2)}
    assert {len(grant) for grant in grants} == {64}


@pytest.mark.parametrize(
    ("tries", "most"), [(1, 0.05), (2, 0.1), (3, 0.2), (6, 1.6), (7, 2.0), (100, 2.0), (5_000, 2.0)]
)
def test_a_pause_doubles_up_to_its_cap_and_is_drawn_from_all_of_it(tries: int, most: float) -> None:
    assert Backoff().seconds(tries, lambda: 1.0) == pytest.approx(most)
    assert Backoff().seconds(tries, lambda: 0.0) == 0
    draw = random.Random(1).random
    drawn = [Backoff().seconds(tries, draw) for _ in range(500)]
    assert min(drawn) < most / 10
    assert max(drawn) > most * 9 / 10


# Whether a command that was refused for it is sent again by the client itself.
SENT_AGAIN = {
    Reason.THROTTLED,
    Reason.CONTENTION,
    Reason.STORE_UNAVAILABLE,
    Reason.DEADLINE_PASSED,
    Reason.UNKNOWN_WRITE_OUTCOME,
}


@pytest.mark.parametrize("reason", list(CATALOGUE))
def test_only_what_is_safe_is_sent_again(reason: Reason) -> None:
    fault = fault_of_command(command_error(Refusal(reason, "")))
    assert (fault.fate in AGAIN) == (reason in SENT_AGAIN)
    assert error_pb2.ErrorReason.Name(fault.reason) == f"ERROR_REASON_{reason}"


@pytest.mark.parametrize(
    ("reason", "doubt_before", "raised"),
    [
        (Reason.INSUFFICIENT_BUDGET, False, Refused),
        # A refusal comes after the look at the key: what was in doubt was not done.
        (Reason.INSUFFICIENT_BUDGET, True, Refused),
        (Reason.UNAUTHENTICATED, False, Refused),
        # This one comes before it, and says nothing of the first try.
        (Reason.UNAUTHENTICATED, True, WriteOutcomeUnknown),
        (Reason.THROTTLED, False, NotDone),
        (Reason.THROTTLED, True, WriteOutcomeUnknown),
        (Reason.UNKNOWN_WRITE_OUTCOME, True, WriteOutcomeUnknown),
        (Reason.INTERNAL, True, WriteOutcomeUnknown),
    ],
)
def test_what_is_said_when_there_is_no_further_try(reason: Reason, doubt_before: bool, raised: type[Exception]) -> None:
    fault = fault_of_command(command_error(Refusal(reason, "")))
    error = error_of(fault, "key-1", in_doubt=doubt_before)
    assert type(error) is raised
    assert ("key-1" in str(error)) == (raised is WriteOutcomeUnknown)


def test_a_reason_of_a_newer_ledger_is_a_refusal() -> None:
    fault = fault_of_command(error_pb2.CommandError(code=9, reason=999, message="No."))  # type: ignore[arg-type] # unknown
    assert fault.fate is Fate.REFUSED
    assert str(error_of(fault)) == "FAILED_PRECONDITION: No."


@pytest.mark.parametrize(
    ("code", "raised"),
    [
        (grpc.StatusCode.FAILED_PRECONDITION, Refused),
        (grpc.StatusCode.UNAVAILABLE, WriteOutcomeUnknown),
        (grpc.StatusCode.UNKNOWN, WriteOutcomeUnknown),
        (grpc.StatusCode.INTERNAL, WriteOutcomeUnknown),
        # Whoever found a message too long: it may have been the answer to what was done.
        (grpc.StatusCode.RESOURCE_EXHAUSTED, WriteOutcomeUnknown),
    ],
)
def test_a_reason_that_is_not_known_here_is_no_claim_that_nothing_was_done(
    code: grpc.StatusCode, raised: type[Exception]
) -> None:
    fault = fault_of_command(error_pb2.CommandError(code=code.value[0], reason=999))  # type: ignore[arg-type] # unknown
    assert type(error_of(fault, "key-1", in_doubt=fault.fate in DOUBTFUL)) is raised


def test_errors_go_from_process_to_process() -> None:
    hold = hold_pb2.Hold(operation_id="op", state=hold_pb2.HOLD_STATE_SETTLED)
    denied = NotPermitted(hold, hold_pb2.Denial(reason=hold_pb2.DENIAL_REASON_RESOLVED, way_out="Begin anew."))
    unknown = WriteOutcomeUnknown(CUT_OFF, "key-1")
    for error in (denied, unknown, Refused(CUT_OFF)):
        again = pickle.loads(pickle.dumps(error))
        assert (type(again), str(again)) == (type(error), str(error))
    assert str(denied).endswith("do not send. Begin anew.")
    assert pickle.loads(pickle.dumps(denied)).hold == hold


def test_the_ledger_s_advice_is_passed_on() -> None:
    fault = fault_of_command(command_error(Refusal(Reason.HOLD_STATE, "No.", {"recovery_action": "no_replay"})))
    assert error_of(fault).recovery_action == error_pb2.RECOVERY_ACTION_NO_REPLAY
    plain = Fault(Fate.REFUSED, fault.reason, "No.", fault.code)
    assert error_of(plain).recovery_action == error_pb2.RECOVERY_ACTION_UNSPECIFIED
    assert str(error_of(plain)) == "HOLD_STATE: No."


def test_amounts_are_exact() -> None:
    quote = fixed_quote(Decimal("1E-9"), "USD", provider="p", reason="r", tolerance=2)
    assert (quote.fixed.amount.amount, quote.tolerance) == ("0.000000001", "2")
    for amount in (0.1, True, "1"):
        with pytest.raises(TypeError, match="must be a Decimal"):
            fixed_quote(amount, "USD", provider="p", reason="r")  # type: ignore[arg-type] # what is refused
    assert metered_quote("card").tolerance == ""


def test_only_the_usage_of_a_response_is_taken() -> None:
    gemini = {"modelVersion": "g", "usageMetadata": {"promptTokenCount": 9}, "candidates": ["text"]}
    assert usage_in(gemini) == '{"modelVersion":"g","usageMetadata":{"promptTokenCount":9}}'
    with pytest.raises(ValueError, match="no usage object"):
        usage_in({"model": "m", "service_tier": "default", "usage": None})


def test_evidence_is_one_thing() -> None:
    several: list[dict[str, Any]] = [{}, {"buckets": {}, "charged": (1, "USD")}]
    for given in several:
        with pytest.raises(ValueError, match="one of"):
            usage_evidence("p", **given)
    assert usage_evidence("p", buckets={}).WhichOneof("usage") == "buckets"


def test_a_relay_holds_from_the_end_on() -> None:
    relay: Relay[str, str] = Relay({"u": "first", "v": "last"}.get, "e".__eq__)
    assert [relay.passes(event) for event in "abuxv"] == [True, True, False, False, False]
    assert (relay.held, relay.found) == (["u", "x", "v"], "last")
    ended: Relay[str, str] = Relay(lambda _: None, "e".__eq__)
    assert [ended.passes(event) for event in "aeb"] == [True, False, False]
    assert not never("e")


@pytest.mark.parametrize("bound", ["most_commands", "most_bytes", "on_the_wire"])
def test_bounds_within_which_nothing_could_be_sent_are_refused(bound: str) -> None:
    with pytest.raises(ValueError, match=f"{bound}=0"):
        Batching(**{bound: 0})


def test_spans_are_told_exactly() -> None:
    backoff = Backoff(first=timedelta(milliseconds=200), longest=timedelta(seconds=1))
    assert [backoff.seconds(tries, lambda: 1.0) for tries in (1, 2, 3, 4)] == [0.2, 0.4, 0.8, 1.0]
