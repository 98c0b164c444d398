"""Settings come from the environment, and a bad value names its variable."""

import os
from pathlib import Path

import pytest

from ledger import settings


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith(settings.PREFIX) or name == "DATABASE_URL":
            monkeypatch.delenv(name)


def test_defaults_are_safe() -> None:
    defaults = settings.load()
    assert (defaults.listen, defaults.reflection, defaults.database_url) == ("127.0.0.1:7443", False, None)


def test_variables_are_read_and_an_empty_one_counts_as_unset(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPEND_LEDGER_POOL_SIZE", "9")
    monkeypatch.setenv("SPEND_LEDGER_DATA_DIR", "/srv/ledger")
    monkeypatch.setenv("SPEND_LEDGER_LISTEN", "")
    read = settings.load()
    assert (read.pool_size, read.data_dir, read.listen) == (9, Path("/srv/ledger"), "127.0.0.1:7443")


def test_a_value_of_the_command_line_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPEND_LEDGER_LISTEN", "127.0.0.1:1")
    monkeypatch.setenv("SPEND_LEDGER_DATABASE_URL", "postgresql://one/ledger")
    given = settings.load(listen="127.0.0.1:2", database_url="postgresql://two/ledger", data_dir=None)
    assert given.listen == "127.0.0.1:2"
    assert given.database_url is not None
    assert given.database_url.get_secret_value() == "postgresql://two/ledger"


@pytest.mark.parametrize("variable", ["DATABASE_URL", "SPEND_LEDGER_DATABASE_URL"])
def test_both_names_of_the_database_are_read_and_kept_secret(monkeypatch: pytest.MonkeyPatch, variable: str) -> None:
    monkeypatch.setenv(variable, "postgresql://me:hunter2@db/ledger")
    read = settings.load()
    assert read.database_url is not None
    assert read.database_url.get_secret_value() == "postgresql://me:hunter2@db/ledger"
    assert "hunter2" not in repr(read)


def test_our_own_name_wins_over_the_common_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE_URL", "postgresql://common/ledger")
    monkeypatch.setenv("SPEND_LEDGER_DATABASE_URL", "postgresql://own/ledger")
    read = settings.load().database_url
    assert read is not None
    assert read.get_secret_value() == "postgresql://own/ledger"


@pytest.mark.parametrize(
    ("variable", "value", "says"),
    [
        ("SPEND_LEDGER_POOL_SIZE", "many", "integer"),
        ("SPEND_LEDGER_POOL_SIZE", "0", "greater than or equal to 1"),
        ("SPEND_LEDGER_LISTEN", "7443", "host:port"),
        ("SPEND_LEDGER_LISTEN", "localhost:77777", "host:port"),
        ("SPEND_LEDGER_LOG_LEVEL", "loud", "'debug'"),
        ("SPEND_LEDGER_DATABASE_URL", "mysql://me:hunter2@db/ledger", "postgresql://user@host"),
        ("DATABASE_URL", "hunter2", "postgresql://user@host"),
        ("DATABASE_URL", "postgresql://me:hunter2@db:port/ledger", "postgresql://user@host"),
        ("DATABASE_URL", "postgresql://me:hunter2@db/led\udcffger", "postgresql://user@host"),
        ("SPEND_LEDGER_SWEEP_SECONDS", "0", "greater than 0"),
        ("SPEND_LEDGER_DRAIN_SECONDS", "inf", "less than or equal to 86400"),
        ("SPEND_LEDGER_MAX_MESSAGE_BYTES", "999999999999", "less than or equal to 2147483647"),
        ("SPEND_LEDGER_MAX_QUEUE", "9" * 30, "less than or equal to 1000000"),
    ],
)
def test_a_bad_value_names_its_variable_and_is_not_repeated(
    monkeypatch: pytest.MonkeyPatch, variable: str, value: str, says: str
) -> None:
    monkeypatch.setenv(variable, value)
    with pytest.raises(settings.SettingsError) as raised:
        settings.load()
    message = str(raised.value)
    assert variable in message
    assert says in message
    assert "hunter2" not in message


def test_a_certificate_without_its_key_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPEND_LEDGER_TLS_CERTIFICATE", "/etc/ledger.pem")
    with pytest.raises(
        settings.SettingsError, match=r"^SPEND_LEDGER_TLS_CERTIFICATE and SPEND_LEDGER_TLS_KEY go together"
    ):
        settings.load()


def test_where_tokens_are_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setenv("XDG_CONFIG_HOME", "/home/x/conf")
    assert settings.default_tokens_file() == Path("/home/x/conf/spend-ledger/tokens.jsonl")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert settings.default_tokens_file() == Path("/etc/spend-ledger/tokens.jsonl")
