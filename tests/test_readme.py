"""What README.md tells a newcomer to type, typed."""

import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from ledger.client import Ledger
from ledger.domain.model import Role
from ledger.v1 import hold_pb2
from tests.service.harness import put_card, serving

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
BLOCKS = re.findall(r"^```\w*\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


def block(containing: str) -> str:
    (found,) = [text for text in BLOCKS if containing in text]
    return str(found)


def type_in(commands: str, **variables: str) -> "subprocess.CompletedProcess[str]":
    """Runs lines of the README in a shell, with the programs of this environment, and ends what they left running."""
    here = {"spend-ledger": f"{sys.executable} -m ledger", "python": sys.executable}
    commands = re.sub(r"\.venv/bin/(spend-ledger|python)\b", lambda program: here[program[1]], commands)
    kept = {name: os.environ[name] for name in ("PATH", "GRPC_ENABLE_FORK_SUPPORT") if name in os.environ}
    ended = "kill $(jobs -p); wait"
    return subprocess.run(
        ["bash", "-e", "-c", f"trap '{ended}' EXIT\n{commands}"],
        cwd=ROOT,
        env=kept | {"PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"} | variables,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


@pytest.fixture
def of_its_own(tmp_path: Path) -> dict[str, str]:
    """A newcomer's home, and a port that nobody else has."""
    address = f"127.0.0.1:{free_port()}"
    return {"HOME": str(tmp_path), "SPEND_LEDGER_LISTEN": address, "LEDGER_ADDRESS": address} | {
        "SPEND_LEDGER_TOKENS_FILE": str(tmp_path / "tokens.jsonl")
    }


def test_from_nothing_to_a_settled_hold(of_its_own: dict[str, str]) -> None:
    data = Path(tempfile.mkdtemp(prefix="ledger-test-"))
    try:
        typed = type_in(block("ledger.demo.first_hold"), SPEND_LEDGER_DATA_DIR=str(data), **of_its_own)
    finally:
        shutil.rmtree(data, ignore_errors=True)
    assert typed.returncode == 0, typed.stderr
    assert typed.stdout.startswith(block("SETTLED at"))
    assert typed.stdout.endswith("Every law holds.\n")


def test_on_a_database_of_ones_own(of_its_own: dict[str, str], database_url: str) -> None:
    commands = block("spend-ledger migrate").replace("postgresql://ledger@db/ledger", f"'{database_url}'")
    # The last line would run for ever.
    *lines, serve = commands.strip().splitlines()
    assert serve == ".venv/bin/spend-ledger serve"
    typed = type_in("\n".join([*lines, block("ledger.demo.first_hold")]), **of_its_own)
    assert typed.returncode == 0, typed.stderr
    assert block("SETTLED at") in typed.stdout


async def test_the_program_calls_a_provider_under_a_hold(database_url: str, tmp_path: Path) -> None:
    async def provider(question: dict[str, str]) -> dict[str, Any]:
        if question["id"] == "lost":
            raise TimeoutError
        usage = {"prompt_tokens": 1_000, "completion_tokens": 200, "total_tokens": 1_200}
        return {"model": "gpt-5", "usage": usage, "choices": [], "for": question["id"]}

    program: dict[str, Any] = {}
    exec(block("async def answer"), program)
    async with serving(database_url, tmp_path) as served:
        await served.budget("support", limit="10")
        await put_card(served)
        async with Ledger.connect(served.address, served.token("acme", Role.GATEWAY)) as ledger:
            assert (await program["answer"](ledger, provider, {"id": "q-1"}))["for"] == "q-1"
            with pytest.raises(TimeoutError):
                await program["answer"](ledger, provider, {"id": "lost"})
            # 1 000 x 1.25 + 200 x 10, per million
            assert (await ledger.get_hold("q-1")).resolution.amount.amount == "0.00325"
            assert (await ledger.get_hold("lost")).state == hold_pb2.HOLD_STATE_OUTCOME_UNKNOWN


def test_every_file_that_it_names_is_there() -> None:
    named = set(re.findall(r"`((?:[a-z_]+/)+[a-z_0-9.]+|[A-Z]+\.md)`", README)) | set(
        re.findall(r"scripts/[a-z]+", README)
    )
    assert named >= {
        "proto/ledger/v1",
        "ledger/demo/first_hold.py",
        "ledger/demo/gateway.py",
        "scripts/demo",
        "CHANGELOG.md",
    }
    assert [name for name in named if not (ROOT / name).exists()] == []
