"""The long programme: the tests that look for rare states, each with numbers that reach them. `scripts/soak` runs it.

Each part is what scripts/test runs small. A part fails if it broke, or if it did not reach the faults that it is for.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

from tests.figures import FILE


class Part(NamedTuple):
    name: str
    tests: str
    numbers: dict[str, int]


PARTS = (
    Part("wires", "tests/acceptance/test_wires.py", {"LEDGER_TEST_FAULTS": 2000}),
    Part("lives", "tests/acceptance/test_lifecycle_property.py", {"LEDGER_TEST_EXAMPLES": 60}),
    Part("feed", "tests/acceptance/test_feed_kills.py", {"LEDGER_TEST_FEED_KILLS": 20}),
    Part("kills", "tests/acceptance/test_kills.py", {"LEDGER_TEST_KILLS": 50}),
    Part("exercise", "tests/exercise/test_exercise.py", {"LEDGER_TEST_KILLS": 50}),
    Part("race", "tests/acceptance/test_race.py", {"LEDGER_TEST_RACE": 60}),
    Part("history", "tests/acceptance/test_history.py", {"LEDGER_TEST_HISTORY": 20_000, "LEDGER_TEST_STORM": 5000}),
)


def main() -> int:
    names = [part.name for part in PARTS]
    parser = argparse.ArgumentParser(prog="scripts/soak", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"only these: {', '.join(names)}")
    parser.add_argument("--scale", type=float, default=1.0, help="a share of the numbers: 0.1 is a tenth of each")
    parser.add_argument("--json", action="store_true", help="one JSON object at the end, for programs")
    arguments = parser.parse_args()
    if not set(arguments.parts) <= set(names):
        parser.error(f"PART is one of {', '.join(names)}")
    results = [
        run(part, arguments.scale, quiet=arguments.json)
        for part in PARTS
        if not arguments.parts or part.name in arguments.parts
    ]
    failed = [result["name"] for result in results if not result["passed"]]
    if arguments.json:
        print(json.dumps({"passed": not failed, "parts": results}))
    else:
        print("failed: " + ", ".join(failed) if failed else "every part passed")
    return 1 if failed else 0


def run(part: Part, scale: float, *, quiet: bool) -> dict[str, Any]:
    """Runs a part in a process of its own. Its figures, and whether it passed."""
    numbers = {name: str(max(1, round(number * scale))) for name, number in part.numbers.items()}
    if not quiet:
        print(f"== {part.name}: " + ", ".join(f"{name}={value}" for name, value in numbers.items()), flush=True)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "figures"
        path.touch()
        began = time.monotonic()
        done = subprocess.run(
            [sys.executable, "-m", "pytest", part.tests, *(() if quiet else ("-s",))],
            env={**os.environ, **numbers, FILE: str(path)},
            stdout=sys.stderr if quiet else None,
            check=False,
        )
        figures = [json.loads(line) for line in path.read_text().splitlines()]
    return {
        "name": part.name,
        "passed": done.returncode == 0 and bool(figures),
        "seconds": round(time.monotonic() - began),
        "figures": figures,
    }


if __name__ == "__main__":
    sys.exit(main())
