from collections.abc import Iterator

import psycopg
import pytest

from ledger.engine.batch import Patience, Runner
from ledger.store.database import Database
from tests.engine.asks import budget, told
from tests.engine.proxy import Proxy

QUICK = Patience(first_pause=0.001, longest_pause=0.02, total=10, doubt=0.4)


@pytest.fixture
def runner(database: Database) -> Runner:
    """A runner on a tenant that has the budget 'team' of 100 USD."""
    made = Runner(database, QUICK)
    assert told(made, budget("team", "100")) == ["done"]
    return made


@pytest.fixture
def superuser(database_url: str) -> Iterator[psycopg.Connection]:
    with psycopg.connect(database_url, autocommit=True) as connection:
        yield connection


@pytest.fixture
def proxy(database_url: str, runner: Runner) -> Iterator[Proxy]:
    made = Proxy(database_url)
    yield made
    made.close()


@pytest.fixture
def distant(proxy: Proxy) -> Iterator[Runner]:
    """A runner behind the proxy, with its connection open: opening one sends a COMMIT too."""
    database = Database(proxy.url, pool_size=2)
    made = Runner(database, QUICK)
    assert told(made, budget("other", "1")) == ["done"]
    yield made
    database.close()
