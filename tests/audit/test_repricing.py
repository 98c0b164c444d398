"""Law 7 as a property: whatever cards are put afterwards, every revision is priced again to the amount that it has."""

from decimal import Decimal
from itertools import count

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ledger.audit.arithmetic import digest_fault, price_fault
from ledger.domain.evidence import reprice
from ledger.store import laws
from ledger.store.database import Database
from tests.stories import Ledger

PRICES = st.decimals(min_value=0, max_value=50, places=6).map(str)
TOKENS = st.integers(0, 100_000), st.integers(0, 10_000)


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(*TOKENS), min_size=1, max_size=4), st.lists(PRICES, min_size=1, max_size=4))
def test_newer_cards_change_no_amount(database: Database, usages: list[tuple[int, int]], prices: list[str]) -> None:
    ledger = Ledger(database, tenant=f"tenant-{next(_tenants)}")
    ledger.budget("org", None)
    ledger.card(price=prices[0])
    ledger.reserve_tokens("op", 100_000, 10_000, "org")
    price = Decimal(prices[0])
    for number, (inputs, outputs) in enumerate(usages):
        outcome = ledger.recount("op", inputs, outputs) if number else ledger.tokens("op", inputs, outputs)
        # Output costs four times as much.
        assert outcome.hold is not None
        assert outcome.hold.settled == (inputs + 4 * outputs) * price / 1_000_000
        ledger.card(price=prices[number % len(prices)])
    with laws.snapshot(database) as connection:
        stored = [r for r in laws.resolutions(connection) if not isinstance(r, laws.Unreadable)]
    mine = [r for r in stored if r.hold.tenant == ledger.tenant]
    assert len(mine) == mine[0].hold.revision
    for revision in mine:
        assert revision.body is not None
        again = reprice(revision.hold.quote, revision.card, revision.body, revision.hold.dispatched_at)
        assert again == revision.amount
        assert (price_fault(revision), digest_fault(revision)) == (None, None)


_tenants = count()
