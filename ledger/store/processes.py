"""Who the server runs as, and whether one is running on a data folder."""

import os
import pwd
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

from ledger.store.binaries import PostgresUnavailable

# Backends that outlive a killed server see it within a second, unless they are in the middle of a statement.
ORPHANS_SECONDS = 10.0


class Identity(NamedTuple):
    """The user that the server runs as. `dropped` is true where we are root and it is another."""

    name: str
    uid: int
    gid: int
    dropped: bool

    @classmethod
    def for_data(cls, cluster: Path) -> "Identity":
        """We ourselves; or if we are root, the owner of the data, else `postgres`, else `nobody`."""
        if os.geteuid() != 0:
            return cls(_name(os.geteuid()), os.geteuid(), os.getegid(), dropped=False)
        if cluster.exists() and cluster.stat().st_uid != 0:
            owner = cluster.stat()
            return cls(_name(owner.st_uid), owner.st_uid, owner.st_gid, dropped=True)
        for name in ("postgres", "nobody"):
            try:
                user = pwd.getpwnam(name)
            except KeyError:
                continue
            return cls(name, user.pw_uid, user.pw_gid, dropped=True)
        raise PostgresUnavailable(
            "PostgreSQL does not run as root, and this system has neither a user 'postgres' nor 'nobody': run as "
            "another user, or give a database URL (SPEND_LEDGER_DATABASE_URL)."
        )

    def popen_arguments(self) -> dict[str, Any]:
        """For subprocess: which user the child becomes."""
        return {"user": self.uid, "group": self.gid, "extra_groups": []} if self.dropped else {}

    def own(self, folder: Path) -> None:
        """Makes the folder this user's alone."""
        folder.mkdir(mode=0o700, exist_ok=True)
        if self.dropped:
            os.chown(folder, self.uid, self.gid)
        folder.chmod(0o700)

    def can_run(self, path: Path) -> bool:
        """Whether this user may execute the program, or enter the folder, through all of its parents."""
        test = shutil.which("test", path=os.defpath) or "/usr/bin/test"
        tried = subprocess.run(  # noqa: S603 - a fixed program, without a shell
            [test, "-x", str(path)], cwd="/", check=False, **self.popen_arguments()
        )
        return tried.returncode == 0


class Server(NamedTuple):
    """What `postmaster.pid` says of a server. The folder is empty while it is starting."""

    pid: int
    socket_dir: str


def running_server(cluster: Path) -> Server | None:
    """The server that runs on the data, if one does. A file left by a killed one does not count."""
    try:
        lines = (cluster / "postmaster.pid").read_text().splitlines()
    except FileNotFoundError:
        return None
    if not lines or not lines[0].strip().isdecimal():
        return None
    server = Server(int(lines[0]), lines[4] if len(lines) > 4 else "")
    return server if server.pid in _processes_on(cluster, server.pid) else None


def forget_dead_server(cluster: Path) -> None:
    """Waits for what is left of a killed server, then removes its file.

    PostgreSQL itself goes by the process id alone, and refuses to start when another program has got the same one.
    Raises PostgresUnavailable if a process still works on the data: two servers on it would destroy it.
    """
    pid_file = cluster / "postmaster.pid"
    if not pid_file.exists() or sys.platform != "linux":
        return
    deadline = time.monotonic() + ORPHANS_SECONDS
    while orphans := _processes_on(cluster, None):
        if time.monotonic() > deadline:
            ids = ", ".join(map(str, sorted(orphans)))
            raise PostgresUnavailable(f"Processes of a server that was killed still work on {cluster}: end {ids}.")
        time.sleep(0.05)
    pid_file.unlink()


def _processes_on(cluster: Path, pid: int | None) -> set[int]:
    """The processes whose working folder is the data, as is that of every process of a server.

    Where there is no /proc, the named process counts if it is there at all.
    """
    if sys.platform != "linux":
        return {pid} if pid is not None and _exists(pid) else set()
    home = cluster.stat()
    found = set()
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            try:
                working = (folder / "cwd").stat()
            except OSError:
                continue
            if (working.st_dev, working.st_ino) == (home.st_dev, home.st_ino):
                found.add(int(folder.name))
    return found


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
