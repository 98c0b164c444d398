"""Real input, where it is beside the project: recorded usages, and whole catalogues of prices."""

from pathlib import Path

import pytest

DATA = Path(__file__).parents[1] / ".." / "shared" / "data"

needs_recordings = pytest.mark.skipif(not DATA.is_dir(), reason="the recordings are not beside the project")
