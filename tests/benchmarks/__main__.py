"""`python -m tests.benchmarks`: measures the ledger on this machine. Exit status 1 if the books violate a law afterwards."""

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ledger.store.postgres import LocalPostgres
from tests.benchmarks import breakdown, report, setting
from tests.benchmarks.figures import Notes, document
from tests.benchmarks.postgres import Databases, fsync_ms
from tests.benchmarks.trials import FULL, PARTS, PAST, QUICK, Plan, Trials

# About as many commands as 32 callers bring into one transaction.
SMALL_BATCH = 10
SMALL_BATCHES, BIG_BATCHES = 60, 8


@dataclass(frozen=True, slots=True)
class Run:
    """What a run gave."""

    machine: str
    notes: Notes
    parts: dict[int, dict[str, float]]


def run(plan: Plan, chosen: Sequence[str] = PARTS) -> Run:
    """A PostgreSQL of its own, the trials, and the breakdown (a part of "servers")."""
    with tempfile.TemporaryDirectory(prefix="ledger-bench-") as made:
        folder = Path(made)
        # PostgreSQL does not run as root, and its user must be able to enter.
        folder.chmod(0o755)
        with LocalPostgres(folder / "postgres") as server:
            databases = Databases(server.url)
            machine = report.machine(databases.version(), fsync_ms(folder))
            tokens_file = folder / "tokens.jsonl"
            token = setting.make(databases, tokens_file, plan.spread)
            notes = Trials(plan, databases, tokens_file, token).run(chosen)
            parts = {}
            steps = ((plan.size, BIG_BATCHES), (SMALL_BATCH, SMALL_BATCHES)) if "servers" in chosen else ()
            for size, batches in steps:
                with databases.copy(setting.TEMPLATE) as url:
                    parts[size] = breakdown.measure(url, setting.GATEWAY, size, batches, batches // 4)
            return Run(machine, notes, parts)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="scripts/bench", description="Measures the ledger on this machine.")
    parser.add_argument("--quick", action="store_true", help="a minute in all; wider ranges")
    parser.add_argument("--json", action="store_true", help="the figures as one object on the last line")
    parser.add_argument(
        "--only",
        choices=(*PARTS, PAST),
        help="one part of it; past: beside a million settled holds, a quarter of an hour",
    )
    given = parser.parse_args(argv)
    plan = QUICK if given.quick else FULL
    done = run(plan, [given.only] if given.only else PARTS)
    found = document(done.notes)
    print(done.machine)
    print()
    print(report.method(plan))
    print()
    print(report.figures(done.notes))
    if done.parts:
        print()
        print(report.breakdown(done.parts, found["noop_unary_rps"]))
    if given.json:
        print(json.dumps(found | {"machine": done.machine, "lifecycle_us": done.parts}))
    if found["ledger_mismatches"]:
        print("The books violate a law: see `spend-ledger check`.", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
