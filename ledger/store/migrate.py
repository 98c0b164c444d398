"""Bringing a database to the schema of this version."""

import threading
from functools import cache
from pathlib import Path

from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, create_engine, make_url
from sqlalchemy.pool import NullPool

from alembic import command

# Processes wait for each other in the database; threads of one process must not even come so far: alembic keeps its
# context in a module.
_one_at_a_time = threading.Lock()


def migrations_folder() -> Path:
    """Where the migrations are: in an installed package beside this file, in a checkout at its root."""
    packaged = Path(__file__).with_name("migrations")
    return packaged if packaged.is_dir() else Path(__file__).parents[2] / "alembic"


@cache
def head() -> str:
    """The newest revision that this version knows."""
    revision = ScriptDirectory(str(migrations_folder())).get_current_head()
    assert revision is not None, "there is at least one migration"
    return revision


def known(revision: str) -> bool:
    """Whether this version has the revision."""
    return any(script.revision == revision for script in ScriptDirectory(str(migrations_folder())).walk_revisions())


def current(connection: Connection) -> str | None:
    """The revision that the database is at; None if it was never migrated."""
    return MigrationContext.configure(connection).get_current_revision()


def migrate(url: str) -> tuple[str | None, str]:
    """Brings the database to `head()`, and gives the revisions before and after. Two at the same time do it once.

    Raises sqlalchemy.exc.DBAPIError if the database refuses, and FutureSchema if it is ahead of this version.
    """
    config = Config()
    config.set_main_option("script_location", str(migrations_folder()).replace("%", "%%"))
    engine = create_engine(
        make_url(url).set(drivername="postgresql+psycopg"),
        poolclass=NullPool,
        hide_parameters=True,
        connect_args={"client_encoding": "utf8"},
    )
    with engine.connect() as connection:
        before = current(connection)
        connection.rollback()
        if before is not None and not known(before):
            raise FutureSchema(before)
        config.attributes["connection"] = connection
        with _one_at_a_time:
            command.upgrade(config, "head")
        return before, head()


class FutureSchema(RuntimeError):
    """The database was migrated by a newer version."""

    def __init__(self, revision: str) -> None:
        super().__init__(
            f"The database is at revision {revision}, which this version does not know: run the newer version that made it."
        )
