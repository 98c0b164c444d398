"""What the demo needs around it: a database of its own, callers with tokens, and the real server in a process of its own.

Everything is made in temporary places and gone when the context is left, whichever way it is left.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from ledger.audit.check import LawResult, check
from ledger.store.database import Database
from ledger.store.migrate import migrate
from ledger.store.postgres import LocalPostgres
from ledger.store.processes import running_server
from ledger.store.scratch import scratch_database

TENANT = "demo"
ACTORS = {"gateway": "gateway-1", "finance": "finance-1", "admin": "admin-1"}
START_SECONDS = 60.0
STOP_SECONDS = 30.0
POLL_SECONDS = 0.02
GONE_SECONDS = 5.0


class StageError(RuntimeError):
    """The demo cannot begin; the message says what to do about it."""


class ServerProcess:
    """The server in a process of its own. It may be killed and started again: it keeps the address of its first start."""

    def __init__(self, environment: Mapping[str, str], log_file: Path) -> None:
        self.address = ""
        self._environment = dict(environment)
        self._log_file = log_file
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Returns when it listens. Raises StageError if it does not, with the end of its log."""
        with self._log_file.open("wb") as log:
            # A session of its own: Ctrl-C in the terminal is for the caller, who ends the server in order.
            self._process = subprocess.Popen(  # noqa: S603 - this program itself, without a shell
                _command("serve"),
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self.address = _address(self._process, self._log_file)
        self._environment["SPEND_LEDGER_LISTEN"] = self.address

    def kill(self) -> None:
        """kill -9."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def stop(self) -> None:
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()


@dataclass(frozen=True, slots=True)
class Stage:
    """Where things are: the database, the server, and a bearer token for each role. `postgres` is None if it is not ours."""

    database_url: str
    server: ServerProcess
    tokens: Mapping[str, str]
    postgres: LocalPostgres | None

    @property
    def address(self) -> str:
        return self.server.address

    def kill_postgres(self) -> None:
        """kill -9 of our own PostgreSQL, and a new one on its data. Raises PostgresUnavailable or StageError."""
        running = None if self.postgres is None else running_server(self.postgres.cluster)
        if self.postgres is None or running is None:
            raise StageError("The PostgreSQL is not ours to kill: leave out DATABASE_URL.")
        os.kill(running.pid, signal.SIGKILL)
        self.postgres.stop()
        if self.postgres.start() != self.database_url:
            raise StageError("PostgreSQL came back at another address: use a shorter TMPDIR.")

    def laws(self) -> Sequence[LawResult]:
        """Recomputes every law of the books from the rows."""
        database = Database(self.database_url, pool_size=1)
        try:
            return check(database)
        finally:
            database.close()


@contextmanager
def stage(database_url: str | None, sweep_seconds: float = 5.0) -> Iterator[Stage]:
    """Sets the stage: on the server of `database_url`, in a database of its own; or on a PostgreSQL of its own.

    `sweep_seconds`: how often the server looks for what ran out of time.
    Raises StageError, PostgresUnavailable or psycopg.Error.
    """
    with ExitStack() as stack:
        postgres = None
        if database_url is None:
            # Not inside another temporary folder: the database's user must be able to enter it.
            postgres = stack.enter_context(LocalPostgres(stack.enter_context(_folder())))
            url = postgres.url
        else:
            url = stack.enter_context(scratch_database(database_url))
        migrate(url)
        folder = stack.enter_context(_folder())
        environment = _environment(url, folder / "tokens.jsonl") | {"SPEND_LEDGER_SWEEP_SECONDS": str(sweep_seconds)}
        tokens = {role: _token(role, actor, environment) for role, actor in ACTORS.items()}
        yield Stage(url, stack.enter_context(_server(environment, folder / "server.log")), tokens, postgres)


@contextmanager
def _folder() -> Iterator[Path]:
    path = Path(tempfile.mkdtemp(prefix="spend-ledger-demo-"))
    try:
        yield path
    finally:
        # What an interrupted initdb has started may go on writing for a moment after it was killed.
        ends = time.monotonic() + GONE_SECONDS
        shutil.rmtree(path, ignore_errors=True)
        while path.exists() and time.monotonic() < ends:
            time.sleep(POLL_SECONDS)
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
def _server(environment: Mapping[str, str], log_file: Path) -> Iterator[ServerProcess]:
    """A running server; it is stopped when the block is left."""
    server = ServerProcess(environment, log_file)
    try:
        server.start()
        yield server
    finally:
        server.stop()


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
