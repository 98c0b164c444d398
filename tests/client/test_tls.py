"""A client that speaks TLS with a ledger whose certificate is not signed by a public authority."""

import asyncio
import shutil
import subprocess
from datetime import timedelta
from pathlib import Path

import pytest

from ledger.cli import main
from ledger.client import calling, connect
from ledger.client.calling import ROOT_VARIABLE, SERVER_VARIABLE, TOKEN_VARIABLE
from ledger.domain.model import Role
from tests.client.sdk import sdk
from tests.service.harness import serving


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """A certificate that signed itself; its key is beside it."""
    if shutil.which("openssl") is None:
        pytest.skip("there is no openssl to make a certificate with")
    made = tmp_path / "certificate.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
         "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", made.with_name("key.pem"),
         "-out", made],
        check=True, capture_output=True,
    )  # fmt: skip
    return made


async def test_a_certificate_of_one_s_own_is_trusted_by_who_names_it(
    certificate: Path,
    database_url: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    key = certificate.with_name("key.pem")
    async with serving(database_url, tmp_path, tls_certificate=certificate, tls_key=key) as served:
        async with sdk(served, Role.AUDITOR, root_certificate=certificate) as ledger:
            assert [hold async for hold in ledger.list_holds()] == []
        monkeypatch.setattr(calling, "PATIENCE", timedelta(seconds=1))
        monkeypatch.setenv(TOKEN_VARIABLE, served.token("acme", Role.AUDITOR))
        monkeypatch.setenv(SERVER_VARIABLE, served.address)
        assert await asyncio.to_thread(main, ["budget", "tree", "--root-certificate", str(certificate)]) == 0
        assert await asyncio.to_thread(main, ["hold", "list"]) == 2
        assert "are its address and certificate right" in " ".join(capsys.readouterr().err.split())
        monkeypatch.setenv(ROOT_VARIABLE, str(certificate))
        assert await asyncio.to_thread(main, ["hold", "list"]) == 0


async def test_what_cannot_be_used_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(TOKEN_VARIABLE, "x")
    missing = tmp_path / "none.pem"
    assert await asyncio.to_thread(main, ["budget", "tree", "--root-certificate", str(missing)]) == 2
    assert "none.pem" in capsys.readouterr().err
    (tmp_path / "text").write_text("no certificate")
    with pytest.raises(ValueError, match="holds no certificate"):
        connect("127.0.0.1:1", "token", root_certificate=tmp_path / "text")
