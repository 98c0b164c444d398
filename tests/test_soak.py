"""The long programme believes in figures: a part that reached nothing has not passed."""

from pathlib import Path

import pytest

from tests.soak import Part, run

RECORDS = (
    "from tests.figures import record\ndef test_it():\n    record('it', faults=int(__import__('os').environ['N']))\n"
)
FAILS = RECORDS + "    raise AssertionError\n"
SILENT = "def test_it():\n    pass\n"


@pytest.mark.parametrize(
    ("test", "passed", "figures"),
    [
        (RECORDS, True, [{"part": "it", "faults": 5}]),
        (FAILS, False, [{"part": "it", "faults": 5}]),
        (SILENT, False, []),
    ],
)
def test_a_part(test: str, passed: bool, figures: list[dict[str, object]], tmp_path: Path) -> None:
    file = tmp_path / "test_part.py"
    file.write_text(test)
    result = run(Part("part", str(file), {"N": 10}), 0.5, quiet=True)
    assert result["passed"] is passed
    assert result["figures"] == figures
