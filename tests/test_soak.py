"""The long programme believes in figures: a part that reached nothing has not passed."""

from pathlib import Path

import pytest

from tests.soak import PARTS, Part, run

ROOT = Path(__file__).parents[1]

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


@pytest.mark.parametrize("part", PARTS, ids=[part.name for part in PARTS])
def test_each_part_records_figures_and_takes_its_numbers(part: Part) -> None:
    text = (ROOT / part.tests).read_text()
    assert "from tests.figures import record" in text
    assert [name for name in part.numbers if f'"{name}"' not in text] == []
