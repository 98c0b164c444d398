"""The price command, as it is called."""

import json
from pathlib import Path

import pytest

from ledger.cli import main
from tests.usage.test_rows import EXTRACTOR, model


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    provider = {
        "id": "p",
        "name": "P",
        "api_pattern": "x",
        "extractors": [EXTRACTOR],
        "models": [model("m", {"input_mtok": 2})],
    }
    row = {
        "body": {"use": {"in": 10, "out": 0}},
        "model": "m",
        "extracted": [{"extractors": [{"provider_id": "p", "api_flavor": "chat"}]}],
    }
    (tmp_path / "catalogue.json").write_text(json.dumps([provider]))
    (tmp_path / "usages.json").write_text(json.dumps([row, row | {"model": "n"}]))
    return ["--catalogue", str(tmp_path / "catalogue.json"), "--usages", str(tmp_path / "usages.json")]


def test_one_object_a_line(files: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["price", *files, "--at", "2026-06-01", "--json"]) == 0
    first, second = map(json.loads, capsys.readouterr().out.splitlines())
    assert (first["row"], first["status"], first["amount"]) == (0, "priced", "0.00002")
    assert (second["row"], second["status"], second["reasons"]) == (
        1,
        "unpriceable",
        ["the catalogue has no model 'n' for p"],
    )


def test_lines_for_people(files: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["price", *files, "--at", "2026-06-01T12:00:00+02:00"]) == 0
    assert capsys.readouterr().out == (
        "0  p.chat  priced  0.00002\n1  p.chat  unpriceable  -  the catalogue has no model 'n' for p\n"
    )


def test_what_is_wrong_with_a_file_is_said(
    files: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, text, sentence in (
        ("usages.json", "[{}]", "usages.json: row 0 is not in the form {body, model, extracted}"),
        ("usages.json", "{}", "usages.json is not a list of rows"),
        ("usages.json", "x", "usages.json is not JSON"),
        ("catalogue.json", "x", "catalogue.json: the catalogue is not in the form of genai-prices"),
    ):
        (tmp_path / name).write_text(text)
        assert main(["price", *files]) == 2
        assert sentence in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["price", *files, "--at", "noon"])
    assert "'noon' is not a time" in capsys.readouterr().err
