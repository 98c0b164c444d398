"""The PostgreSQL of a run: one server with its default settings, and a fresh database for each load."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
from psycopg import sql
from sqlalchemy import make_url

from ledger.store.migrate import migrate

FSYNCS = 50


class Databases:
    """Databases of one server, by the URL of one that exists already."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._made = 0

    def url(self, name: str) -> str:
        return make_url(self._url).set(database=name).render_as_string(hide_password=False)

    def version(self) -> str:
        with psycopg.connect(self._url) as connection:
            return str(connection.execute("SHOW server_version").fetchall()[0][0]).split()[0]

    def migrated(self, name: str) -> str:
        """A new database of the ledger's schema: its URL."""
        self._run(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        migrate(self.url(name))
        return self.url(name)

    @contextmanager
    def copy(self, template: str) -> Iterator[str]:
        """A copy of a database that nobody is connected to, written out to the disk; dropped in the end."""
        self._made += 1
        name = sql.Identifier(f"trial_{self._made}")
        self._run(sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(name, sql.Identifier(template)))
        # Every load starts with nothing left to write from the one before.
        self._run(sql.SQL("CHECKPOINT"))
        yield self.url(f"trial_{self._made}")
        self._run(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(name))

    def _run(self, statement: sql.SQL | sql.Composed) -> None:
        with psycopg.connect(self._url, autocommit=True) as connection:
            connection.execute(statement)


def fsync_ms(folder: Path) -> float:
    """How long a write of 8 KiB to the disk of a folder takes, until it is durable: the median, in ms."""
    times = []
    path = folder / "fsync"
    with path.open("wb", buffering=0) as file:
        for _ in range(FSYNCS):
            started = time.perf_counter()
            file.write(bytes(8192))
            os.fdatasync(file.fileno())
            times.append(time.perf_counter() - started)
    path.unlink()
    return sorted(times)[len(times) // 2] * 1000
