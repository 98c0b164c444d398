"""A caller's process, as the one who started it sees it."""

import asyncio
import json
import sys
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import IO, Any, Final

from ledger.exercise.boundaries import Boundary
from ledger.exercise.plan import Plan

BOUND_SECONDS: Final = 40.0


class CallerFailed(RuntimeError):
    """A caller's process ended, or did nothing, where it should have spoken. The message has the end of what it said."""


class Caller:
    """One process. It is gone when the context in which it was started is left."""

    def __init__(self, process: asyncio.subprocess.Process, errors: IO[bytes]) -> None:
        self._process = process
        self._errors = errors
        self._killed = False

    @classmethod
    @asynccontextmanager
    async def started(cls, plan: Plan, environment: Mapping[str, str]) -> AsyncIterator["Caller"]:
        with tempfile.TemporaryFile() as errors:
            process = await cls._start(environment, errors)
            caller = cls(process, errors)
            try:
                caller.tell(plan.to_json())
                yield caller
            finally:
                await caller.kill()

    @classmethod
    async def _start(cls, environment: Mapping[str, str], errors: IO[bytes]) -> asyncio.subprocess.Process:
        # A session of its own: Ctrl-C in the terminal is for us, who end it.
        starting = asyncio.ensure_future(
            asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "ledger.exercise.caller",
                env={**environment, "PYTHONPATH": str(Path(__file__).parents[2])},
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=errors,
                start_new_session=True,
            )
        )
        try:
            return await asyncio.shield(starting)
        except asyncio.CancelledError:
            # A start that is broken off half-way would leave a process that nobody waits for.
            await cls(await starting, errors).kill()
            raise

    def tell(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(line.encode() + b"\n")

    async def said(self) -> dict[str, Any] | None:
        """The next line that it says; None if it ended in order, or was killed here."""
        assert self._process.stdout is not None
        try:
            async with asyncio.timeout(BOUND_SECONDS):
                line = await self._process.stdout.readline()
                if line.endswith(b"\n"):
                    read: dict[str, Any] = json.loads(line)
                    return read
                if await self._process.wait() == 0 or self._killed:
                    return None
        except TimeoutError:
            raise CallerFailed(f"a caller said nothing for {BOUND_SECONDS:.0f} s") from None
        self._errors.seek(0)
        raise CallerFailed(f"a caller ended: {_last_line(self._errors.read())}")

    async def reaches(self, boundary: Boundary) -> None:
        """Waits until it stands at the boundary."""
        said = await self.said()
        if said != {"reached": boundary}:
            raise CallerFailed(f"a caller should have reached '{boundary}', and said {said}")

    async def ends(self) -> list[str]:
        """Waits for its end, and gives what it saw."""
        said = await self.said()
        if said is None or "seen" not in said or await self.said() is not None:
            raise CallerFailed(f"a caller should have ended, and said {said}")
        seen: list[str] = said["seen"]
        return seen

    async def kill(self) -> None:
        """kill -9. A second time it does nothing."""
        self._killed = True
        with suppress(ProcessLookupError):
            self._process.kill()
        await self._process.wait()


def _last_line(errors: bytes) -> str:
    """Of a traceback it says what went wrong."""
    lines = errors.decode(errors="replace").strip().splitlines()
    return lines[-1][:500] if lines else "it said nothing"
