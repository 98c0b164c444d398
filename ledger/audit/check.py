"""Every law of the books, recomputed from the rows in one snapshot."""

from collections.abc import Iterable
from decimal import localcontext
from typing import NamedTuple

from sqlalchemy import Connection

from ledger.audit.arithmetic import (
    card_fault,
    ceilings_fault,
    digest_fault,
    fact_fault,
    policy_fault,
    price_fault,
    quote_fault,
)
from ledger.domain.money import CONTEXT
from ledger.store import laws
from ledger.store.database import Database


class LawResult(NamedTuple):
    """How a law stands: the number of things that were held to it, of those that violate it, and some examples."""

    law: str
    title: str
    checked: int
    violations: int
    examples: tuple[str, ...]


def check(database: Database) -> list[LawResult]:
    """Asks every law. It changes nothing, takes no locks, and takes time in proportion to the rows.

    Raises sqlalchemy.exc.DBAPIError if the database cannot be asked.
    """
    with laws.snapshot(database) as connection:
        return check_within(connection)


def check_within(connection: Connection) -> list[LawResult]:
    """The same, of what a transaction of the caller's sees."""
    # Sums are exact, or raise.
    with localcontext(CONTEXT):
        results = [LawResult(law.law, law.title, *laws.measure(connection, law)) for law in laws.LAWS]
        results += [
            _count("7.1", "A price card has the digest of its content.", map(card_fault, laws.price_cards(connection))),
            _count(
                "7.2",
                "A quote is the sum of its lines, pinned to a card that is there.",
                map(quote_fault, laws.quotes(connection)),
            ),
        ]
        facts = _count(
            "7.5", "Evidence has the fact of its content.", map(fact_fault, laws.evidence_with_bodies(connection))
        )
        policies = _count(
            "7.6", "A policy has the digest of its content.", map(policy_fault, laws.policies(connection))
        )
        faults = [
            (price_fault(stored), digest_fault(stored), ceilings_fault(stored))
            for stored in laws.resolutions(connection)
        ]
    results.append(
        _count(
            "7.3",
            "Repricing from the stored quote, card and usage gives the amount.",
            (price for price, _, _ in faults),
        )
    )
    results.append(_count("7.4", "A resolution has the digest of its content.", (digest for _, digest, _ in faults)))
    passed = (ceilings for _, _, ceilings in faults)
    results += [
        facts,
        policies,
        _count("7.7", "A resolution flags the ceilings that its lines are above.", passed),
    ]
    return results


def _count(law: str, title: str, faults: Iterable[str | None]) -> LawResult:
    checked, violations = 0, 0
    examples: list[str] = []
    for fault in faults:
        checked += 1
        if fault is not None:
            violations += 1
            if len(examples) < laws.EXAMPLES:
                examples.append(fault)
    return LawResult(law, title, checked, violations, tuple(examples))
