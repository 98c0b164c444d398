"""Every command on a hold in every state: what it answers, and in what state it leaves the hold."""

import pytest

from tests.domain.table import run

TO_STATE = {
    "none": "adm: budget org USD 10 -> ok",
    "RESERVED": "reserve op org 6 -> ok",
    "DISPATCHING": "dispatch op nonce=n1 -> ok send",
    "OUTCOME_UNKNOWN": "unknown op -> ok",
    "SETTLED": "charge op 5 -> ok",
    "RELEASED": "release op -> ok",
}
PATHS = {
    "none": ("none",),
    "RESERVED": ("none", "RESERVED"),
    "DISPATCHING": ("none", "RESERVED", "DISPATCHING"),
    "OUTCOME_UNKNOWN": ("none", "RESERVED", "DISPATCHING", "OUTCOME_UNKNOWN"),
    "SETTLED": ("none", "RESERVED", "DISPATCHING", "SETTLED"),
    "RELEASED": ("none", "RESERVED", "RELEASED"),
}

# After a /: the state that the command leaves the hold in, where it is another than before.
CELLS = """
reserve op org 6          | none            | ok / RESERVED
                          | RESERVED        | unchanged matched
                          | DISPATCHING     | unchanged matched
                          | OUTCOME_UNKNOWN | unchanged matched
                          | SETTLED         | unchanged matched
                          | RELEASED        | unchanged matched
reserve op org 7          | none            | ok / RESERVED
                          | RESERVED        | OPERATION_EXISTS field=quote state=RESERVED
                          | DISPATCHING     | OPERATION_EXISTS state=DISPATCHING
                          | OUTCOME_UNKNOWN | OPERATION_EXISTS state=OUTCOME_UNKNOWN recovery_action=no_replay
                          | SETTLED         | OPERATION_EXISTS state=SETTLED
                          | RELEASED        | OPERATION_EXISTS state=RELEASED
reserve op org 6 nonce=n1 | none            | ok send / DISPATCHING
dispatch op nonce=n1      | none            | NOT_FOUND
                          | RESERVED        | ok send / DISPATCHING
                          | DISPATCHING     | unchanged send
                          | OUTCOME_UNKNOWN | unchanged OUTCOME_UNKNOWN
                          | SETTLED         | unchanged RESOLVED
                          | RELEASED        | unchanged RESOLVED
dispatch op nonce=n2      | none            | NOT_FOUND
                          | RESERVED        | ok send / DISPATCHING
                          | DISPATCHING     | unchanged ANOTHER_ATTEMPT_RUNS
                          | OUTCOME_UNKNOWN | unchanged OUTCOME_UNKNOWN
                          | SETTLED         | unchanged RESOLVED
                          | RELEASED        | unchanged RESOLVED
heartbeat op nonce=n1 lease=16m | none            | NOT_FOUND
                          | RESERVED        | ATTEMPT_NOT_CURRENT
                          | DISPATCHING     | ok continue
                          | OUTCOME_UNKNOWN | unchanged
                          | SETTLED         | unchanged
                          | RELEASED        | ATTEMPT_NOT_CURRENT
heartbeat op nonce=n2     | none            | NOT_FOUND
                          | RESERVED        | ATTEMPT_NOT_CURRENT
                          | DISPATCHING     | ATTEMPT_NOT_CURRENT
                          | OUTCOME_UNKNOWN | ATTEMPT_NOT_CURRENT recovery_action=no_replay
                          | SETTLED         | ATTEMPT_NOT_CURRENT
                          | RELEASED        | ATTEMPT_NOT_CURRENT
failed op nonce=n1        | none            | NOT_FOUND
                          | RESERVED        | HOLD_STATE
                          | DISPATCHING     | ok
                          | OUTCOME_UNKNOWN | HOLD_STATE recovery_action=no_replay
                          | SETTLED         | HOLD_STATE
                          | RELEASED        | ATTEMPT_NOT_CURRENT
failed op nonce=n2        | none            | NOT_FOUND
                          | RESERVED        | HOLD_STATE
                          | DISPATCHING     | ATTEMPT_NOT_CURRENT
                          | OUTCOME_UNKNOWN | ATTEMPT_NOT_CURRENT
                          | SETTLED         | ATTEMPT_NOT_CURRENT
                          | RELEASED        | ATTEMPT_NOT_CURRENT
cancel op                 | none            | NOT_FOUND
                          | RESERVED        | ok RESERVATION / RELEASED
                          | DISPATCHING     | ok PERMISSION_TO_SEND / OUTCOME_UNKNOWN
                          | OUTCOME_UNKNOWN | unchanged
                          | SETTLED         | unchanged
                          | RELEASED        | unchanged
receipt op r1             | none            | NOT_FOUND
                          | RESERVED        | ok / DISPATCHING
                          | DISPATCHING     | ok
                          | OUTCOME_UNKNOWN | ok
                          | SETTLED         | ok
                          | RELEASED        | ok incident
delivery op PARTIAL       | none            | NOT_FOUND
                          | RESERVED        | ok
                          | DISPATCHING     | ok
                          | OUTCOME_UNKNOWN | ok
                          | SETTLED         | ok
                          | RELEASED        | ok
unknown op                | none            | NOT_FOUND
                          | RESERVED        | HOLD_STATE
                          | DISPATCHING     | ok / OUTCOME_UNKNOWN
                          | OUTCOME_UNKNOWN | unchanged
                          | SETTLED         | unchanged
                          | RELEASED        | unchanged
release op                | none            | NOT_FOUND
                          | RESERVED        | ok / RELEASED
                          | DISPATCHING     | HOLD_STATE
                          | OUTCOME_UNKNOWN | HOLD_STATE recovery_action=no_replay
                          | SETTLED         | HOLD_STATE
                          | RELEASED        | unchanged replayed
charge op 5               | none            | ok parked
                          | RESERVED        | ok / SETTLED
                          | DISPATCHING     | ok / SETTLED
                          | OUTCOME_UNKNOWN | ok / SETTLED
                          | SETTLED         | unchanged replayed
                          | RELEASED        | RESOLUTION_CONFLICT
charge op 4               | none            | ok parked
                          | RESERVED        | ok / SETTLED
                          | DISPATCHING     | ok / SETTLED
                          | OUTCOME_UNKNOWN | ok / SETTLED
                          | SETTLED         | RESOLUTION_CONFLICT
                          | RELEASED        | RESOLUTION_CONFLICT
charge op 7               | none            | ok parked
                          | RESERVED        | EVIDENCE_REJECTED / DISPATCHING
                          | DISPATCHING     | EVIDENCE_REJECTED
                          | OUTCOME_UNKNOWN | EVIDENCE_REJECTED recovery_action=no_replay
                          | SETTLED         | RESOLUTION_CONFLICT
                          | RELEASED        | RESOLUTION_CONFLICT
charge op 0               | none            | ok parked
                          | RESERVED        | ok / SETTLED
                          | DISPATCHING     | ok / SETTLED
                          | OUTCOME_UNKNOWN | ok / SETTLED
                          | SETTLED         | RESOLUTION_CONFLICT
                          | RELEASED        | RESOLUTION_CONFLICT
charge op 0 source=GATEWAY_ESTIMATE | none            | ok parked
                                    | RESERVED        | EVIDENCE_REJECTED / DISPATCHING
                                    | DISPATCHING     | EVIDENCE_REJECTED
                                    | OUTCOME_UNKNOWN | EVIDENCE_REJECTED
                                    | SETTLED         | EVIDENCE_REJECTED
                                    | RELEASED        | EVIDENCE_REJECTED
proof op NEVER_SENT cause=DNS_FAILURE nonce=n1 | none            | NOT_FOUND
                                               | RESERVED        | HOLD_STATE
                                               | DISPATCHING     | ok / SETTLED
                                               | OUTCOME_UNKNOWN | EVIDENCE_REJECTED
                                               | SETTLED         | RESOLUTION_CONFLICT
                                               | RELEASED        | HOLD_STATE
proof op NEVER_SENT cause=DNS_FAILURE nonce=n2 | none            | NOT_FOUND
                                               | RESERVED        | HOLD_STATE
                                               | DISPATCHING     | EVIDENCE_REJECTED
                                               | OUTCOME_UNKNOWN | EVIDENCE_REJECTED
                                               | SETTLED         | EVIDENCE_REJECTED
                                               | RELEASED        | HOLD_STATE
fin: proof op NEVER_SENT cause=DNS_FAILURE | none            | NOT_FOUND
                                           | RESERVED        | HOLD_STATE
                                           | DISPATCHING     | ok / SETTLED
                                           | OUTCOME_UNKNOWN | ok / SETTLED
                                           | SETTLED         | RESOLUTION_CONFLICT
                                           | RELEASED        | HOLD_STATE
proof op GATEWAY_CACHE_HIT nonce=n1 | none            | NOT_FOUND
                                    | RESERVED        | HOLD_STATE
                                    | DISPATCHING     | ok / SETTLED
                                    | OUTCOME_UNKNOWN | EVIDENCE_REJECTED
                                    | SETTLED         | RESOLUTION_CONFLICT
                                    | RELEASED        | HOLD_STATE
proof op GATEWAY_CACHE_HIT | none            | NOT_FOUND
                           | RESERVED        | HOLD_STATE
                           | DISPATCHING     | EVIDENCE_REJECTED
                           | OUTCOME_UNKNOWN | EVIDENCE_REJECTED
                           | SETTLED         | EVIDENCE_REJECTED
                           | RELEASED        | HOLD_STATE
proof op REJECTED_BEFORE_EXECUTION status=429 request=q1 | none            | ok parked
                                                         | RESERVED        | ok / SETTLED
                                                         | DISPATCHING     | ok / SETTLED
                                                         | OUTCOME_UNKNOWN | EVIDENCE_REJECTED recovery_action=no_replay
                                                         | SETTLED         | RESOLUTION_CONFLICT
                                                         | RELEASED        | RESOLUTION_CONFLICT
fin: proof op REJECTED_BEFORE_EXECUTION status=429 request=q1 | none            | ok parked
                                                              | RESERVED        | ok / SETTLED
                                                              | DISPATCHING     | ok / SETTLED
                                                              | OUTCOME_UNKNOWN | ok / SETTLED
                                                              | SETTLED         | RESOLUTION_CONFLICT
                                                              | RELEASED        | RESOLUTION_CONFLICT
proof op REJECTED_BEFORE_EXECUTION status=500 request=q1 | none            | ok parked
                                                         | RESERVED        | EVIDENCE_REJECTED / DISPATCHING
                                                         | DISPATCHING     | EVIDENCE_REJECTED
                                                         | OUTCOME_UNKNOWN | EVIDENCE_REJECTED
                                                         | SETTLED         | EVIDENCE_REJECTED
                                                         | RELEASED        | EVIDENCE_REJECTED
sys: lapse op             | none            | NOT_FOUND
                          | RESERVED        | unchanged
                          | DISPATCHING     | unchanged
                          | OUTCOME_UNKNOWN | unchanged
                          | SETTLED         | unchanged
                          | RELEASED        | unchanged
after 15m; sys: lapse op  | none            | NOT_FOUND
                          | RESERVED        | ok / RELEASED
                          | DISPATCHING     | ok / OUTCOME_UNKNOWN
                          | OUTCOME_UNKNOWN | unchanged
                          | SETTLED         | unchanged
                          | RELEASED        | unchanged
"""


def cells() -> list[tuple[str, str, str, str]]:
    """(command, state before, outcome, state after)"""
    found, command = [], ""
    for line in CELLS.strip().splitlines():
        named, before, answer = (part.strip() for part in line.split("|"))
        command = named or command
        outcome, _, after = answer.partition(" / ")
        found.append((command, before, outcome, after or before))
    return found


@pytest.mark.parametrize(("command", "before", "outcome", "after"), cells())
def test_cell(command: str, before: str, outcome: str, after: str) -> None:
    setup = "\n".join(TO_STATE[state] for state in PATHS[before])
    steps = command.replace("; ", "\n")
    run(f"{setup}\nhold op {before}\n{steps} -> {outcome}\nhold op {after}")


def test_no_cell_is_left_out() -> None:
    by_command: dict[str, set[str]] = {}
    for command, before, _, _ in cells():
        by_command.setdefault(command, set()).add(before)
    del by_command["reserve op org 6 nonce=n1"]  # on a hold that is there, it is a reserve with other content
    assert all(states == set(PATHS) for states in by_command.values())
