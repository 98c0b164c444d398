"""A database that would lose writes, or has another schema, is refused with the remedy. Each fault is made to happen."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import make_url

from ledger.store import migrate
from ledger.store.database import Database
from ledger.store.fitness import Facts, UnfitDatabase, server_faults, verify
from ledger.store.postgres import LocalPostgres
from ledger.store.processes import Identity
from ledger.store.scratch import scratch_database

GOOD = Facts(150_018, "UTF8", "on", "on", "on", in_recovery=False, read_only="off")


@pytest.fixture
def data_dir() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="ledger-test-"))
    yield folder
    shutil.rmtree(folder)


def faults_of(url: str) -> list[str]:
    database = Database(url, pool_size=1)
    try:
        with database.transaction() as connection:
            verify(connection)
    except UnfitDatabase as unfit:
        return unfit.faults
    finally:
        database.close()
    return []


def first_words(faults: list[str]) -> list[str]:
    return [" ".join(fault.split()[:3]) for fault in faults]


def test_a_migrated_database_is_fit(database: Database, database_url: str) -> None:
    with database.transaction() as connection:
        verify(connection)
    # And the Database's own settings do not hide one that is not.
    with psycopg.connect(database_url, autocommit=True) as admin:
        admin.execute(f'ALTER DATABASE "{admin.info.dbname}" SET synchronous_commit = off'.encode())
    database.close()
    with (
        database.transaction() as connection,
        pytest.raises(UnfitDatabase, match=r"synchronous_commit.*ALTER DATABASE"),
    ):
        verify(connection)


def test_a_server_that_does_not_write_through_is_refused(data_dir: Path) -> None:
    with LocalPostgres(data_dir, options={"fsync": "off", "full_page_writes": "off"}) as server:
        migrate.migrate(server.url)
        faults = faults_of(server.url)
        assert first_words(faults) == ["fsync is off,", "full_page_writes is off,"]
        assert "set fsync = on" in faults[0]


def test_a_standby_is_refused(data_dir: Path) -> None:
    with LocalPostgres(data_dir) as server:
        migrate.migrate(server.url)
    (server.cluster / "standby.signal").touch()
    identity = Identity.for_data(server.cluster)
    shutil.chown(server.cluster / "standby.signal", identity.uid, identity.gid)
    with LocalPostgres(data_dir) as server:
        assert faults_of(server.url) == ["The server is in recovery (a standby): give the URL of the primary."]


def test_a_read_only_database_is_refused(database_url: str) -> None:
    with psycopg.connect(database_url, autocommit=True) as admin:
        admin.execute(f'ALTER DATABASE "{admin.info.dbname}" SET default_transaction_read_only = on'.encode())
    assert first_words(faults_of(database_url)) == ["Transactions are read-only"]


@pytest.mark.parametrize("encoding", ["SQL_ASCII", "LATIN1"])
def test_another_encoding_is_refused(server_url: str, encoding: str) -> None:
    name = f"other_{encoding.lower()}"
    with psycopg.connect(server_url, autocommit=True) as admin:
        admin.execute(f"CREATE DATABASE {name} ENCODING '{encoding}' LOCALE 'C' TEMPLATE template0".encode())
        url = make_url(server_url).set(database=name).render_as_string(hide_password=False)
        migrate.migrate(url)
        assert first_words(faults_of(url)) == ["The database's encoding"]
        admin.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())


def test_an_old_server_is_refused() -> None:
    assert server_faults(GOOD) == []
    assert server_faults(GOOD._replace(version=140_012)) == ["PostgreSQL 14 is too old: use PostgreSQL 15 or newer."]


def test_the_schema_must_be_this_versions(server_url: str) -> None:
    with scratch_database(server_url) as url:
        assert faults_of(url) == ["The database has no schema yet: run `spend-ledger migrate`."]
        assert migrate.migrate(url) == (None, migrate.head())
        assert migrate.migrate(url) == (migrate.head(), migrate.head())
        assert faults_of(url) == []
        for revision, expected in {
            "0001": f"The schema is at revision 0001, this version needs {migrate.head()}: run `spend-ledger migrate`.",
            "9999": "The schema is at revision 9999, which this version does not know: run the newer version that made it.",
        }.items():
            with psycopg.connect(url) as connection:
                connection.execute("UPDATE alembic_version SET version_num = %s", [revision])
            assert faults_of(url) == [expected]
        with pytest.raises(migrate.FutureSchema, match="run the newer version"):
            migrate.migrate(url)
