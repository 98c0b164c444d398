"""The catalogues that people use, whole, where they are at hand: each entry is accounted for, and it does not take long."""

import json
import time

import pytest

from ledger.cli import main
from tests.recordings import DATA, needs_recordings

# Seconds of this process, for both.
LONGEST = 10.0
FILES = {"litellm": "litellm_prices.json", "genai-prices": "genai_prices_catalogue.json"}


@needs_recordings
@pytest.mark.parametrize("form", FILES)
def test_every_entry_is_taken_partly_or_whole_or_refused_with_a_reason(
    form: str, capsys: pytest.CaptureFixture[str]
) -> None:
    began = time.process_time()
    assert main(["prices", "import", "--json", "--dry-run", "--format", form, str(DATA / FILES[form])]) == 0
    assert time.process_time() - began < LONGEST
    found = json.loads(capsys.readouterr().out)
    counts, models = found["counts"], found["models"]
    assert counts["entries"] == len(models) == counts["taken"] + counts["partly"] + counts["refused"]
    of = {status: [model for model in models if model["status"] == status] for status in ("taken", "partly", "refused")}
    assert {status: len(some) for status, some in of.items()} == {status: counts[status] for status in of}
    assert all(model["reasons"] for model in of["refused"])
    assert all(model["unsaid"] for model in of["partly"])
    # Most of it has a card.
    assert counts["refused"] < counts["entries"] / 5
