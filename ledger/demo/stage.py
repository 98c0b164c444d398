"""What the demo needs around it: a database of its own, callers with tokens, and the real server in a process of its own.

Everything is made in temporary places and gone when the context is left, whichever way it is left.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from ledger.store.migrate import migrate
from ledger.store.postgres import LocalPostgres
from ledger.store.scratch import scratch_database

TENANT = "demo"
ACTORS = {"gateway": "gateway-1", "finance": "finance-1", "admin": "admin-1"}
START_SECONDS = 60.0
STOP_SECONDS = 30.0
POLL_SECONDS = 0.02


class StageError(RuntimeError):
    """The demo cannot begin; the message says what to do about it."""


@dataclass(frozen=True, slots=True)
class Stage:
    """Where things are: the database, the server's address, and a bearer token for each role."""

    database_url: str
    address: str
    tokens: Mapping[str, str]


@contextmanager
def stage(database_url: str | None) -> Iterator[Stage]:
    """Sets the stage: on the server of `database_url`, in a database of its own; or on a PostgreSQL of its own.

    Raises StageError, PostgresUnavailable or psycopg.Error.
    """
    with ExitStack() as stack:
        if database_url is None:
            # Not inside another temporary folder: the database's user must be able to enter it.
            url = stack.enter_context(LocalPostgres(stack.enter_context(_folder()))).url
        else:
            url = stack.enter_context(scratch_database(database_url))
        migrate(url)
        folder = stack.enter_context(_folder())
        environment = _environment(url, folder / "tokens.jsonl")
        tokens = {role: _token(role, actor, environment) for role, actor in ACTORS.items()}
        address = stack.enter_context(_server(environment, folder / "server.log"))
        yield Stage(url, address, tokens)


@contextmanager
def _folder() -> Iterator[Path]:
    path = Path(tempfile.mkdtemp(prefix="spend-ledger-demo-"))
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def _environment(database_url: str, tokens_file: Path) -> dict[str, str]:
    """The environment of the processes that are started: the demo's settings, and nobody else's."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("SPEND_LEDGER_")}
    return inherited | {
        "SPEND_LEDGER_DATABASE_URL": database_url,
        "SPEND_LEDGER_TOKENS_FILE": str(tokens_file),
        "SPEND_LEDGER_LISTEN": "127.0.0.1:0",
        "PYTHONPATH": str(Path(__file__).parents[2]),
    }


def _command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "ledger", *arguments]


def _token(role: str, actor: str, environment: Mapping[str, str]) -> str:
    made = subprocess.run(  # noqa: S603 - this program itself, without a shell
        _command("token", "--tenant", TENANT, "--actor", actor, "--role", role),
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if made.returncode != 0:
        raise StageError(f"No token could be made for {actor}: {made.stderr.strip()}")
    return made.stdout.split()[-1]


@contextmanager
def _server(environment: Mapping[str, str], log_file: Path) -> Iterator[str]:
    """Runs the server, and gives the address that it listens on."""
    with log_file.open("wb") as log:
        # A session of its own: Ctrl-C in the terminal is for the demo, which ends the server in order.
        server = subprocess.Popen(  # noqa: S603 - this program itself, without a shell
            _command("serve"),
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        yield _address(server, log_file)
    finally:
        server.terminate()
        try:
            server.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()


def _address(server: "subprocess.Popen[bytes]", log_file: Path) -> str:
    deadline = time.monotonic() + START_SECONDS
    while True:
        ended = server.poll() is not None
        lines = log_file.read_text(errors="replace").split("\n")[:-1]
        for line in lines:
            if '"listening"' in line:
                return str(json.loads(line)["address"])
        if ended or time.monotonic() > deadline:
            what = "ended" if ended else f"did not listen within {START_SECONDS:.0f} s"
            raise StageError("\n".join([f"The server {what}. The end of its log:", *lines[-8:]]))
        time.sleep(POLL_SECONDS)
