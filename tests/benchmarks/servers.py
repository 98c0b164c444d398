"""Processes of a trial: fresh servers on a database, and the load that calls them."""

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, cast

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from tests.benchmarks.load import Job, Load

ROOT = Path(__file__).parents[2]
START_SECONDS = 30.0
STOP_SECONDS = 30.0
POLL_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class Server:
    """A running server process."""

    target: str
    pid: int

    def peak_rss_mb(self) -> float:
        """The most memory that the process ever had, in MB (VmHWM)."""
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024 / 1e6
        raise RuntimeError(f"process {self.pid} says nothing of its memory")


@contextmanager
def servers(database_url: str, tokens_file: Path, count: int = 1) -> Iterator[list[Server]]:
    """Fresh server processes on one database, once they serve; ended, in order, afterwards."""
    with ExitStack() as stack:
        started = [stack.enter_context(_started(database_url, tokens_file)) for _ in range(count)]
        for process, target in started:
            _wait_until_serving(process, target)
        yield [Server(target, process.pid) for process, target in started]


@contextmanager
def _started(database_url: str, tokens_file: Path) -> Iterator[tuple["subprocess.Popen[bytes]", str]]:
    target = f"127.0.0.1:{_free_port()}"
    settings = {
        "SPEND_LEDGER_DATABASE_URL": database_url,
        "SPEND_LEDGER_TOKENS_FILE": str(tokens_file),
        "SPEND_LEDGER_LISTEN": target,
        "SPEND_LEDGER_LOG_LEVEL": "warning",
    }
    process = subprocess.Popen(
        [sys.executable, "-m", "ledger", "serve"], cwd=ROOT, env={**os.environ, **settings}, stdin=subprocess.DEVNULL
    )
    try:
        yield process, target
    finally:
        process.terminate()
        status = process.wait(STOP_SECONDS)
    if status != 0:
        raise RuntimeError(f"a server ended with status {status}")


def call(jobs: Sequence[Job]) -> list[Load]:
    """Runs the loads, in a process of their own."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.benchmarks.load"],
        cwd=ROOT,
        input=json.dumps([asdict(job) for job in jobs]),
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return [Load(**load) for load in json.loads(done.stdout)]


def _wait_until_serving(process: "subprocess.Popen[bytes]", target: str) -> None:
    ends = time.monotonic() + START_SECONDS
    with grpc.insecure_channel(target) as channel:
        ready = grpc.channel_ready_future(channel)
        while process.poll() is None and time.monotonic() < ends:
            try:
                ready.result(POLL_SECONDS)
            except grpc.FutureTimeoutError:
                continue
            health = cast(Any, health_pb2_grpc.HealthStub(channel))
            answer = health.Check(health_pb2.HealthCheckRequest(), timeout=START_SECONDS)
            if answer.status == health_pb2.HealthCheckResponse.SERVING:
                return
        ready.cancel()
    raise RuntimeError("a server did not start; its log says why")


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])
