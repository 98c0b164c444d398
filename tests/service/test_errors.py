"""The catalogue says of each reason what the contract says of it."""

import re
from pathlib import Path

import pytest
from google.rpc import error_details_pb2

from ledger.domain.refusals import Reason, Refusal
from ledger.service.errors import CATALOGUE, command_error, status_of
from ledger.v1 import error_pb2, hold_pb2
from tests.service.harness import metered, put_card, refusal, sending_request, serving

CONTRACT = (Path(__file__).parents[2] / "proto/ledger/v1/error.proto").read_text()
# "// … INVALID_ARGUMENT.\n  ERROR_REASON_INVALID_FIELD = 1;"
STATUS_IN_THE_CONTRACT = {
    reason: status for status, reason in re.findall(r"([A-Z_]+)\.\n  ERROR_REASON_([A-Z_]+) = [1-9]", CONTRACT)
}


def test_rules_contract_and_catalogue_have_the_same_reasons() -> None:
    contract = {name.removeprefix("ERROR_REASON_") for name, number in error_pb2.ErrorReason.items() if number}
    assert contract == {reason.value for reason in Reason} == {reason.value for reason in CATALOGUE}


@pytest.mark.parametrize("reason", Reason)
def test_a_reason_is_told_by_the_status_of_the_contract(reason: Reason) -> None:
    assert CATALOGUE[reason].code.name == STATUS_IN_THE_CONTRACT[reason.value]
    assert CATALOGUE[reason].sentence.endswith(".")


@pytest.mark.parametrize("reason", Reason)
def test_a_call_and_a_batch_tell_a_refusal_alike(reason: Reason) -> None:
    refusal = Refusal(reason, "", {"field": "x"})
    status, error = status_of(refusal), command_error(refusal)
    info = error_details_pb2.ErrorInfo()
    assert status.details[0].Unpack(info)
    assert (info.reason, info.domain, dict(info.metadata)) == (reason.value, "ledger.v1", {"field": "x"})
    assert error_pb2.ErrorReason.Name(error.reason) == f"ERROR_REASON_{reason.value}"
    assert (status.code, status.message) == (error.code, error.message)
    assert (error.message, dict(error.metadata)) == (CATALOGUE[reason].sentence, {"field": "x"})


async def test_a_long_refusal_reaches_the_caller(database_url: str, tmp_path: Path) -> None:
    """An observation with many defects: its status must fit into what a client takes of trailers."""
    async with serving(database_url, tmp_path) as ledger:
        await ledger.budget()
        await put_card(ledger)
        await ledger.gateway.holds.Reserve(sending_request("op-1", quote=metered()))
        counts = ",".join(f'"{name}": "ä"' for name in ("prompt_tokens", "completion_tokens", "total_tokens"))
        document = f'{{"model": "é", "service_tier": "ü", "usage": {{{counts}}}}}'
        usage = hold_pb2.UsageEvidence(
            source=hold_pb2.EVIDENCE_SOURCE_GATEWAY_ESTIMATE,
            provider="p" * 128,
            model="m" * 128,
            service_tier="t" * 128,
            provider_usage=hold_pb2.ProviderUsage(api_flavor="openai.chat", json=document),
        )
        request = hold_pb2.ResolveRequest(idempotency_key="s-1", operation_id="op-1", usage=usage)
        code, reason, metadata = await refusal(ledger.gateway.holds.Resolve(request))
        assert (code, reason) == ("FAILED_PRECONDITION", "EVIDENCE_REJECTED")
        assert len(metadata["reasons"]) <= 600
