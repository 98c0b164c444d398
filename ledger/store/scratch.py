"""A database for a while: made on a server beside the others, and dropped afterwards."""

import uuid
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from psycopg import sql
from sqlalchemy import make_url


@contextmanager
def scratch_database(server_url: str) -> Iterator[str]:
    """Gives the URL of a new, empty database on the server of `server_url`, whose own database is left as it is.

    Raises psycopg.Error if the server cannot be reached or its user may not make databases.
    """
    url = make_url(server_url).set(drivername="postgresql")
    name = f"spend_ledger_{uuid.uuid4().hex[:12]}"
    quoted = sql.Identifier(name)
    with psycopg.connect(url.render_as_string(hide_password=False), autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE DATABASE {} ENCODING 'UTF8' TEMPLATE template0").format(quoted))
    try:
        yield url.set(database=name).render_as_string(hide_password=False)
    finally:
        with psycopg.connect(url.render_as_string(hide_password=False), autocommit=True) as connection:
            connection.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(quoted))
