"""The commands about budgets, at a real server."""

import asyncio
import json
import os
import re
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from ledger.budgets.commands import COMMANDS
from ledger.cli import main
from ledger.client import calling
from ledger.client.calling import SERVER_VARIABLE, TOKEN_VARIABLE
from ledger.domain.model import Role
from ledger.v1 import budget_pb2, hold_pb2
from tests.client.wire import wire_to
from tests.service.harness import Ledger, reserve_request, resolve_request, sending_request, serving


class Shell:
    """Types commands of an admin of 'acme'."""

    def __init__(self, ledger: Ledger, capsys: pytest.CaptureFixture[str]) -> None:
        self.ledger = ledger
        self._capsys = capsys

    async def run(self, *arguments: str, status: int = 0) -> tuple[str, str]:
        """What a command prints to stdout and stderr."""
        assert await asyncio.to_thread(main, ["budget", *arguments]) == status
        printed = self._capsys.readouterr()
        return printed.out, printed.err

    async def json(self, *arguments: str) -> Any:
        return json.loads((await self.run(*arguments, "--json"))[0])


@asynccontextmanager
async def shell(
    database_url: str, folder: Path, capsys: pytest.CaptureFixture[str], patched: pytest.MonkeyPatch
) -> AsyncIterator[Shell]:
    async with serving(database_url, folder) as ledger:
        patched.setenv(TOKEN_VARIABLE, ledger.token("acme", Role.ADMIN))
        patched.setenv(SERVER_VARIABLE, ledger.address)
        yield Shell(ledger, capsys)


async def spend(ledger: Ledger) -> None:
    """On team, which is below org: 4 spent, 2 unknown, 1 under way, 3 reserved."""
    holds = ledger.gateway.holds
    await holds.Reserve(sending_request("paid", "5"))
    await holds.Resolve(resolve_request("paid", "4"))
    await holds.Reserve(sending_request("lost", "2"))
    await holds.MarkOutcomeUnknown(hold_pb2.MarkOutcomeUnknownRequest(idempotency_key="u", operation_id="lost"))
    await holds.Reserve(sending_request("sent", "1"))
    await holds.Reserve(reserve_request("set-aside", "3"))


async def test_a_tree_is_made_used_and_drawn(
    database_url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with shell(database_url, tmp_path, capsys, monkeypatch) as typed:
        out, _ = await typed.run("tree")
        assert out == "There are no budgets yet: spend-ledger budget create makes one.\n"
        out, err = await typed.run("create", "org", "USD", "--name", "Acme Inc")
        assert out == "org stands. available: no limit USD\n"
        assert err.startswith("idempotency key: cli-")
        await typed.run("create", "team", "USD", "--under", "org", "--limit", "20", "--key", "k-1")
        out, err = await typed.run("create", "team", "USD", "--under", "org", "--limit", "20", "--key", "k-1")
        assert (out, err) == ("team stands, as it did before: nothing changed. available: 20 USD\n", "")
        await typed.run("create", "key", "USD", "--under", "team", "--limit", "5", "--max-open-holds", "3")
        await spend(typed.ledger)
        lines = (await typed.run("tree"))[0].splitlines()
        assert lines[0].split() == ["██", "spent", "▒▒", "unknown", "▓▓", "held", "··", "available"]
        assert lines[2].split() == ["spent", "unknown", "held", "available", "authority"]
        # Of 20: 4 spent, 2 unknown, 4 held, 10 left; of 24 cells 4.8, 2.4, 4.8 and 12.
        assert lines[4].split() == ["└─", "team", "█████▒▒▓▓▓▓▓············", "4", "2", "4", "10", "20", "USD"]
        # Without a limit the bar is what was used: 4, 2 and 4 of 10.
        assert lines[3].split()[:7] == ["org", "Acme", "Inc", "██████████▒▒▒▒▒▓▓▓▓▓▓▓▓▓", "4", "2", "4"]
        assert "unlimited" in lines[3]
        assert lines[5].split() == ["└─", "key", "·" * 24, "0", "0", "0", "5", "5", "USD"]
        assert lines[7].startswith("as of 20")
        assert "\x1b" not in "".join(lines), "colour is for terminals"
        below = (await typed.run("tree", "team", "--depth", "0"))[0].splitlines()
        assert [line.split()[0] for line in below[3:4]] == ["team"]
        found = await typed.json("tree")
        assert [(b["budget_id"], b["depth"]) for b in found["budgets"]] == [("org", 0), ("team", 1), ("key", 2)]
        assert found["budgets"][1]["balances"]["unknown"] == "2"
        assert "limit" not in found["budgets"][0]
        _, err = await typed.run("tree", "nobody", status=2)
        assert "There is no budget 'nobody'" in err


async def test_a_stream_that_is_not_utf_8_gets_ascii_and_a_terminal_colours(
    database_url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with shell(database_url, tmp_path, capsys, monkeypatch) as typed:
        await typed.run("create", "team", "USD", "--limit", "20", "--name", "Größe")
        await spend(typed.ledger)

        async def elsewhere(**variables: str) -> bytes:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "ledger",
                "budget",
                "tree",
                env={**os.environ, **variables},
                stdout=subprocess.PIPE,
            )
            out, _ = await process.communicate()
            assert process.returncode == 0
            return out

        plain = (await elsewhere(PYTHONIOENCODING="ascii", NO_COLOR="1")).decode("ascii")
        assert "team Gr??e  #####??=====............      4" in plain
        assert plain.splitlines()[0].split()[:2] == ["##", "spent"]
        assert b"\x1b[34m" in await elsewhere(FORCE_COLOR="1", TERM="xterm", COLUMNS="100", PYTHONIOENCODING="utf-8")


async def test_one_budget_with_the_holds_behind_it(
    database_url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with shell(database_url, tmp_path, capsys, monkeypatch) as typed:
        await typed.ledger.budget("team", "20")
        out, _ = await typed.run("show", "team")
        assert "No hold is open." in out
        await spend(typed.ledger)
        await typed.run("limit", "team", "--max-hold", "7", "--max-open-holds", "50")
        out, _ = await typed.run("show", "team")
        told = [line.split() for line in out.splitlines()]
        for fact in (
            ["team", "USD"],
            ["limit", "20"],
            ["largest", "hold", "7"],
            ["open", "holds", "3", "of", "50"],
            ["authority", "20"],
            ["spent", "4"],
            ["unknown", "2"],
            ["held", "4"],
            ["available", "10"],
            ["deficit", "0"],
        ):
            assert fact in told, fact
        assert [line[:2] + line[-2:] for line in told[-3:]] == [
            ["3", "RESERVED", "set-aside", "gateway-1"],
            ["2", "OUTCOME_UNKNOWN", "lost", "gateway-1"],
            ["1", "DISPATCHING", "sent", "gateway-1"],
        ]
        found = await typed.json("show", "team")
        assert [hold["operation_id"] for hold in found["open_holds"]] == ["set-aside", "lost", "sent"]
        assert found["budget"]["balances"]["book_id"] == "team#0"
        for number in range(10):
            await typed.ledger.gateway.holds.Reserve(reserve_request(f"more-{number}", "0.1"))
        out, _ = await typed.run("show", "team")
        assert "The 10 largest of 13 open holds:" in out
        assert "NOT_FOUND" in (await typed.run("show", "nobody", status=2))[1]


async def test_a_budget_with_periods(
    database_url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with shell(database_url, tmp_path, capsys, monkeypatch) as typed:
        made = await typed.json(
            "create", "team", "USD", "--limit", "20", "--every", "month", "--zone", "Europe/Berlin", "--rollover", "5"
        )
        assert made["budget"]["period"]["kind"] == "PERIOD_KIND_MONTH"
        assert made["budget"]["rollover"] == {"kind": "ROLLOVER_KIND_CAP", "cap": "5"}
        await spend(typed.ledger)
        out, _ = await typed.run("show", "team")
        assert re.search(r"period +20\d\d-\d\d-\d\dT\S+ to 20\d\d-\d\d-\d\dT\S+, each month of Europe/Berlin\n", out)
        assert "The open holds:" in out, "those of the period"
        await typed.run("limit", "team", "30", "--every", "day", "--zone", "Asia/Tokyo", "--rollover", "all")
        changed = (await typed.json("show", "team"))["budget"]
        assert (changed["limit"], changed["period"]["kind"]) == ("30", "PERIOD_KIND_DAY")
        assert (changed["period"]["zone"], changed["rollover"]["kind"]) == ("Asia/Tokyo", "ROLLOVER_KIND_ALL")
        await typed.run("limit", "team", "--every", "none", "--rollover", "none")
        changed = (await typed.json("show", "team"))["budget"]
        assert (changed["limit"], changed["period"]["kind"]) == ("30", "PERIOD_KIND_NONE")
        await typed.run("limit", "team", "--thresholds", "90,50", "--thresholds-of", "spent", "--every", "6h",
                        "--from", "2026-01-01T02:00:00+01:00")  # fmt: skip
        changed = (await typed.json("show", "team"))["budget"]
        assert changed["period"]["kind"] == "PERIOD_KIND_FIXED"
        assert (changed["period"]["length"], changed["period"]["anchor_time"]) == ("21600s", "2026-01-01T01:00:00Z")
        assert changed["thresholds"] == {"percents": [50, 90], "basis": "THRESHOLD_BASIS_SPENT"}
        await typed.run("limit", "team", "--thresholds", "none")
        assert (await typed.json("show", "team"))["budget"]["thresholds"]["percents"] == []
        for wrong, says in (
            (("--zone", "Asia/Tokyo"), "give --every with them"),
            (("--thresholds-of", "spent"), "give --thresholds with it"),
            (("--every", "6h"), "period.anchor_time must be given for FIXED"),
        ):
            assert says in (await typed.run("limit", "team", *wrong, status=2))[1]
        whole = await typed.json("create", "lab", "USD", "--limit", "1", "--every", "day", "--rollover", "all")
        assert whole["budget"]["rollover"]["kind"] == "ROLLOVER_KIND_ALL"
        await typed.run("create", "key", "USD", "--limit", "1")
        assert "one without an end" in (await typed.run("show", "key"))[0]


async def test_a_deficit_and_an_end_are_seen(
    database_url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with shell(database_url, tmp_path, capsys, monkeypatch) as typed:
        await typed.ledger.budget("team", "5")
        await typed.ledger.gateway.holds.Reserve(sending_request("dear", "5"))
        over = resolve_request("dear", "7.5", accept_overrun_reason="agreed")
        await typed.ledger.finance.holds.Resolve(over)
        assert "! DEFICIT 2.5" in (await typed.run("tree"))[0]
        await typed.run("close", "team")
        for shown in (await typed.run("tree"))[0], (await typed.run("show", "team"))[0]:
            assert "! DEFICIT 2.5 closed" in shown


async def test_changes_are_made_once_per_key(
    database_url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with shell(database_url, tmp_path, capsys, monkeypatch) as typed:
        for name in ("org", "lab", "team"):
            await typed.ledger.budget(name, "10")
        assert (await typed.run("grant", "team", "2.5", "USD", "--reference", "po-1"))[0] == (
            "team has the grant. available: 12.5 USD\n"
        )
        again = await typed.json("grant", "team", "2.5", "USD", "--reference", "po-1", "--key", "g")
        assert (again["replayed"], again["idempotency_key"]) == (True, "g")
        assert again["budget"]["balances"]["authority"] == "12.5"
        moved = await typed.json("move", "team", "--under", "lab", "--key", "m")
        assert (moved["applied"], moved["budget"]["parent_id"]) == (True, "lab")
        assert "nothing changed" in (await typed.run("move", "team", "--under", "lab", "--key", "m"))[0]
        assert (await typed.run("move", "team", "--root"))[0] == "team is a root. available: 12.5 USD\n"
        capped = await typed.json("limit", "team", "--max-hold", "1", "--max-open-holds", "4")
        assert (capped["budget"]["max_hold"], capped["budget"]["max_open_holds"]) == ("1", 4)
        freed = await typed.json("limit", "team", "--max-hold", "none")
        assert "max_hold" not in freed["budget"]
        assert freed["budget"]["max_open_holds"] == 4
        raised = await typed.json("limit", "team", "15", "--credit-line", "3")
        assert (raised["budget"]["limit"], raised["budget"]["credit_line"]) == ("15", "3")
        assert raised["budget"]["balances"]["authority"] == "17.5", "and the grant of 2.5"
        assert (await typed.run("limit", "team", "none", "--credit-line", "none"))[0] == (
            "team is changed. available: no limit USD\n"
        )
        assert "limit" not in (await typed.json("show", "team"))["budget"]
        assert (await typed.run("limit", "team", "10"))[0] == "team is changed. available: 12.5 USD\n"
        assert "Say what is to be changed" in (await typed.run("limit", "team", status=2))[1]
        assert (await typed.run("close", "team"))[0] == "team is closed. available: 12.5 USD\n"
        _, err = await typed.run("grant", "team", "1", "USD", "--reference", "po-2", status=2)
        assert "BUDGET_CLOSED: Budget 'team' is closed for good: name another." in err
        assert err.startswith("idempotency key: cli-"), "it is known before the answer is"


async def test_a_change_whose_answer_is_lost_is_told_as_not_known(
    database_url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with shell(database_url, tmp_path, capsys, monkeypatch) as typed, wire_to(typed.ledger.address) as wire:
        monkeypatch.setattr(calling, "PATIENCE", timedelta(seconds=1))
        monkeypatch.setenv(SERVER_VARIABLE, wire.address)
        await typed.ledger.budget()

        async def lose() -> None:
            # The first bytes are gRPC's own, which make the connection.
            while not wire.bytes_down:
                await asyncio.sleep(0)
            wire.swallow = True

        losing = asyncio.create_task(lose())
        grant = ("grant", "team", "1", "USD", "--reference", "po-1", "--key", "k-1")
        _, err = await typed.run(*grant, status=2)
        assert "Nobody knows yet whether the ledger" in err
        assert "the idempotency key 'k-1'" in err
        await losing
        wire.swallow = False
        assert "nothing changed" in (await typed.run(*grant))[0]


async def test_a_period_in_which_nothing_was_posted_is_shown(
    database_url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with shell(database_url, tmp_path, capsys, monkeypatch) as typed:
        seconds = budget_pb2.Period(kind=budget_pb2.PERIOD_KIND_FIXED)
        seconds.anchor_time.FromJsonString("2026-01-01T00:00:00Z")
        seconds.length.seconds = 1
        await typed.ledger.admin.budgets.CreateBudget(
            budget_pb2.CreateBudgetRequest(
                idempotency_key="short", budget_id="short", currency="USD", limit="5", period=seconds
            )
        )
        out, _ = await typed.run("periods", "short")
        assert out.splitlines()[0] == "short"
        assert out.splitlines()[1].split() == [
            "from", "to", "spent", "unknown", "held", "available", "deficit", "carried", "authority",
        ]  # fmt: skip
        # Two of a second each are opened; the first one left nothing.
        for number in range(2):
            start = (await typed.json("show", "short"))["budget"]["period_start_time"]
            while (await typed.json("show", "short"))["budget"]["period_start_time"] == start:
                pass
            grant = ("grant", "short", "1", "USD", "--reference", f"po-{number}")
            await typed.run(*grant)
        lines = (await typed.run("periods", "short", "--last", "2"))[0].splitlines()
        assert [line.split()[4:] for line in lines[2:4]] == [
            ["0", "0", "0", "6", "0", "0", "6", "USD,", "open"],
            ["0", "0", "0", "6", "0", "0", "6", "USD"],
        ]
        found = (await typed.json("periods", "short"))["periods"]
        assert [period["closed"] for period in found] == [False, True, True]
        assert found[1]["end_time"] <= found[0]["start_time"]
        while "nothing was posted in the period yet" not in (shown := (await typed.run("show", "short"))[0]):
            pass
        assert "No hold is open." in shown


@pytest.mark.parametrize("name", COMMANDS)
def test_each_has_help_with_examples(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["budget", name, "--help"])
    out = capsys.readouterr().out
    assert ended.value.code == 0
    assert f"spend-ledger budget {name}" in out.partition("examples:")[2]
    assert max(map(len, out.splitlines())) <= 80


def test_what_cannot_be_is_said_before_anything_is_asked(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for terms in (["--every", "year"], ["--from", "2026-01-01"], ["--from", "noon"], ["--thresholds", "half"]):
        with pytest.raises(SystemExit):
            main(["budget", "limit", "team", *terms])
        assert "such as" in " ".join(capsys.readouterr().err.split())
    for wrong in (["limit", "team", "--max-open-holds", "many"], ["move", "team"], ["grant", "team", "1", "USD"]):
        with pytest.raises(SystemExit) as ended:
            main(["budget", *wrong])
        assert ended.value.code == 2
    monkeypatch.delenv(TOKEN_VARIABLE, raising=False)
    assert main(["budget", "tree"]) == 2
    assert "Set SPEND_LEDGER_TOKEN" in capsys.readouterr().err
