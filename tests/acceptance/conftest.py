from collections.abc import Iterator

import pytest

from tests.acceptance.harness import LiveLedger, live_ledger
from tests.acceptance.tenant import Tenant

TENANTS = 40


@pytest.fixture(scope="module")
def live(shared_database_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveLedger]:
    """One server for all tests of a module. When they are done, its books must keep every law."""
    with live_ledger(shared_database_url, tmp_path_factory.mktemp("live"), tenants=TENANTS) as ledger:
        yield ledger
        assert ledger.violations() == []


@pytest.fixture
def acme(live: LiveLedger) -> Tenant:
    """A tenant of the test's own, with empty books."""
    return Tenant(live, live.next_tenant())
