"""A PostgreSQL of our own on this machine, for a single node, demos and tests.

    with LocalPostgres(Path("/var/lib/spend-ledger")) as server:
        connect(server.url)

The server listens on a Unix socket only, in a folder that nobody but its user (and root) may enter, so it needs no
password. It never runs as root. It runs as long as one process uses it, and goes with the last one (see `keeper`). The
data stays.
"""

import atexit
import fcntl
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any
from urllib.parse import quote

import psycopg
from psycopg import sql

from ledger.store import keeper
from ledger.store.binaries import PostgresUnavailable, Prefer, find_binaries, reachable_binaries
from ledger.store.processes import Identity, forget_dead_server, running_server

__all__ = ["LocalPostgres", "PostgresUnavailable", "default_data_dir", "find_binaries"]

DATABASE = ROLE = "ledger"
PORT = 5432
START_LOCK = "start.lock"
# sun_path holds 107 bytes and a zero; PostgreSQL adds "/.s.PGSQL.5432" and, for its lock, ".lock".
LONGEST_SOCKET_DIR = 107 - len(f"/.s.PGSQL.{PORT}.lock")
START_SECONDS = 60.0
POLL_SECONDS = 0.02
SETTINGS: Mapping[str, str] = {
    "listen_addresses": "",
    "port": str(PORT),
    "unix_socket_permissions": "0700",
    "timezone": "UTC",
    "log_timezone": "UTC",
    # The server's log is no place for what the rows hold.
    "log_error_verbosity": "terse",
    "log_min_error_statement": "panic",
}


def default_data_dir() -> Path:
    """/var/lib/spend-ledger for root; $XDG_DATA_HOME/spend-ledger or ~/.local/share/spend-ledger for others."""
    if os.geteuid() == 0:
        return Path("/var/lib/spend-ledger")
    base = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(base) / "spend-ledger"


class LocalPostgres:
    """A server on `data_dir`, made when it is not there.

    If another process runs one there already, that one is used. `options` are server settings (for tests); they take
    effect only when this object starts the server. Not thread-safe. All failures are PostgresUnavailable.
    """

    def __init__(
        self, data_dir: Path | None = None, *, prefer: Prefer | None = None, options: Mapping[str, str] | None = None
    ) -> None:
        self.data_dir = Path(data_dir or default_data_dir()).expanduser().absolute()
        self.cluster = self.data_dir / "cluster"
        self.log_file = self.data_dir / "server.log"
        self.url = ""
        self._prefer = prefer
        self._options = dict(options or {})
        self._user: int | None = None
        self._keeper: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> "LocalPostgres":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> str:
        """Gives the URL of a server that takes connections, starting it if there is none. May be called again."""
        if self._user is not None:
            return self.url
        identity = self._prepare_folder()
        try:
            with _locked(self.data_dir / START_LOCK):
                self._user = _lock_shared(self.data_dir / "users.lock")
                self.url = self._find_or_start(identity)
        except BaseException:
            self.stop()
            raise
        atexit.register(self.stop)
        return self.url

    def stop(self) -> None:
        """Ends this process's use. If no other process uses the server, returns when it has shut down."""
        if self._user is None:
            return
        atexit.unregister(self.stop)
        os.close(self._user)
        self._user, self.url = None, ""
        self._wait_for_keeper()

    def _prepare_folder(self) -> Identity:
        """Makes the data folder. It belongs to the starting user; the server's user may pass through it, no more."""
        try:
            self.data_dir.mkdir(parents=True, exist_ok=True)
            names = os.listdir(self.data_dir)
            if names and START_LOCK not in names:
                raise PostgresUnavailable(
                    f"{self.data_dir} holds other files: name an empty or a new folder with --data-dir."
                )
            identity = Identity.for_data(self.cluster)
            if not identity.dropped:
                self.data_dir.chmod(0o700)
            elif self.data_dir.stat().st_uid != identity.uid:
                os.chown(self.data_dir, os.geteuid(), identity.gid)
                self.data_dir.chmod(0o710)
        except OSError as error:
            raise PostgresUnavailable(
                f"The data folder {self.data_dir} cannot be used ({error.strerror}): name another with --data-dir or "
                "SPEND_LEDGER_DATA_DIR, or run as the user that it belongs to."
            ) from error
        if not identity.can_run(self.data_dir):
            raise PostgresUnavailable(
                f"PostgreSQL does not run as root, and the user {identity.name!r} may not enter {self.data_dir}: "
                "name a folder with --data-dir or SPEND_LEDGER_DATA_DIR all of whose parents others may enter, such as "
                "/var/lib/spend-ledger."
            )
        return identity

    def _find_or_start(self, identity: Identity) -> str:
        deadline = time.monotonic() + START_SECONDS
        while (server := running_server(self.cluster)) is not None:
            # Another process's, or one that is just going: wait for one of the two.
            url = _url(server.socket_dir)
            if server.socket_dir and _accepts(url):
                return url
            if time.monotonic() > deadline:
                raise PostgresUnavailable(
                    f"The server with process id {server.pid} holds {self.cluster} and takes no connections."
                    + self._log_tail()
                )
            time.sleep(POLL_SECONDS)
        forget_dead_server(self.cluster)
        return self._start_new(identity, deadline)

    def _start_new(self, identity: Identity, deadline: float) -> str:
        version_file = self.cluster / "PG_VERSION"
        major = int(version_file.read_text()) if version_file.exists() else None
        binaries = reachable_binaries(find_binaries(self._prefer, major), self.data_dir, identity.can_run)
        if self.log_file.exists():
            self.log_file.replace(self.log_file.with_suffix(".log.1"))
        if major is None:
            self._initialise(binaries, identity)
        socket_dir = self.data_dir / "socket"
        scratch = len(os.fsencode(socket_dir)) > LONGEST_SOCKET_DIR
        if scratch:
            socket_dir = _short_folder()
        identity.own(socket_dir)
        self._launch(binaries, identity, socket_dir, scratch)
        url = _url(str(socket_dir))
        while not _accepts(url):
            if self._keeper is not None and self._keeper.poll() is not None:
                raise PostgresUnavailable(f"PostgreSQL did not start.{self._log_tail()}")
            if time.monotonic() > deadline:
                raise PostgresUnavailable(
                    f"PostgreSQL takes no connections after {START_SECONDS:.0f} s.{self._log_tail()}"
                )
            time.sleep(POLL_SECONDS)
        return url

    def _initialise(self, binaries: Path, identity: Identity) -> None:
        """initdb into a folder beside the real one, so that one that was interrupted is not taken for data."""
        unfinished = self.data_dir / "cluster.unfinished"
        shutil.rmtree(unfinished, ignore_errors=True)
        identity.own(unfinished)
        # C compares text by its bytes, whatever the machine's locale library is.
        ways_in = ["--auth-local=trust", "--auth-host=reject"]
        command = [
            str(binaries / "initdb"),
            "-D",
            str(unfinished),
            "-U",
            ROLE,
            *ways_in,
            "--encoding=UTF8",
            "--locale=C",
        ]
        with self._open_log() as log:
            made = subprocess.run(  # noqa: S603 - a program of ours, without a shell
                command,
                env=self._environment(),
                cwd=unfinished,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                check=False,
                **identity.popen_arguments(),
            )
        if made.returncode != 0:
            raise PostgresUnavailable(f"PostgreSQL could not make its files in {self.data_dir}.{self._log_tail()}")
        hba = unfinished / "pg_hba.conf"
        hba.write_text(
            "# Who may enter the socket's folder may connect; there is no other way in.\nlocal all all trust\n"
        )
        unfinished.rename(self.cluster)

    def _launch(self, binaries: Path, identity: Identity, socket_dir: Path, scratch: bool) -> None:
        for name in ("keeper.lock", "users.lock"):
            os.close(_open_lock(self.data_dir / name))
        quoted = '"' + str(socket_dir).replace('"', '""') + '"'
        settings = {**SETTINGS, "unix_socket_directories": quoted, **self._options}
        flags = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        job: dict[str, Any] = {
            "command": [str(binaries / "postgres"), "-D", str(self.cluster), *flags],
            "cwd": str(self.cluster),
            "env": self._environment(),
            "uid": identity.uid if identity.dropped else None,
            "gid": identity.gid,
            "users_lock": str(self.data_dir / "users.lock"),
            "keeper_lock": str(self.data_dir / "keeper.lock"),
            "scratch": str(socket_dir) if scratch else "",
        }
        with self._open_log() as log:
            # A session of its own: Ctrl-C in the terminal is for us, and we end the server in order.
            self._keeper = subprocess.Popen(  # noqa: S603 - a program of ours, without a shell
                [sys.executable, "-I", "-S", keeper.__file__, json.dumps(job)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def _wait_for_keeper(self) -> None:
        """Returns when the keeper has ended, or when another process is seen to use the server."""
        deadline = time.monotonic() + keeper.GRACE_SECONDS + 5
        with _opened(self.data_dir / "keeper.lock") as keeping, _opened(self.data_dir / "users.lock") as using:
            while time.monotonic() < deadline and not _try_lock(keeping, fcntl.LOCK_SH):
                # Free means that the keeper has not woken yet; shared means another user; else the keeper is at work.
                if _try_lock(using, fcntl.LOCK_EX):
                    fcntl.flock(using, fcntl.LOCK_UN)
                elif _try_lock(using, fcntl.LOCK_SH):
                    return
                time.sleep(POLL_SECONDS / 2)
        if self._keeper is not None:
            self._keeper.wait()
            self._keeper = None

    def _environment(self) -> dict[str, str]:
        """Nothing of ours (PGDATA, PGOPTIONS, secrets) reaches the server."""
        return {"PATH": os.defpath, "HOME": str(self.data_dir), "LC_ALL": "C", "TZ": "UTC"}

    def _open_log(self) -> IO[bytes]:
        return os.fdopen(_open_own(self.log_file, os.O_WRONLY | os.O_APPEND), "wb")

    def _log_tail(self, lines: int = 8) -> str:
        try:
            tail = self.log_file.read_text(errors="replace").splitlines()[-lines:]
        except OSError:
            tail = []
        return "\n".join([f" The end of {self.log_file}:", *(f"  {line}" for line in tail)])


def _short_folder() -> Path:
    """A new folder with a short path. TMPDIR's may be as long as the one that is too long."""
    for parent in ("/tmp", "/var/tmp"):  # noqa: S108 - the folder itself has a name that nobody can guess
        if os.access(parent, os.W_OK | os.X_OK):
            return Path(tempfile.mkdtemp(prefix="spend-ledger-", dir=parent))
    raise PostgresUnavailable(
        "The path of the data folder is too long for a socket, and neither /tmp nor /var/tmp can be written: "
        "name a shorter one with --data-dir."
    )


def _url(socket_dir: str) -> str:
    return f"postgresql://{ROLE}@/{DATABASE}?host={quote(socket_dir, safe='')}&port={PORT}"


def _accepts(url: str) -> bool:
    """Whether the server takes connections. Makes our database if it is missing."""
    try:
        with psycopg.connect(url, dbname="postgres", autocommit=True, connect_timeout=5) as connection:
            if not connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [DATABASE]).fetchone():
                connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(DATABASE)))
    except psycopg.OperationalError:
        return False
    return True


def _open_own(path: Path, flags: int) -> int:
    """Opens a file of the data folder, made if it is missing. It belongs to whom the folder belongs to."""
    handle = os.open(path, flags | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    if os.geteuid() == 0:
        folder = path.parent.stat()
        os.fchown(handle, folder.st_uid, folder.st_gid)
    return handle


def _open_lock(path: Path) -> int:
    return _open_own(path, os.O_RDWR)


@contextmanager
def _opened(path: Path) -> Iterator[int]:
    handle = _open_lock(path)
    try:
        yield handle
    finally:
        os.close(handle)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with _opened(path) as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _lock_shared(path: Path) -> int:
    """Joins the users of the server. Waits while a keeper is shutting one down."""
    handle = _open_lock(path)
    fcntl.flock(handle, fcntl.LOCK_SH)
    return handle


def _try_lock(handle: int, kind: int) -> bool:
    try:
        fcntl.flock(handle, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
