"""The command line, as a program that people and scripts run."""

import json
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, Protocol

import psycopg
import pytest

from ledger.cli import main
from ledger.domain.model import Caller, Role
from ledger.service.tokens import Tokens
from ledger.store.database import Database
from ledger.store.migrate import head
from ledger.store.postgres import LocalPostgres
from ledger.store.processes import running_server
from tests.processes import environment
from tests.stories import Ledger, tell_everything


class Ran(NamedTuple):
    returncode: int
    stdout: str
    stderr: str


class Run(Protocol):
    def __call__(self, *arguments: str, **variables: str) -> Ran: ...


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs a command in this process: starting Python a dozen times takes longer than all the rest."""

    def run(*arguments: str, **variables: str) -> Ran:
        with monkeypatch.context() as patched:
            patched.setattr(os, "environ", environment(**{"COLUMNS": "200"} | variables))
            try:
                status = main(arguments)
            except SystemExit as ended:
                status = int(ended.code or 0)
        return Ran(status, *capsys.readouterr())

    return run


@pytest.fixture
def data_dir() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="ledger-test-"))
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def story_url(database: Database, database_url: str) -> str:
    tell_everything(Ledger(database))
    return database_url


@pytest.mark.parametrize("command", ["serve", "migrate", "check", "demo", "exercise", "token"])
def test_help_has_examples(command: str, run: Run) -> None:
    shown = run(command, "--help")
    assert shown.returncode == 0
    assert "examples:" in shown.stdout
    assert f"spend-ledger {command}" in shown.stdout


def test_without_a_command_it_says_how_it_is_used(run: Run) -> None:
    shown = run()
    assert (shown.returncode, shown.stdout) == (2, "")
    assert "usage: spend-ledger" in shown.stderr


def test_a_token_is_the_only_thing_on_stdout(tmp_path: Path, run: Run) -> None:
    path = tmp_path / "tokens.jsonl"
    who = ("--tenant", "acme", "--actor", "gateway-1", "--role", "gateway")
    made = run("token", *who, "--tokens-file", str(path))
    assert made.returncode == 0
    token = made.stdout.removesuffix("\n")
    assert Tokens.load(path).lookup(token) == Caller("acme", "gateway-1", Role.GATEWAY)
    assert token not in made.stderr
    described = json.loads(run("token", *who, "--json", SPEND_LEDGER_TOKENS_FILE=str(path)).stdout)
    assert Tokens.load(path).lookup(described.pop("token")) == Caller("acme", "gateway-1", Role.GATEWAY)
    assert described == {"tenant": "acme", "actor": "gateway-1", "role": "gateway", "tokens_file": str(path)}
    assert run("token", *who[:-1], "system", "--tokens-file", str(path)).returncode == 2
    bad = run("token", "--tenant", "two words", *who[2:], "--tokens-file", str(path))
    assert (bad.returncode, bad.stdout) == (2, "")
    assert "tenant" in bad.stderr


def test_migrate_says_from_where_to_where(bare_url: str, run: Run) -> None:
    assert json.loads(run("migrate", "--json", DATABASE_URL=bare_url).stdout) == {"from": None, "to": head()}
    again = run("migrate", DATABASE_URL=bare_url)
    assert (again.returncode, again.stdout) == (0, f"The schema is at revision {head()} already.\n")
    assert again.stderr == ""


def test_check_says_that_every_law_holds(story_url: str, run: Run) -> None:
    shown = run("check", SPEND_LEDGER_DATABASE_URL=story_url)
    assert (shown.returncode, shown.stderr) == (0, "")
    assert "Every entry balances in each of its books." in shown.stdout
    assert shown.stdout.endswith("Every law holds.\n")
    narrow = run("check", SPEND_LEDGER_DATABASE_URL=story_url, COLUMNS="60")
    assert "every hold, once and in order, each from the state before." in narrow.stdout, "a pipe gets whole lines"
    told = json.loads(run("check", "--json", DATABASE_URL=story_url).stdout)
    assert told["violations"] == 0
    assert {"law", "title", "checked", "violations", "examples"} == told["laws"][0].keys()


def test_check_names_what_is_wrong(story_url: str, run: Run) -> None:
    with psycopg.connect(story_url) as connection:
        connection.execute("ALTER TABLE posting DISABLE TRIGGER USER")
        connection.execute("UPDATE posting SET amount = amount - 0.25 WHERE book_id = 'lab#0' AND version = 1")
        connection.execute("ALTER TABLE posting ENABLE TRIGGER USER")
    shown = run("check", DATABASE_URL=story_url)
    assert shown.returncode == 1
    assert "moves book lab#0 by -0.25" in shown.stdout
    # The entry, the balance of AUTHORITY, and the limit that it stands for.
    assert "3 violations" in shown.stdout
    told = json.loads(run("check", "--json", DATABASE_URL=story_url).stdout)
    assert {law["law"]: law["violations"] for law in told["laws"] if law["violations"]} == {
        "1.1": 1,
        "2.1": 1,
        "2.6": 1,
    }


def test_what_cannot_be_done_is_said_with_the_remedy(bare_url: str, tmp_path: Path, run: Run) -> None:
    for ran, says in (
        (run("check", DATABASE_URL=bare_url), "run `spend-ledger migrate`"),
        (run("check", DATABASE_URL="postgresql://me:hunter2@127.0.0.1:1/ledger"), "Check DATABASE_URL"),
        (run("check", DATABASE_URL="mysql://me:hunter2@db/ledger"), "DATABASE_URL: must be a URL such as"),
        (run("check", SPEND_LEDGER_POOL_SIZE="none"), "SPEND_LEDGER_POOL_SIZE"),
        (run("check", "--data-dir", str(tmp_path), DATABASE_URL=bare_url), "leave out one"),
        (run("serve", SPEND_LEDGER_TOKENS_FILE=str(tmp_path / "none")), "make a token with `spend-ledger token`"),
        (run("check", SPEND_LEDGER_DATA_DIR="/proc/ledger"), "name another with --data-dir"),
    ):
        assert (ran.returncode, ran.stdout) == (2, ""), ran
        assert says in ran.stderr
        assert ran.stderr.startswith("spend-ledger: ")
        assert "hunter2" not in ran.stderr


def serving(data_dir: Path, tokens_file: Path, log: Path) -> "subprocess.Popen[bytes]":
    """A server on a PostgreSQL of its own, when it listens."""
    with log.open("wb") as stderr:
        process = subprocess.Popen(
            [sys.executable, "-m", "ledger", "serve", "--data-dir", str(data_dir), "--listen", "127.0.0.1:0"],
            env=environment(SPEND_LEDGER_TOKENS_FILE=str(tokens_file)),
            stdout=stderr,
            stderr=stderr,
        )
    deadline = time.monotonic() + 30
    while '"listening"' not in log.read_text():
        assert process.poll() is None, log.read_text()
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.05)
    return process


def gone(cluster: Path) -> bool:
    deadline = time.monotonic() + 15
    while running_server(cluster) is not None:
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_serve_runs_a_database_of_its_own_and_takes_it_along(
    data_dir: Path, tmp_path: Path, end: signal.Signals, run: Run
) -> None:
    tokens_file = tmp_path / "tokens.jsonl"
    run("token", "--tenant", "acme", "--actor", "a", "--role", "admin", "--tokens-file", str(tokens_file))
    server = serving(data_dir, tokens_file, tmp_path / "log")
    cluster = data_dir / "cluster"
    assert running_server(cluster) is not None
    # A command beside it uses the same database, and leaves it running.
    assert run("check", "--data-dir", str(data_dir)).returncode == 0
    assert running_server(cluster) is not None
    server.send_signal(end)
    assert server.wait(30) == (-9 if end is signal.SIGKILL else 0)
    assert gone(cluster)
    assert json.loads((tmp_path / "log").read_text().splitlines()[0])["message"] == "listening"
    with LocalPostgres(data_dir) as postgres, psycopg.connect(postgres.url) as connection:
        assert connection.execute("SELECT version_num FROM alembic_version").fetchone() == (head(),)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_a_reader_who_has_enough_is_no_error(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    made = [
        "token",
        "--tenant",
        "acme",
        "--actor",
        "a",
        "--role",
        "gateway",
        "--json",
        "--tokens-file",
        str(tmp_path / "t"),
    ]
    ran = subprocess.run(
        [sys.executable, "-m", "ledger", *made], env=environment(), stdout=writing, stderr=subprocess.PIPE, check=False
    )
    os.close(writing)
    assert (ran.returncode, ran.stderr) == (128 + signal.SIGPIPE, b"")


def test_a_folder_of_another_user_is_refused_with_the_remedy(data_dir: Path) -> None:
    nobody = pwd.getpwnam("nobody")

    def as_nobody(*arguments: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [sys.executable, "-B", *arguments],
            env=environment(HOME="/"),
            user=nobody.pw_uid,
            group=nobody.pw_gid,
            extra_groups=[],
            capture_output=True,
            text=True,
            check=False,
        )

    try:
        reachable = as_nobody("-c", "import ledger.cli").returncode == 0
    except PermissionError:
        reachable = False
    if not reachable:
        pytest.skip("the interpreter or the project is out of the user's reach")
    ran = as_nobody("-m", "ledger", "check", "--data-dir", str(data_dir))
    assert ran.returncode == 2
    assert "run as the user that it belongs to" in ran.stderr
