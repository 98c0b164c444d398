"""Tokens: made once, kept as hashes, read with care."""

import hashlib
import json
import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from ledger.domain.model import Caller, Role
from ledger.service import tokens
from ledger.service.tokens import Tokens, TokensError

NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)


def line(**changes: str) -> str:
    good = {
        "sha256": hashlib.sha256(b"secret").hexdigest(),
        "tenant": "acme",
        "actor": "gateway-1",
        "role": "gateway",
        "created_at": "2026-11-30T12:00:00Z",
    }
    return json.dumps({**good, **changes})


def written(path: Path, *lines: str) -> Path:
    path.write_text("".join(f"{text}\n" for text in lines))
    path.chmod(0o600)
    return path


def test_a_token_is_given_once_and_only_its_hash_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "new" / "tokens.jsonl"
    first = tokens.add(path, tenant="acme", actor="gateway-1", role=Role.GATEWAY, now=NOW)
    second = tokens.add(path, tenant="acme", actor="books", role=Role.FINANCE, now=NOW)
    assert first != second
    content = path.read_text()
    assert first not in content
    assert first.removeprefix("slt_") not in content
    assert json.loads(content.splitlines()[0]) == {
        "sha256": hashlib.sha256(first.encode()).hexdigest(),
        "tenant": "acme",
        "actor": "gateway-1",
        "role": "gateway",
        "created_at": "2026-11-30T12:00:00Z",
    }
    assert path.stat().st_mode & 0o777 == 0o600
    loaded = Tokens.load(path)
    assert loaded.lookup(first) == Caller("acme", "gateway-1", Role.GATEWAY)
    assert loaded.lookup(second) == Caller("acme", "books", Role.FINANCE)
    for other in ("", "slt_", first[:-1], first + "x", hashlib.sha256(first.encode()).hexdigest(), "ключ", "\ud800"):
        assert loaded.lookup(other) is None


def test_a_file_without_a_last_newline_is_continued_in_a_new_line(tmp_path: Path) -> None:
    path = written(tmp_path / "tokens.jsonl")
    path.write_text(line())
    token = tokens.add(path, tenant="acme", actor="books", role=Role.FINANCE, now=NOW)
    loaded = Tokens.load(path)
    assert loaded.lookup("secret") == Caller("acme", "gateway-1", Role.GATEWAY)
    assert loaded.lookup(token) == Caller("acme", "books", Role.FINANCE)


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        ("{", "line 2: Invalid JSON"),
        ("[]", "line 2: .*object"),
        (line(sha256="abc"), "line 2: sha256"),
        (line(role="owner"), "line 2: role"),
        (line(role="system"), "line 2: role: .*service's own"),
        (line(tenant=""), "line 2: tenant"),
        (line(actor="a b"), "line 2: actor"),
        (line(rolle="gateway"), "line 2: rolle"),
        (line(), "line 2: sha256: the same token"),
    ],
)
def test_a_malformed_file_is_refused_naming_the_line(tmp_path: Path, bad: str, says: str) -> None:
    path = written(tmp_path / "tokens.jsonl", line(), bad)
    with pytest.raises(TokensError, match=says):
        Tokens.load(path)
    with pytest.raises(TokensError, match=says):
        tokens.add(path, tenant="acme", actor="books", role=Role.FINANCE, now=NOW)
    assert path.read_text().splitlines() == [line(), bad]


def test_a_file_that_others_can_write_or_that_is_missing_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path / "tokens.jsonl", line())
    path.chmod(0o662)
    with pytest.raises(TokensError, match="chmod 600"):
        Tokens.load(path)
    with pytest.raises(TokensError, match="make a token with `spend-ledger token`"):
        Tokens.load(tmp_path / "none")


@pytest.mark.parametrize("special", ["pipe", "/dev/zero", "/dev/full"])
def test_what_is_not_a_plain_file_is_refused_without_reading_it(tmp_path: Path, special: str) -> None:
    path = tmp_path / special
    if special == "pipe":
        os.mkfifo(path)
    with pytest.raises(TokensError, match="not a plain file"):
        Tokens.load(path)
    with pytest.raises(TokensError, match="not a plain file"):
        tokens.add(path, tenant="acme", actor="books", role=Role.FINANCE, now=NOW)


def test_names_and_roles_are_checked(tmp_path: Path) -> None:
    path = tmp_path / "tokens.jsonl"
    with pytest.raises(TokensError, match="actor"):
        tokens.add(path, tenant="acme", actor="two words", role=Role.FINANCE, now=NOW)
    with pytest.raises(TokensError, match=r"actor: .*service's own"):
        tokens.add(path, tenant="acme", actor="system:expiry", role=Role.FINANCE, now=NOW)
    with pytest.raises(TokensError, match="gateway, finance, auditor or admin"):
        tokens.add(path, tenant="acme", actor="me", role=Role.SYSTEM, now=NOW)
    assert not path.exists()


def test_a_change_of_the_file_counts_without_a_restart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokens, "LOOK_AGAIN_SECONDS", -1.0)
    path = tmp_path / "tokens.jsonl"
    kept = tokens.add(path, tenant="acme", actor="kept", role=Role.GATEWAY, now=NOW)
    loaded = Tokens.load(path)
    later = tokens.add(path, tenant="acme", actor="later", role=Role.GATEWAY, now=NOW)
    assert loaded.lookup(later) == Caller("acme", "later", Role.GATEWAY)
    lines = path.read_text().splitlines()
    replacement = written(tmp_path / "replacement", lines[1])
    os.replace(replacement, path)
    assert loaded.lookup(kept) is None
    # A file that is broken afterwards neither lets anybody in nor locks anybody out.
    written(path, "{")
    assert loaded.lookup(later) == Caller("acme", "later", Role.GATEWAY)
    assert loaded.lookup(kept) is None
