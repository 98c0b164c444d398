"""How migrations run: one migrator at a time, and none of them waits long for a lock that the service holds.

Online, the connection is the one in `config.attributes["connection"]` (its transactions are this module's), or one made
from DATABASE_URL. Offline (`--sql`), the same guards are written into the script.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Connection, create_engine, make_url, text
from sqlalchemy.pool import NullPool

from alembic import context
from ledger.store.records import metadata

# A statement that waits for a lock makes all who come after it wait too: better to give up early and come again.
LOCK_TIMEOUT = "4s"
STATEMENT_TIMEOUT = "60s"
# Any number, as long as every migrator of this schema takes the same.
MIGRATORS = 7_236_210_498_153_042_817


def offline() -> None:
    """Writes the script instead of running it."""
    context.configure(
        dialect_name="postgresql", target_metadata=metadata, literal_binds=True, dialect_opts={"paramstyle": "named"}
    )
    with context.begin_transaction():
        context.execute(f"SELECT pg_advisory_xact_lock({MIGRATORS})")
        context.execute(f"SET LOCAL lock_timeout = '{LOCK_TIMEOUT}'")
        context.execute(f"SET LOCAL statement_timeout = '{STATEMENT_TIMEOUT}'")
        context.run_migrations()


def online(connection: Connection) -> None:
    """Runs the migrations, each in a transaction of its own."""
    with alone(connection):
        context.configure(connection=connection, target_metadata=metadata, transaction_per_migration=True)
        with context.begin_transaction():
            context.run_migrations()


@contextmanager
def alone(connection: Connection) -> Iterator[None]:
    """Waits until no other migrator works; then sets the timeouts.

    The lock is the session's, not the transaction's, so that a migration may leave its transaction to build an index
    concurrently.
    """
    connection.execute(text("SELECT pg_advisory_lock(:key)"), {"key": MIGRATORS})
    connection.execute(text(f"SET lock_timeout = '{LOCK_TIMEOUT}'"))
    connection.execute(text(f"SET statement_timeout = '{STATEMENT_TIMEOUT}'"))
    connection.commit()
    try:
        yield
    finally:
        connection.rollback()
        connection.execute(text("SELECT pg_advisory_unlock(:key)"), {"key": MIGRATORS})
        connection.execute(text("RESET lock_timeout"))
        connection.execute(text("RESET statement_timeout"))
        connection.commit()


@contextmanager
def connect() -> Iterator[Connection]:
    """The connection that was handed in, or one of our own."""
    given: Connection | None = context.config.attributes.get("connection")
    if given is not None:
        yield given
        return
    url = context.config.get_main_option("sqlalchemy.url") or os.environ.get("DATABASE_URL")
    if not url:
        raise SystemExit("Set DATABASE_URL to the database that is to be migrated.")
    engine = create_engine(make_url(url).set(drivername="postgresql+psycopg"), poolclass=NullPool)
    with engine.connect() as connection:
        yield connection


if context.is_offline_mode():
    offline()
else:
    with connect() as connection:
        online(connection)
