"""Whether a database can be trusted with the books. The service refuses to start on one that cannot."""

from typing import NamedTuple

from sqlalchemy import Connection, text

from ledger.store.migrate import current, head, known

OLDEST = 150_000
_TRUSTED = "ledger.trusted"


class UnfitDatabase(RuntimeError):
    """The database would lose writes or refuse them. The message says what is wrong and the remedy, one line each."""

    def __init__(self, faults: list[str]) -> None:
        super().__init__("\n".join(faults))
        self.faults = faults


class Facts(NamedTuple):
    """What a server says of itself to the connection that asks."""

    version: int
    encoding: str
    fsync: str
    full_page_writes: str
    synchronous_commit: str
    in_recovery: bool
    read_only: str


_ASK = text("""
    SELECT current_setting('server_version_num')::int, current_setting('server_encoding'), current_setting('fsync'),
           current_setting('full_page_writes'), current_setting('synchronous_commit'), pg_is_in_recovery(),
           current_setting('transaction_read_only')
""")


def verify(connection: Connection) -> None:
    """Raises UnfitDatabase unless the database keeps what it acknowledges and has the schema of this version.

    Ask on a connection that writes: settings can differ by role, database and session.
    """
    facts = Facts(*connection.execute(_ASK).one())
    faults = server_faults(facts)
    # A server that is too old or of another encoding may not even have the schema's features to ask for.
    faults += schema_faults(current(connection))
    connection.rollback()
    if faults:
        raise UnfitDatabase(faults)


def trust(connection: Connection) -> None:
    """Raises UnfitDatabase if a connection that has not been asked yet leads to a server that loses or refuses writes.

    While the service runs a server may come back with other settings, or an address may lead to another server. To be called
    before the connection's transaction begins.
    """
    if _TRUSTED in connection.info:
        return
    faults = server_faults(Facts(*connection.execute(_ASK).one()))
    connection.rollback()
    if faults:
        raise UnfitDatabase(faults)
    connection.info[_TRUSTED] = True


def verify_schema(connection: Connection) -> None:
    """Raises UnfitDatabase unless the schema is that of this version. Enough for reading; a standby will do."""
    faults = schema_faults(current(connection))
    connection.rollback()
    if faults:
        raise UnfitDatabase(faults)


def server_faults(facts: Facts) -> list[str]:
    """What is wrong with the server, with the remedy."""
    faults = []
    if facts.version < OLDEST:
        faults.append(f"PostgreSQL {facts.version // 10_000} is too old: use PostgreSQL {OLDEST // 10_000} or newer.")
    if facts.encoding != "UTF8":
        faults.append(
            f"The database's encoding is {facts.encoding}: make another with CREATE DATABASE … ENCODING 'UTF8' TEMPLATE template0."
        )
    if facts.fsync == "off":
        faults.append(
            "fsync is off, so a crash can destroy the books: set fsync = on in postgresql.conf and restart the server."
        )
    if facts.full_page_writes == "off":
        faults.append(
            "full_page_writes is off, so a crash can tear pages: set full_page_writes = on in postgresql.conf and reload."
        )
    if facts.synchronous_commit == "off":
        faults.append(
            "synchronous_commit is off, so an acknowledged write can be lost: set it to on for this role and database "
            "(ALTER DATABASE … SET synchronous_commit = on) or in postgresql.conf."
        )
    if facts.in_recovery:
        faults.append("The server is in recovery (a standby): give the URL of the primary.")
    elif facts.read_only == "on":
        faults.append(
            "Transactions are read-only here: reset default_transaction_read_only for this role and database, or give the URL "
            "of a server that takes writes."
        )
    return faults


def schema_faults(revision: str | None) -> list[str]:
    """What is wrong with the schema, with the remedy."""
    if revision == head():
        return []
    if revision is None:
        return ["The database has no schema yet: run `spend-ledger migrate`."]
    if known(revision):
        return [f"The schema is at revision {revision}, this version needs {head()}: run `spend-ledger migrate`."]
    return [
        f"The schema is at revision {revision}, which this version does not know: run the newer version that made it."
    ]
