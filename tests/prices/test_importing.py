"""The import command: without a ledger, and into a real one."""

import asyncio
import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from ledger.cli import main
from ledger.client import calling
from ledger.client.calling import TOKEN_VARIABLE
from ledger.domain.model import Role
from ledger.prices.importing import fitted
from ledger.usage.litellm import litellm_entries
from ledger.v1 import price_pb2
from tests.service.harness import Ledger, serving

ENTRIES: dict[str, Any] = {
    "a": {"litellm_provider": "p", "input_cost_per_token": 1e-06, "output_cost_per_token": 2e-06},
    "p/a": {"litellm_provider": "p", "input_cost_per_token": 1e-06, "output_cost_per_token": 2e-06},
    "p/b": {"litellm_provider": "p", "input_cost_per_token": 1e-06, "input_cost_per_second": 1},
    "b": {"litellm_provider": "p", "input_cost_per_token": 5e-06},
    "dear": {"litellm_provider": "p", "input_cost_per_token": 0.2},
    "bad name": {"litellm_provider": "p", "input_cost_per_token": 1e-06},
    "none": {"litellm_provider": "p", "mode": "chat"},
}


def written(folder: Path, entries: dict[str, Any] = ENTRIES) -> str:
    path = folder / "map.json"
    path.write_text(json.dumps(entries))
    return str(path)


def imported(*arguments: str, capsys: pytest.CaptureFixture[str]) -> Any:
    assert main(["prices", "import", "--json", *arguments]) == 0
    return json.loads(capsys.readouterr().out)


def test_every_entry_is_taken_in_part_or_whole_or_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = imported("--format", "litellm", "--dry-run", written(tmp_path), capsys=capsys)
    assert found["counts"] == {"entries": 7, "taken": 2, "partly": 1, "refused": 4, "same_card": 1, "rounded": 0}
    by_name = {model["name"]: model for model in found["models"]}
    assert by_name["a"] == {"name": "a", "status": "taken", "card_id": "p/a"}
    assert by_name["p/a"] == {"name": "p/a", "status": "taken", "card_id": "p/a", "same_as": "a"}
    assert by_name["p/b"]["unsaid"] == ["input_cost_per_second has no place on a card"]
    assert by_name["b"]["reasons"] == ["its card would be that of p/b, which has other prices"]
    assert by_name["none"]["reasons"] == ["no price of it fits a card"]
    assert by_name["bad name"]["reasons"][0].startswith("card_id must be 1 to 128 characters")
    assert "above 0.1 USD per token" in by_name["dear"]["reasons"][0]
    allowed = imported("--format", "litellm", "--dry-run", "--allow", "dear", written(tmp_path), capsys=capsys)
    assert allowed["counts"]["refused"] == 3


def test_the_report_for_people(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["prices", "import", "--format", "litellm", "--dry-run", written(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert out.startswith("entries 7  taken 2  partly 1  refused 4  same card 1  rounded 0\n")
    assert "       1  no price of it fits a card\n" in out
    many = {f"m{i}": {"litellm_provider": "p", "input_cost_per_token": 1e-6, f"cost_{i}": 1} for i in range(21)}
    assert main(["prices", "import", "--format", "litellm", "--dry-run", written(tmp_path, many)]) == 0
    assert "and 1 more: --json has them all" in capsys.readouterr().out


def test_a_name_that_cannot_be_an_alias_is_said(tmp_path: Path) -> None:
    entries = {"p/a b": {"litellm_provider": "p/a b", "input_cost_per_token": 1}}
    (refused,) = fitted(litellm_entries(entries))
    assert refused.status == "refused"
    (taken,) = fitted(litellm_entries({"ok": {"litellm_provider": "p", "input_cost_per_token": 1}}))
    assert taken.entry.card is not None
    odd = taken.entry._replace(card=taken.entry.card.__class__(**{
        name: getattr(taken.entry.card, name)
        for name in ("tenant", "card_id", "version", "provider", "model", "currency", "rates")
    }, aliases=("fine", "not fine")))  # fmt: skip
    (part,) = fitted([odd])
    assert part.entry.card is not None
    assert part.entry.card.aliases == ("fine",)
    assert part.entry.unsaid[0].startswith("its name not fine cannot be an alias: it must be 1 to 128 characters")


def test_what_is_missing_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(TOKEN_VARIABLE, raising=False)
    path = written(tmp_path)
    for more, sentence in (
        ([], "--server says which ledger to put the cards into"),
        (["--server", "127.0.0.1:1"], "Set SPEND_LEDGER_TOKEN"),
    ):
        assert main(["prices", "import", "--format", "litellm", path, *more]) == 2
        assert sentence in capsys.readouterr().err
    monkeypatch.setenv(TOKEN_VARIABLE, "x")
    monkeypatch.setattr(calling, "PATIENCE", timedelta(seconds=0.3))
    assert main(["prices", "import", "--format", "litellm", path, "--server", "127.0.0.1:1"]) == 2
    err = " ".join(capsys.readouterr().err.split())
    assert "The ledger at 127.0.0.1:1 could not be asked: UNAVAILABLE: There was no connection" in err
    (tmp_path / "map.json").write_text("[]")
    assert main(["prices", "import", "--format", "litellm", "--dry-run", path]) == 2
    assert "map.json: the price map is not an object of models" in capsys.readouterr().err
    assert main(["prices", "import", "--format", "genai-prices", "--dry-run", path]) == 0
    (tmp_path / "map.json").write_text("{")
    assert main(["prices", "import", "--format", "genai-prices", "--dry-run", path]) == 2
    assert "map.json: the catalogue is not in the form of genai-prices" in capsys.readouterr().err


async def test_into_a_ledger_once_and_then_only_what_differs(
    database_url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving(database_url, tmp_path) as ledger:
        monkeypatch.setenv(TOKEN_VARIABLE, ledger.token("acme", Role.FINANCE))

        async def run(entries: dict[str, Any], *more: str) -> Any:
            arguments = ["prices", "import", "--json", "--format", "litellm", written(tmp_path, entries), *more]
            assert await asyncio.to_thread(main, [*arguments, "--server", ledger.address]) == 0
            return json.loads(capsys.readouterr().out)

        def changes(found: Any) -> list[int]:
            return [found["counts"][name] for name in ("new", "changed", "unchanged")]

        assert changes(await run(ENTRIES, "--dry-run")) == [2, 0, 0]
        assert await versions(ledger) == {}
        assert changes(await run(ENTRIES)) == [2, 0, 0]
        assert await versions(ledger) == {"p/a": 1, "p/b": 1}
        assert changes(await run(ENTRIES)) == [0, 0, 2]
        dearer = ENTRIES | {"a": ENTRIES["a"] | {"output_cost_per_token": 3e-06, "max_output_tokens": 99}}
        del dearer["p/a"]
        found = await run(dearer)
        assert changes(found) == [0, 1, 1]
        assert found["models"][0]["difference"] == [
            "output_tokens in tier standard: 2 for 1000000 becomes 3 for 1000000",
            "max_output_tokens: None becomes 99",
        ]
        assert await versions(ledger) == {"p/a": 2, "p/b": 1}
        # Back to what it was before: a version of its own, not a replay of the first.
        assert changes(await run(ENTRIES)) == [0, 1, 1]
        assert await versions(ledger) == {"p/a": 3, "p/b": 1}
        assert (
            await asyncio.to_thread(
                main,
                [
                    "prices",
                    "import",
                    "--format",
                    "litellm",
                    written(tmp_path, dearer),
                    "--dry-run",
                    "--server",
                    ledger.address,
                ],
            )
            == 0
        )
        assert "changes:\n  p/a\n    output_tokens in tier standard: 2 for 1000000 becomes 3" in capsys.readouterr().out


async def versions(ledger: Ledger) -> dict[str, int]:
    page = await ledger.auditor.prices.ListPriceCards(price_pb2.ListPriceCardsRequest())
    return {card.card_id: card.version for card in page.cards}
