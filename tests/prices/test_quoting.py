"""The quote command: from a catalogue, and from the card of a ledger."""

import asyncio
import json
from pathlib import Path

import pytest

from ledger.cli import main
from ledger.client.calling import TOKEN_VARIABLE
from ledger.domain.model import Role
from tests.service.harness import put_card, serving

CEILINGS = ["--ceiling", "input_tokens=20000", "--ceiling", "output_tokens=300"]


@pytest.fixture
def catalogue(tmp_path: Path) -> str:
    fields = {
        "litellm_provider": "p", "input_cost_per_token": 1e-06, "input_cost_per_token_above_10k_tokens": 2e-06,
        "output_cost_per_token": 8e-06, "output_cost_per_token_priority": 1.6e-05, "max_output_tokens": 200,
        "regional_processing_uplift_multiplier_eu": 1.5,
    }  # fmt: skip
    (tmp_path / "map.json").write_text(json.dumps({"m": fields}))
    return f"litellm:{tmp_path / 'map.json'}"


def test_a_quote_is_explained_line_by_line(catalogue: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["quote", "--catalogue", catalogue, "p/m", *CEILINGS, "--choices", "2"]) == 0
    # 20000 * 2 and 2 * 200 * 8 millionths
    first, second, last = capsys.readouterr().out.splitlines()
    assert first.startswith("input_tokens: 20000 (as asked) at 2 for 1000000, the price of cache_")
    assert second == (
        "output_tokens: 400 (the model's own limit, lowered from 300, for each of 2 choices) at 8 for 1000000, "
        "the price of output_tokens in tier standard: 0.0032 USD"
    )
    assert last == "at most 0.0432 USD"


def test_tier_and_region_as_json(catalogue: str, capsys: pytest.CaptureFixture[str]) -> None:
    more = ["--tier", "priority", "--region", "eu", "--model", "m", "--json", "--at", "2026-06-01"]
    assert main(["quote", "--catalogue", catalogue, "p/m", *CEILINGS, *more]) == 0
    found = json.loads(capsys.readouterr().out)
    # (20000 * 2 + 200 * 16) * 1.5 millionths
    assert (found["amount"], found["currency"], found["clamped"], found["missing"]) == (
        "0.0648",
        "USD",
        ["output_tokens"],
        "",
    )


def test_what_has_no_finite_price_says_what_is_missing(catalogue: str, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, sentence in (
        (["p/other"], "There is no price card 'p/other'."),
        (["p/m"], "input_tokens has no ceiling"),
        (["p/m", "--region", "moon"], "has no prices for region 'moon'"),
        (["p/m", "--tier", "flex"], "has no price for tier 'flex'"),
    ):
        assert main(["quote", "--catalogue", catalogue, *arguments]) == 1
        assert sentence in capsys.readouterr().out
    assert main(["quote", "--catalogue", catalogue, "p/m", "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["amount"] is None


@pytest.mark.parametrize(
    "wrong",
    [
        ["--ceiling", "x=1"], ["--ceiling", "requests=many"], ["--catalogue", "x:y"], ["--catalogue", "litellm"],
        ["--choices", "0"], ["--choices", "-1"],
    ],
)  # fmt: skip
def test_arguments_that_are_refused(wrong: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["quote", "p/m", *wrong])
    assert "is not" in capsys.readouterr().err


async def test_of_the_card_of_a_ledger(
    database_url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving(database_url, tmp_path) as ledger:
        await put_card(ledger)
        monkeypatch.setenv(TOKEN_VARIABLE, ledger.token("acme", Role.GATEWAY))

        async def run(*arguments: str) -> int:
            return await asyncio.to_thread(main, ["quote", "--server", ledger.address, *arguments])

        assert await run("gpt-5", *CEILINGS) == 0
        # 20000 * 1.25 + 300 * 10 = 28000 millionths
        assert capsys.readouterr().out.splitlines()[-1] == "at most 0.028 USD"
        assert await run("other") == 1
        assert "There is no price card 'other'" in capsys.readouterr().out
        assert await run("gpt-5", "--choices", "2000") == 2
        assert "INVALID_FIELD" in capsys.readouterr().err
