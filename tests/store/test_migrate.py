"""The migrations travel with the package, and two migrators at the same time do it once."""

import os
import subprocess
import sys
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg

from ledger.store import migrate

ROOT = Path(__file__).parents[2]


def test_two_migrators_do_it_once(bare_url: str) -> None:
    program = f"from ledger.store.migrate import migrate; print(*migrate({bare_url!r}))"
    both = [subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) for _ in range(2)]
    with ThreadPoolExecutor(2) as threads:
        ours = list(threads.map(migrate.migrate, [bare_url] * 2))
    theirs = [process.communicate()[0].split()[1] for process in both]
    assert {*theirs, *(after for _, after in ours)} == {migrate.head()}
    with psycopg.connect(bare_url) as connection:
        assert connection.execute("SELECT version_num FROM alembic_version").fetchall() == [(migrate.head(),)]


def test_an_installed_package_brings_its_migrations(bare_url: str, tmp_path: Path) -> None:
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", tmp_path],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    (wheel,) = tmp_path.glob("*.whl")
    site = tmp_path / "site"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    told = subprocess.run(
        [sys.executable, "-B", "-m", "ledger", "migrate", "--json"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(site), "SPEND_LEDGER_DATABASE_URL": bare_url},
        check=True,
        capture_output=True,
        text=True,
    )
    assert told.stdout == f'{{"from": null, "to": "{migrate.head()}"}}\n'
    # And from the wheel, not from the checkout.
    assert not (tmp_path / "alembic").exists()
    assert (site / "ledger" / "store" / "migrations" / "versions").is_dir()
