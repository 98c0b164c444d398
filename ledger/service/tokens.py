"""Who may call: a file of bearer tokens, each known only by its SHA-256.

One JSON object a line: {"sha256": …, "tenant": …, "actor": …, "role": …, "created_at": …}. A token has 256 random bits, so its
plain hash gives nothing away, and finding it in a dictionary by the hash tells nothing by its timing. A line that is taken out
stops to count within a second, without a restart.
"""

import fcntl
import hashlib
import logging
import os
import secrets
import time
from datetime import datetime
from pathlib import Path
from stat import S_ISREG
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError, field_validator

from ledger.domain.model import Caller, Role

log = logging.getLogger("ledger.service")

PREFIX = "slt_"
LOOK_AGAIN_SECONDS = 1.0

Name = Annotated[str, StringConstraints(min_length=1, max_length=128, pattern=r"^[^\s\x00-\x1f\x7f]+$")]


class TokensError(ValueError):
    """The file of tokens cannot be used. The message names the file, the line and the remedy; it repeats no value."""


class _Line(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=False, frozen=True)

    sha256: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
    tenant: Name
    actor: Name
    role: Role
    created_at: datetime = Field(description="for people")

    @field_validator("actor")
    @classmethod
    def _is_somebody_else(cls, actor: str) -> str:
        if actor.startswith("system:"):
            raise ValueError("names that begin with system: are the service's own")
        return actor

    @field_validator("role")
    @classmethod
    def _can_be_given(cls, role: Role) -> Role:
        if role is Role.SYSTEM:
            raise ValueError("role system is the service's own: give gateway, finance, auditor or admin")
        return role


class Tokens:
    """The callers by the hash of their token, as the file has them."""

    def __init__(self, path: Path, callers: dict[bytes, Caller], state: tuple[int, ...]) -> None:
        self._path = path
        self._callers = callers
        self._state = state
        self._look_again = time.monotonic() + LOOK_AGAIN_SECONDS

    @classmethod
    def load(cls, path: Path) -> "Tokens":
        """Reads the file. Raises TokensError if it is missing, malformed, or can be written by others."""
        return cls(path, *_read(path))

    def lookup(self, token: str) -> Caller | None:
        """Whose token it is; None if nobody's."""
        if time.monotonic() > self._look_again:
            self._refresh()
        return self._callers.get(_hash(token))

    def _refresh(self) -> None:
        """Reads the file again if it has changed. One that cannot be read leaves the callers as they were."""
        self._look_again = time.monotonic() + LOOK_AGAIN_SECONDS
        try:
            if _state(os.stat(self._path)) != self._state:
                self._callers, self._state = _read(self._path)
                log.info("tokens were read again", extra={"count": len(self._callers)})
        except (OSError, TokensError):
            log.exception("the tokens file cannot be read; the tokens that were read before still count")


def add(path: Path, *, tenant: str, actor: str, role: Role, now: datetime) -> str:
    """Makes a token, adds its hash to the file (made with mode 0600 if it is missing), and gives the token: the only copy.

    Raises TokensError if the names, the role or the file cannot be used.
    """
    token = PREFIX + secrets.token_urlsafe(32)
    try:
        line = _Line(sha256=_hash(token).hex(), tenant=tenant, actor=actor, role=role, created_at=now)
    except ValidationError as invalid:
        raise TokensError(_faults(invalid)) from None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
    except OSError as error:
        raise TokensError(
            f"{path} cannot be written ({error.strerror}): name another file with --tokens-file."
        ) from error
    try:
        _must_be_plain(path, os.fstat(handle))
    except TokensError:
        os.close(handle)
        raise
    with os.fdopen(handle, "rb+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        # What is there must be good before more is added to it, and end in a whole line.
        _read(path)
        content = file.read()
        gap = b"\n" if content and not content.endswith(b"\n") else b""
        file.write(gap + line.model_dump_json().encode() + b"\n")
        file.flush()
        os.fsync(file.fileno())
    return token


def _hash(token: str) -> bytes:
    return hashlib.sha256(token.encode(errors="replace")).digest()


def _state(stat: os.stat_result) -> tuple[int, ...]:
    return (stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns)


def _must_be_plain(path: Path, stat: os.stat_result) -> None:
    if not S_ISREG(stat.st_mode):
        raise TokensError(f"{path} is not a plain file: name another with --tokens-file.")


def _read(path: Path) -> tuple[dict[bytes, Caller], tuple[int, ...]]:
    try:
        # Opening a pipe would wait for its other end, and a device may never end.
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:
            stat = os.fstat(file.fileno())
            _must_be_plain(path, stat)
            content = file.read()
    except FileNotFoundError:
        raise TokensError(f"{path} is not there: make a token with `spend-ledger token`.") from None
    except OSError as error:
        raise TokensError(
            f"{path} cannot be read ({error.strerror}): run as its owner, or name another file with --tokens-file."
        ) from error
    if stat.st_mode & 0o022:
        raise TokensError(f"{path} can be written by others, who could let themselves in: chmod 600 {path}")
    callers: dict[bytes, Caller] = {}
    for number, line in enumerate(content.splitlines(), start=1):
        if not line.strip():
            continue
        try:
            read = _Line.model_validate_json(line)
        except ValidationError as invalid:
            raise TokensError(f"{path}, line {number}: {_faults(invalid)}") from None
        key = bytes.fromhex(read.sha256)
        if key in callers:
            raise TokensError(
                f"{path}, line {number}: sha256: the same token is in an earlier line; remove one of the two"
            )
        callers[key] = Caller(read.tenant, read.actor, read.role)
    return callers, _state(stat)


def _faults(invalid: ValidationError) -> str:
    faults = [(".".join(map(str, error["loc"])), error["msg"]) for error in invalid.errors(include_input=False)]
    return "; ".join(f"{where}: {what}" if where else what for where, what in faults)
