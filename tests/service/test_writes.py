"""Read-back and the log of commands, over the wire."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.timestamp_pb2 import Timestamp

from ledger.domain.model import Role
from ledger.v1 import error_pb2, hold_pb2, money_pb2, write_pb2
from tests.service.harness import (
    Ledger,
    invalid,
    put_card,
    refusal,
    reserve_request,
    resolve_request,
    sending_request,
    serving,
)
from tests.service.test_lists import walk


def usd(amount: str) -> money_pb2.Money:
    return money_pb2.Money(amount=amount, currency="USD")


def stamp(when: datetime) -> Timestamp:
    made = Timestamp()
    made.FromDatetime(when)
    return made


async def verify(client: Any, **fields: Any) -> write_pb2.VerifyWriteResponse:
    answer = await client.writes.VerifyWrite(write_pb2.VerifyWriteRequest(**fields))
    assert isinstance(answer, write_pb2.VerifyWriteResponse)
    return answer


def sent(command: str, key: str, **fields: str) -> write_pb2.SentCommand:
    return write_pb2.SentCommand(command=command, idempotency_key=key, **fields)


async def settled(ledger: Ledger) -> hold_pb2.Hold:
    """op-1: 5 held, settled at 4."""
    await ledger.budget()
    await ledger.gateway.holds.Reserve(sending_request("op-1", "5"))
    return (await ledger.gateway.holds.Resolve(resolve_request("op-1", "4"))).hold


async def test_what_is_there_matches_and_what_is_not_opens_a_case(database_url: str, tmp_path: Path) -> None:
    async with serving(database_url, tmp_path) as ledger:
        hold = await settled(ledger)
        true = write_pb2.WriteClaim(
            state=hold_pb2.HOLD_STATE_SETTLED, amount=usd("5.00"), settled=usd("4"), budget_ids=["team"],
            digest=hold.resolution.digest,
        )  # fmt: skip
        answer = await verify(ledger.gateway, operation_id="op-1", claim=true)
        assert answer.verdict == write_pb2.WRITE_VERDICT_MATCH
        assert answer.hold.resolution.amount.amount == "4"
        assert not answer.incident_id
        wrong = write_pb2.WriteClaim(state=hold_pb2.HOLD_STATE_RELEASED, amount=usd("5"), settled=usd("0"))
        answers = [await verify(ledger.gateway, operation_id="op-1", claim=wrong) for _ in range(2)]
        for answer in answers:
            assert answer.verdict == write_pb2.WRITE_VERDICT_MISMATCH
            assert [(d.field, d.claimed, d.actual) for d in answer.differences] == [
                ("state", "RELEASED", "SETTLED"),
                ("settled", "0 USD", "4 USD"),
            ]
            assert answer.hold.state == hold_pb2.HOLD_STATE_SETTLED, "a claim changes nothing"
        cases = (await ledger.auditor.holds.ListIncidents(hold_pb2.ListIncidentsRequest())).incidents
        assert [case.incident_id for case in cases] == [answers[0].incident_id] == [answers[1].incident_id]
        assert cases[0].kind == hold_pb2.INCIDENT_KIND_WRITE_MISMATCH
        # Another tenant sees none of it.
        answer = await verify(ledger.rival(Role.GATEWAY), operation_id="op-1", claim=true)
        assert answer.verdict == write_pb2.WRITE_VERDICT_NOT_FOUND


async def test_what_a_key_did(database_url: str, tmp_path: Path) -> None:
    async with serving(database_url, tmp_path) as ledger:
        await settled(ledger)
        done = write_pb2.WriteClaim(claims_outcome=True, operation_id="op-1", settled=usd("4"))
        answer = await verify(ledger.gateway, sent=sent("Resolve", "s-op-1"), claim=done)
        assert answer.verdict == write_pb2.WRITE_VERDICT_MATCH
        assert (answer.invocation.actor, answer.invocation.resource) == ("gateway-1", "op-1")
        assert answer.invocation.state == hold_pb2.HOLD_STATE_SETTLED
        assert answer.invocation.remembered
        # Finance asks about the key of another.
        answer = await verify(ledger.finance, sent=sent("Resolve", "s-op-1"), claim=done)
        assert answer.verdict == write_pb2.WRITE_VERDICT_NOT_FOUND
        answer = await verify(ledger.finance, sent=sent("Resolve", "s-op-1", actor="gateway-1"), claim=done)
        assert answer.verdict == write_pb2.WRITE_VERDICT_MATCH
        # A refusal of permission is what the key did; believing that it was done is wrong.
        await refusal(ledger.gateway.holds.Reserve(reserve_request("op-2", "1000")))
        answer = await verify(
            ledger.gateway, sent=sent("Reserve", "r-op-2"), claim=write_pb2.WriteClaim(claims_outcome=True)
        )
        assert answer.verdict == write_pb2.WRITE_VERDICT_MISMATCH
        assert [(d.field, d.claimed, d.actual) for d in answer.differences] == [
            ("outcome", "OK", "INSUFFICIENT_BUDGET")
        ]
        assert not answer.HasField("hold")
        refused = error_pb2.ERROR_REASON_INSUFFICIENT_BUDGET
        claim = write_pb2.WriteClaim(claims_outcome=True, refused=refused)
        answer = await verify(ledger.gateway, sent=sent("Reserve", "r-op-2"), claim=claim)
        assert answer.verdict == write_pb2.WRITE_VERDICT_MATCH


async def test_the_key_of_a_budget_says_nothing_of_an_operation_with_its_name(
    database_url: str, tmp_path: Path
) -> None:
    async with serving(database_url, tmp_path) as ledger:
        await ledger.budget("team")
        await ledger.gateway.holds.Reserve(reserve_request("team", "5"))
        subject = sent("CreateBudget", "create-team", actor="admin-1")
        answer = await verify(ledger.finance, sent=subject, claim=write_pb2.WriteClaim(claims_outcome=True))
        assert answer.verdict == write_pb2.WRITE_VERDICT_MATCH
        assert not answer.HasField("hold")
        claim = write_pb2.WriteClaim(state=hold_pb2.HOLD_STATE_RESERVED)
        answer = await verify(ledger.finance, sent=subject, claim=claim)
        assert [(d.field, d.actual) for d in answer.differences] == [("state", "nothing")]
        assert not answer.HasField("hold")


async def test_what_is_not_there_may_still_land_and_says_until_when(database_url: str, tmp_path: Path) -> None:
    async with serving(database_url, tmp_path) as ledger:
        await ledger.budget()
        unbounded = await verify(ledger.gateway, sent=sent("Reserve", "r-op-1"))
        assert unbounded.verdict == write_pb2.WRITE_VERDICT_NOT_FOUND
        assert not unbounded.final
        assert not unbounded.HasField("may_land_until")
        now = datetime.now(UTC)
        soon = await verify(ledger.gateway, sent=sent("Reserve", "r-op-1"), call_deadline=stamp(now))
        assert not soon.final
        # A batch that was begun at the deadline begins its last COMMIT within 60 s, and that is waited for for 40 s. The deadline
        # is by the caller's clock, which may be a minute behind the database's.
        assert soon.may_land_until.ToDatetime(UTC) == stamp(now + timedelta(seconds=160)).ToDatetime(UTC)
        # And it does land.
        await ledger.gateway.holds.Reserve(reserve_request("op-1"))
        landed = await verify(ledger.gateway, sent=sent("Reserve", "r-op-1"), call_deadline=stamp(now))
        assert landed.verdict == write_pb2.WRITE_VERDICT_MATCH
        behind = await verify(ledger.gateway, operation_id="op-9", call_deadline=stamp(now - timedelta(seconds=130)))
        assert not behind.final
        long_ago = stamp(now - timedelta(minutes=3))
        never = await verify(ledger.gateway, operation_id="op-9", call_deadline=long_ago)
        assert never.final
        assert never.may_land_until.ToDatetime(UTC) < never.as_of.ToDatetime(UTC)
        assert "not written" in never.meaning


async def test_a_key_about_a_budget_or_a_card_is_not_held_against_a_hold(database_url: str, tmp_path: Path) -> None:
    async with serving(database_url, tmp_path) as ledger:
        await ledger.budget()
        await put_card(ledger)
        await ledger.gateway.holds.Reserve(sending_request("team", "5"))
        (made,) = (
            line
            for line in (
                await ledger.auditor.writes.ListInvocations(write_pb2.ListInvocationsRequest(resource="team"))
            ).invocations
            if line.command == "CreateBudget"
        )
        named = sent("CreateBudget", made.idempotency_key, actor=made.actor)
        answer = await verify(ledger.auditor, sent=named, claim=write_pb2.WriteClaim(claims_outcome=True))
        assert answer.verdict == write_pb2.WRITE_VERDICT_MATCH
        assert not answer.HasField("hold")
        wrong = write_pb2.WriteClaim(state=hold_pb2.HOLD_STATE_DISPATCHING)
        answer = await verify(ledger.auditor, sent=named, claim=wrong)
        assert answer.verdict == write_pb2.WRITE_VERDICT_MISMATCH
        assert [(d.field, d.actual) for d in answer.differences] == [("state", "nothing")]


async def test_the_log_of_a_card_has_the_commands_of_all_its_versions(database_url: str, tmp_path: Path) -> None:
    async with serving(database_url, tmp_path) as ledger:
        await put_card(ledger)
        listing = ledger.auditor.writes.ListInvocations
        card = (await listing(write_pb2.ListInvocationsRequest(resource="gpt-5"))).invocations
        assert [(line.command, line.idempotency_key, line.resource) for line in card] == [
            ("PutPriceCard", "card-1", "gpt-5#1")
        ]
        assert not (await listing(write_pb2.ListInvocationsRequest(resource="gpt"))).invocations


async def test_the_log_has_what_was_done_and_what_was_refused_in_order(database_url: str, tmp_path: Path) -> None:
    async with serving(database_url, tmp_path) as ledger:
        await settled(ledger)
        again = hold_pb2.ReleaseRequest(idempotency_key="late", operation_id="op-1")
        for _ in range(2):
            assert (await refusal(ledger.gateway.holds.Release(again)))[1] == "HOLD_STATE"
        await ledger.gateway.holds.Reserve(sending_request("op-1", "5"))
        listing = ledger.auditor.writes.ListInvocations
        lines = await walk(listing, write_pb2.ListInvocationsRequest(resource="op-1"), "invocations", 1)
        said = [(line.command, line.idempotency_key, line.refused, line.remembered) for line in lines]
        late = error_pb2.ERROR_REASON_HOLD_STATE
        assert said == [
            ("Reserve", "r-op-1", 0, True),
            ("Resolve", "s-op-1", 0, True),
            ("Release", "late", late, False),
            ("Release", "late", late, False),
        ]
        assert [line.state for line in lines] == [hold_pb2.HOLD_STATE_DISPATCHING] + [hold_pb2.HOLD_STATE_SETTLED] * 3
        assert len({line.fingerprint for line in lines}) == 3
        budget = await listing(write_pb2.ListInvocationsRequest(resource="team"))
        assert [line.command for line in budget.invocations] == ["CreateBudget"]
        assert (await refusal(ledger.gateway.writes.ListInvocations(write_pb2.ListInvocationsRequest(resource="x"))))[
            1
        ] == "ROLE_NOT_ALLOWED"


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({}, "subject"),
        ({"sent": sent("Pay", "k")}, "sent.command"),
        ({"sent": sent("Reserve", "")}, "sent.idempotency_key"),
        ({"operation_id": "op", "claim": write_pb2.WriteClaim(claims_outcome=True)}, "claim.claims_outcome"),
        (
            {"operation_id": "op", "claim": write_pb2.WriteClaim(refused=error_pb2.ERROR_REASON_NOT_FOUND)},
            "claim.refused",
        ),
        ({"operation_id": "op", "claim": write_pb2.WriteClaim(digest="AB")}, "claim.digest"),
        ({"operation_id": "op", "claim": write_pb2.WriteClaim(amount=usd("1,5"))}, "claim.amount.amount"),
        ({"operation_id": "op", "claim": write_pb2.WriteClaim(budget_ids=["b"] * 33)}, "claim.budget_ids"),
    ],
)
async def test_a_claim_that_cannot_be_read_names_the_field(
    database_url: str, tmp_path: Path, fields: dict[str, Any], path: str
) -> None:
    async with serving(database_url, tmp_path) as ledger:
        assert await invalid(ledger.gateway.writes.VerifyWrite(write_pb2.VerifyWriteRequest(**fields))) == path
