"""A database for a while."""

import psycopg
import pytest

from ledger.store.scratch import scratch_database


def names(server_url: str) -> set[str]:
    with psycopg.connect(server_url) as connection:
        return {name for (name,) in connection.execute("SELECT datname FROM pg_database")}


def test_it_is_empty_and_gone_afterwards_even_if_someone_is_still_connected(server_url: str) -> None:
    before = names(server_url)
    with scratch_database(server_url) as url:
        connection = psycopg.connect(url)
        assert connection.execute(
            "SELECT count(*) FROM pg_class WHERE relkind = 'r' AND relnamespace > 16383"
        ).fetchone() == (0,)
        assert len(names(server_url) - before) == 1
    assert names(server_url) == before
    with pytest.raises(psycopg.OperationalError):
        connection.execute("SELECT 1")


def test_it_goes_when_its_use_fails(server_url: str) -> None:
    before = names(server_url)
    with pytest.raises(RuntimeError, match="in use"), scratch_database(server_url):
        raise RuntimeError("in use")
    assert names(server_url) == before
