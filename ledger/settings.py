"""What an operator can set, by environment variables. `load()` reads them.

One more variable, SPEND_LEDGER_POSTGRES, is read by the launcher of our own PostgreSQL: see ledger.store.binaries.
"""

import os
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import AliasChoices, Field, SecretStr, ValidationError, field_validator, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict
from sqlalchemy import make_url
from sqlalchemy.exc import ArgumentError

PREFIX = "SPEND_LEDGER_"
SCHEMES = ("postgresql", "postgres", "postgresql+psycopg")

Count = Annotated[int, Field(ge=1, le=1_000_000)]
Seconds = Annotated[float, Field(gt=0, le=86_400)]


class SettingsError(ValueError):
    """A variable has a value that cannot be used. The message names each such variable, and repeats no value."""


def default_tokens_file() -> Path:
    """/etc/spend-ledger/tokens.jsonl for root; the same under $XDG_CONFIG_HOME or ~/.config for others."""
    if os.geteuid() == 0:
        return Path("/etc/spend-ledger/tokens.jsonl")
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "spend-ledger" / "tokens.jsonl"


class Settings(BaseSettings):
    """The settings of a process. Each field is the variable SPEND_LEDGER_<FIELD>; DATABASE_URL is accepted as well.

    `database_url` None: a PostgreSQL of our own runs in `data_dir`.
    """

    model_config = SettingsConfigDict(env_prefix=PREFIX, env_ignore_empty=True, extra="ignore", frozen=True)

    database_url: SecretStr | None = Field(
        default=None,
        validation_alias=AliasChoices(f"{PREFIX}DATABASE_URL", "DATABASE_URL"),
        description="your PostgreSQL (or DATABASE_URL); without it our own runs",
    )
    data_dir: Path | None = Field(default=None, description="where our own PostgreSQL keeps its data")
    tokens_file: Path = Field(default_factory=default_tokens_file, description="who may call: hashes of the tokens")
    listen: str = Field(default="127.0.0.1:7443", description="host:port; port 0 takes a free one")
    # Without them the server speaks in clear, which is for this machine and for networks that encrypt.
    tls_certificate: Path | None = Field(default=None, description="PEM file; without it the port is in clear")
    tls_key: Path | None = Field(default=None, description="PEM file of its key")
    reflection: bool = Field(default=False, description="whether the server tells its contract to anyone")
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", description="debug, info, warning or error"
    )
    # What gRPC takes everywhere; it holds a batch of 1,000 commands of 4 KiB.
    max_message_bytes: Annotated[int, Field(ge=1, le=2**31 - 1)] = Field(
        default=4 * 1024 * 1024, description="the largest message"
    )
    max_concurrent_rpcs: Count = Field(default=2_000, description="calls at a time; what is above is THROTTLED")
    max_watchers: Count = Field(default=64, description="readers of the feed at a time; what is above is THROTTLED")
    max_queue: Count = Field(default=10_000, description="commands that wait; what is above is THROTTLED")
    max_batch: Count = Field(default=500, description="commands of one database transaction")
    lanes: Count = Field(default=1, description="transactions at a time")
    pool_size: Count = Field(default=4, description="connections that write, and as many that read")
    sweep_seconds: Seconds = Field(default=5.0, description="how often to look for what ran out of time")
    parking_seconds: Annotated[float, Field(gt=0, le=30 * 86_400)] = Field(
        default=86_400.0, description="how long evidence waits for its hold, until it is an incident"
    )
    drain_seconds: Seconds = Field(default=20.0, description="how long a stop waits for calls in progress")

    @field_validator("database_url")
    @classmethod
    def _is_postgresql(cls, value: SecretStr | None) -> SecretStr | None:
        if value is not None and not _leads_to_postgresql(value.get_secret_value()):
            raise ValueError("must be a URL such as postgresql://user@host:5432/ledger")
        return value

    @field_validator("listen")
    @classmethod
    def _is_an_address(cls, value: str) -> str:
        host, _, port = value.rpartition(":")
        if not host or not port.isascii() or not port.isdecimal() or int(port) > 65535:
            raise ValueError("must be host:port, such as 127.0.0.1:7443 or [::1]:7443; port 0 takes a free one")
        return value

    @model_validator(mode="after")
    def _certificate_and_key_together(self) -> Self:
        if (self.tls_certificate is None) != (self.tls_key is None):
            raise ValueError(f"{PREFIX}TLS_CERTIFICATE and {PREFIX}TLS_KEY go together: set both or neither")
        return self


def _leads_to_postgresql(url: str) -> bool:
    """Whether the URL can be read. What cannot is not repeated by anybody: it may hold a password."""
    try:
        url.encode()
        return make_url(url).drivername in SCHEMES
    except (ValueError, ArgumentError):
        return False


def load(**given: Any) -> Settings:
    """The settings of the environment, with those given (from a command line; None is not given) in their place.

    Raises SettingsError.
    """
    # By its alias: the field's own name would be a second way to set it.
    if given.get("database_url") is not None:
        given[f"{PREFIX}DATABASE_URL"] = given["database_url"]
    given.pop("database_url", None)
    try:
        return Settings(**{name: value for name, value in given.items() if value is not None})
    except ValidationError as invalid:
        faults = [_fault(error["loc"], error["msg"]) for error in invalid.errors(include_input=False)]
        raise SettingsError("\n".join(faults)) from None


def _fault(location: tuple[int | str, ...], message: str) -> str:
    message = message.removeprefix("Value error, ")
    if not location:
        return message
    name = str(location[0])
    if name == f"{PREFIX}DATABASE_URL" and not os.environ.get(name):
        name = "DATABASE_URL"
    return f"{name if name.isupper() else PREFIX + name.upper()}: {message}"
