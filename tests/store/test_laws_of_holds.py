"""The laws of holds that the database keeps by itself, whoever writes."""

import pytest

from tests.store.around import Sql, done, refused
from tests.store.sql import insert

HOLD = {
    "tenant": "'a'", "operation_id": "'op'", "state": "'RESERVED'", "currency": "'USD'", "amount": "5",
    "budget_ids": "'{team}'", "books": "'{team#0}'", "created_at": "'2026-03-01'", "version": "1",
}  # fmt: skip
TRANSITION = "A hold moves only from RESERVED to RELEASED"
RELEASE = "A hold that was ever dispatched is never RELEASED"
BIRTH = "A hold is born RESERVED or DISPATCHING, at version 1"


def born(**changes: str) -> str:
    return insert("hold", **HOLD | changes)


def change(**changes: str) -> str:
    pairs = {"version": "version + 1"} | changes
    if changes.get("state") == "'DISPATCHING'":
        pairs = {"lease_expires_at": "now()"} | pairs
    return f"UPDATE hold SET {', '.join(f'{name} = {value}' for name, value in pairs.items())}"


@pytest.mark.parametrize("state", ["OUTCOME_UNKNOWN", "SETTLED", "RELEASED", "EXPIRED"])
def test_births(sql: Sql, state: str) -> None:
    refused(sql, born(state=f"'{state}'", attempt="1", inferred="true", revision="2"), BIRTH, "hold_birth")
    refused(sql, born(version="2"), BIRTH, "hold_birth")


LEGAL = {
    ("RESERVED", "RELEASED"), ("RESERVED", "DISPATCHING"), ("DISPATCHING", "OUTCOME_UNKNOWN"),
    ("DISPATCHING", "SETTLED"), ("OUTCOME_UNKNOWN", "SETTLED"),
}  # fmt: skip
WAY_TO = {
    "RESERVED": (),
    "DISPATCHING": ("DISPATCHING",),
    "OUTCOME_UNKNOWN": ("DISPATCHING", "OUTCOME_UNKNOWN"),
    "SETTLED": ("DISPATCHING", "SETTLED"),
    "RELEASED": ("RELEASED",),
}


def bring_to(sql: Sql, state: str) -> None:
    done(sql, born())
    for step in WAY_TO[state]:
        done(sql, change(state=f"'{step}'", attempt="0" if step == "RELEASED" else "1"))


@pytest.mark.parametrize("before", WAY_TO)
@pytest.mark.parametrize("after", [*WAY_TO, "EXPIRED"])
def test_transitions(sql: Sql, before: str, after: str) -> None:
    bring_to(sql, before)
    attempt = "attempt" if after == "RELEASED" else "1"
    statement = change(state=f"'{after}'", attempt=attempt)
    if before == after or (before, after) in LEGAL:
        done(sql, statement)
    elif after == "RELEASED" and before != "RELEASED":
        # Two laws forbid it; the one of the row itself speaks first.
        refused(sql, statement, "never_released", "hold_once_dispatched_is_never_released")
        done(sql, change(revision="1"))
        corrected = change(state="'RELEASED'", inferred="true", revision="2")
        refused(sql, corrected, TRANSITION, "hold_transition")
    else:
        refused(sql, statement, TRANSITION, "hold_transition")


def test_reserved_is_settled_only_by_evidence_of_a_call(sql: Sql) -> None:
    bring_to(sql, "RESERVED")
    refused(sql, change(state="'SETTLED'", attempt="1"), TRANSITION, "hold_transition")
    done(sql, change(state="'SETTLED'", attempt="1", inferred="true"))


def test_dispatched_is_never_released(sql: Sql) -> None:
    bring_to(sql, "RESERVED")
    law = "hold_once_dispatched_is_never_released"
    refused(sql, change(state="'RELEASED'", attempt="1", inferred="true"), "never_released", law)
    refused(sql, change(state="'RELEASED'", attempt="1", revision="2"), "never_released", law)
    refused(sql, change(attempt="1", state="'DISPATCHING'", generation="-1"), "only grow", "hold_attempts")
    done(sql, change(state="'DISPATCHING'", attempt="1"))
    refused(sql, change(attempt="0", state="'RESERVED'"), "only grow", "hold_attempts")


def test_not_even_by_a_revision_that_it_cannot_have(sql: Sql) -> None:
    bring_to(sql, "RESERVED")
    done(sql, change(revision="1"))
    released = change(state="'RELEASED'", attempt="1", inferred="true", revision="2")
    refused(sql, released, RELEASE, "hold_release")


def test_a_released_hold_has_a_cost_only_by_a_correction(sql: Sql) -> None:
    bring_to(sql, "RESERVED")
    law = "hold_released_costs_only_by_correction"
    refused(sql, change(state="'RELEASED'", revision="1", settled="3"), law, law)
    done(sql, change(state="'RELEASED'", revision="1", settled="0"))
    done(sql, change(revision="2", settled="3", attempt="1", inferred="true"))


def test_dispatch_has_an_attempt(sql: Sql) -> None:
    bring_to(sql, "RESERVED")
    law = "hold_beyond_reserved_has_an_attempt"
    refused(sql, change(state="'DISPATCHING'"), law, law)


def test_an_attempt_has_a_lease_or_is_known_not_to_have_been_sent(sql: Sql) -> None:
    bring_to(sql, "DISPATCHING")
    law = "hold_dispatching_has_a_lease_or_a_failure"
    refused(sql, change(lease_expires_at="NULL"), law, law)
    law = "hold_failure_ends_the_permission"
    failed = {"failure": "'{}'", "retry_until": "now()", "lease_expires_at": "NULL", "nonce_hash": "NULL"}
    for changes in ({"failure": "NULL"}, {"retry_until": "NULL"}, {"lease_expires_at": "now()"}, {"nonce_hash": "'n'"}):
        with_a_lease = {"lease_expires_at": "now()"} if "retry_until" in changes else {}
        refused(sql, change(**failed | changes | with_a_lease), law, law)
    done(sql, change(**failed))


def test_the_permission_to_send_is_given_once_for_each_attempt(sql: Sql) -> None:
    law = "The permission to send an attempt is given once, to one nonce"
    bring_to(sql, "RESERVED")
    refused(sql, change(state="'DISPATCHING'", attempt="2"), law, "hold_permission")
    done(sql, change(state="'DISPATCHING'", attempt="1", nonce_hash="'n'"))
    refused(sql, change(nonce_hash="'m'"), law, "hold_permission")
    refused(sql, change(attempt="2", nonce_hash="'m'"), law, "hold_permission")
    done(sql, change(failure="'{}'", retry_until="now()", lease_expires_at="NULL", nonce_hash="NULL"))
    again = {"failure": "NULL", "retry_until": "NULL", "lease_expires_at": "now()", "nonce_hash": "'m'"}
    refused(sql, change(**again), law, "hold_permission")
    done(sql, change(**again, attempt="2"))


def test_evidence_of_the_execution_is_never_forgotten(sql: Sql) -> None:
    bring_to(sql, "DISPATCHING")
    done(sql, change(execution_seen="true"))
    refused(sql, change(execution_seen="false"), "is never forgotten", "hold_execution")
    done(sql, change(usage_seen="true"))
    refused(sql, change(usage_seen="false"), "is never forgotten", "hold_execution")
    refused(sql, change(execution_seen="false", state="'SETTLED'"), "is never forgotten", "hold_execution")


def test_version_grows_by_one(sql: Sql) -> None:
    bring_to(sql, "RESERVED")
    law = "The version of a hold grows by one with each change."
    refused(sql, change(version="version"), law, "hold_version")
    refused(sql, change(version="version + 2"), law, "hold_version")


@pytest.mark.parametrize(
    "changed",
    [
        "amount = 4", "currency = 'EUR'", "quote = '{\"amount\": \"4\"}'", "books = '{org#0}'", "budget_ids = '{org}'",
        "fingerprint = 'g'", "fingerprint_version = 2",
        "operation_id = 'other'", "tenant = 'b'", "created_at = now()", "exclusive_key = 'k'",
        "labels = '{\"project\": \"other\"}'", "actor = 'other'", "request_group = 'g'",
    ],
)  # fmt: skip
def test_what_a_hold_is_never_changes(sql: Sql, changed: str) -> None:
    bring_to(sql, "RESERVED")
    name, value = changed.split(" = ")
    law = "What a hold was reserved as never changes: operation, amount, quote, path, content, actor, keys, labels."
    refused(sql, change(**{name: value}), law, "hold_identity")


@pytest.mark.parametrize(
    "changed", ["settled = 1", "resolved_at = now()", "resolution_kind = 'NO_COST'", "resolution_digest = 'x'"]
)
def test_what_a_hold_was_settled_at_changes_only_with_a_revision(sql: Sql, changed: str) -> None:
    bring_to(sql, "SETTLED")
    name, value = changed.split(" = ")
    law = "What a hold was settled at changes only with the next revision of its resolution."
    refused(sql, change(**{name: value}), law, "hold_resolution")
    refused(sql, change(**{name: value, "revision": "revision + 2"}), law, "hold_resolution")
    done(sql, change(**{name: value, "revision": "revision + 1"}))
    refused(sql, change(revision="0"), law, "hold_resolution")


def test_one_open_hold_per_exclusive_key(sql: Sql) -> None:
    law = "hold_one_open_per_exclusive_key"
    done(sql, born(exclusive_key="'order-1'"))
    refused(sql, born(operation_id="'op-2'", exclusive_key="'order-1'"), law, law)
    done(sql, change(state="'DISPATCHING'", attempt="1"))
    done(sql, change(state="'OUTCOME_UNKNOWN'"))
    refused(sql, born(operation_id="'op-2'", exclusive_key="'order-1'"), law, law)
    done(sql, change(state="'SETTLED'"))
    done(sql, born(operation_id="'op-2'", exclusive_key="'order-1'"))
