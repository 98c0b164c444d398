"""Who may call what."""

import re
from pathlib import Path
from typing import Any, cast

import grpc.aio
import pytest
from google.protobuf import empty_pb2
from google.protobuf.field_mask_pb2 import FieldMask
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from ledger.client import connect
from ledger.domain.model import Role
from ledger.service.access import ROLES
from ledger.v1 import budget_pb2, evidence_pb2, feed_pb2, hold_pb2, journal_pb2, money_pb2, price_pb2, write_pb2
from tests.service.harness import invalid, refusal, reserve_request, resolve_request, serving

FILES = (hold_pb2, budget_pb2, price_pb2, evidence_pb2, write_pb2, journal_pb2, feed_pb2)
PROTO = Path(__file__).parents[2] / "proto"


def roles_in_the_contract() -> dict[str, set[str]]:
    """Of each RPC the roles that its comment names."""
    roles: dict[str, set[str]] = {}
    for file in FILES:
        text = (PROTO / file.DESCRIPTOR.name).read_text()
        for service, body in re.findall(r"^service (\w+) \{(.*?)^\}", text, re.DOTALL | re.MULTILINE):
            for named, rpc in re.findall(r"Roles: ([^.]*)\.\n  rpc (\w+)\(", body):
                roles[f"/ledger.v1.{service}/{rpc}"] = set(named.split(", "))
    return roles


def test_every_rpc_is_named_and_nothing_else() -> None:
    rpcs = {
        f"/{service.full_name}/{method.name}"
        for file in FILES
        for service in file.DESCRIPTOR.services_by_name.values()
        for method in service.methods
    }
    assert set(ROLES) == rpcs


@pytest.mark.parametrize("method", sorted(ROLES))
def test_the_roles_are_those_of_the_contract(method: str) -> None:
    allowed = {role.value for role in ROLES[method]}
    if method.endswith("/BatchExecute"):
        assert allowed == {"gateway", "finance"}, "those who may send at least one of its commands"
    else:
        assert allowed == roles_in_the_contract()[method]


def test_the_services_own_role_may_call_nothing() -> None:
    assert not [method for method, roles in ROLES.items() if Role.SYSTEM in roles]


async def test_without_a_known_token_nothing_is_answered(database_url: str, tmp_path: Path) -> None:
    async with serving(database_url, tmp_path) as ledger, grpc.aio.insecure_channel(ledger.address) as channel:
        for method in ROLES:
            call: Any = channel.unary_unary(method, empty_pb2.Empty.SerializeToString, None)
            assert (await refusal(call(empty_pb2.Empty())))[:2] == ("UNAUTHENTICATED", "UNAUTHENTICATED"), method
            for value in ("", "Bearer", "Bearer ", "Bearer nobody", "Basic bm9ib2R5", "Bearer " + "x" * 5000):
                asked = call(empty_pb2.Empty(), metadata=(("authorization", value),))
                assert (await refusal(asked))[1] == "UNAUTHENTICATED", (method, value[:20])


async def test_a_role_that_is_not_named_is_refused(database_url: str, tmp_path: Path) -> None:
    async with serving(database_url, tmp_path) as ledger:
        asked = ledger.admin.holds.Reserve(reserve_request("op-1"))
        assert await refusal(asked) == (
            "PERMISSION_DENIED",
            "ROLE_NOT_ALLOWED",
            {"role": "admin", "method": "Reserve"},
        )
        # The role comes before the content: who may not call learns nothing about fields.
        code, reason, _ = await refusal(ledger.auditor.budgets.CreateBudget(budget_pb2.CreateBudgetRequest()))
        assert (code, reason) == ("PERMISSION_DENIED", "ROLE_NOT_ALLOWED")


# What reads; what may be said twice without harm: how long an attempt runs, what somebody believes. Commands of a batch have keys.
WITHOUT_A_KEY = re.compile(r"/(Get|List|Watch|PreviewQuote|Heartbeat|VerifyWrite|BatchExecute)")

# Of the others an empty request will do: the key is what they miss first.
KEYLESS: dict[str, Any] = {
    "Reserve": reserve_request("op-1", idempotency_key=""),
    "Resolve": resolve_request("op-1", idempotency_key=""),
    "Correct": hold_pb2.CorrectRequest(
        operation_id="op-1", digest_in_force="a" * 64, reason="a bill", usage=resolve_request("op-1").usage
    ),
    "GrantBudget": budget_pb2.GrantBudgetRequest(
        budget_id="team", reference="po-1", amount=money_pb2.Money(amount="1", currency="USD")
    ),
    "UpdateBudget": budget_pb2.UpdateBudgetRequest(budget_id="team", update_mask=FieldMask(paths=["limit"])),
}


async def test_every_call_that_changes_something_takes_a_key(database_url: str, tmp_path: Path) -> None:
    async with serving(database_url, tmp_path) as ledger, grpc.aio.insecure_channel(ledger.address) as channel:
        methods = [method for method in ROLES if not WITHOUT_A_KEY.search(method)]
        for method in methods:
            token = ledger.token("acme", min(ROLES[method]))
            request = KEYLESS.get(method.rpartition("/")[2], empty_pb2.Empty())
            call: Any = channel.unary_unary(method, type(request).SerializeToString, None)
            asked = call(request, metadata=(("authorization", f"Bearer {token}"),))
            assert await invalid(asked) == "idempotency_key", method
        assert methods


async def test_health_is_open_and_an_unknown_call_is_unimplemented(database_url: str, tmp_path: Path) -> None:
    async with serving(database_url, tmp_path) as ledger, grpc.aio.insecure_channel(ledger.address) as channel:
        health: Any = health_pb2_grpc.HealthStub(channel)
        for service in ("", "ledger.v1.HoldService", "ledger.v1.JournalService"):
            answer = await health.Check(health_pb2.HealthCheckRequest(service=service))
            assert answer.status == health_pb2.HealthCheckResponse.SERVING
        unknown: Any = channel.unary_unary("/ledger.v1.HoldService/Void", empty_pb2.Empty.SerializeToString, None)
        assert (await refusal(unknown(empty_pb2.Empty())))[0] == "UNIMPLEMENTED"


@pytest.mark.parametrize("enabled", [True, False])
async def test_reflection_is_there_only_if_enabled(database_url: str, tmp_path: Path, enabled: bool) -> None:
    async with (
        serving(database_url, tmp_path, reflection=enabled) as ledger,
        grpc.aio.insecure_channel(ledger.address) as channel,
    ):
        stub: Any = reflection_pb2_grpc.ServerReflectionStub(cast(Any, channel))
        call = stub.ServerReflectionInfo(iter([reflection_pb2.ServerReflectionRequest(list_services="")]))
        if enabled:
            names = {service.name for service in (await call.read()).list_services_response.service}
            assert {"ledger.v1.HoldService", "ledger.v1.BudgetService", "grpc.health.v1.Health"} <= names
        else:
            assert (await refusal(call.read()))[0] == "UNIMPLEMENTED"


async def test_a_tenant_sees_nothing_of_another(database_url: str, tmp_path: Path) -> None:
    async with serving(database_url, tmp_path) as ledger:
        await ledger.budget()
        await ledger.gateway.holds.Reserve(reserve_request("op-1"))
        gateway, auditor = ledger.rival(Role.GATEWAY), ledger.rival(Role.AUDITOR)
        assert (await refusal(gateway.holds.GetHold(hold_pb2.GetHoldRequest(operation_id="op-1"))))[1] == "NOT_FOUND"
        release = hold_pb2.ReleaseRequest(idempotency_key="x", operation_id="op-1")
        assert (await refusal(gateway.holds.Release(release)))[1] == "NOT_FOUND"
        assert (await refusal(gateway.holds.Reserve(reserve_request("op-2"))))[1] == "NOT_FOUND"
        assert not (await gateway.holds.ListHolds(hold_pb2.ListHoldsRequest())).holds
        assert not (await auditor.budgets.ListBudgets(budget_pb2.ListBudgetsRequest())).budgets
        assert not (await auditor.journal.ListEntries(journal_pb2.ListEntriesRequest())).entries
        postings = auditor.journal.ListPostings(journal_pb2.ListPostingsRequest(book_id="team#0"))
        assert (await refusal(postings))[1] == "NOT_FOUND"
        balance = journal_pb2.GetBalanceRequest(account=journal_pb2.ACCOUNT_HELD, budget_id="team")
        assert (await refusal(auditor.journal.GetBalance(balance)))[1] == "NOT_FOUND"


async def test_a_message_that_is_none_is_a_malformed_request(database_url: str, tmp_path: Path) -> None:
    async with serving(database_url, tmp_path) as ledger:
        await ledger.budget()
        token = ledger.token("acme", Role.GATEWAY)
        async with grpc.aio.insecure_channel(ledger.address) as channel:
            call: Any = channel.unary_unary("/ledger.v1.HoldService/Reserve")
            # Field 1, length 2, and no UTF-8: a lone surrogate as CESU would write it; then a cut message.
            for raw in (b"\x0a\x03\xed\xa0\x80", b"\x0a\x7f"):
                asked = call(raw, metadata=(("authorization", f"Bearer {token}"),))
                assert (await refusal(asked))[:2] == ("INVALID_ARGUMENT", "INVALID_FIELD")


async def test_a_token_is_taken_with_any_spelling_of_bearer(database_url: str, tmp_path: Path) -> None:
    async with serving(database_url, tmp_path) as ledger, connect(ledger.address, "nobody") as nobody:
        assert (await refusal(nobody.holds.ListHolds(hold_pb2.ListHoldsRequest())))[1] == "UNAUTHENTICATED"
        token = ledger.token("acme", Role.GATEWAY)
        answer = await nobody.holds.ListHolds(
            hold_pb2.ListHoldsRequest(), metadata=(("authorization", f"bearer {token}"),)
        )
        assert not answer.holds
