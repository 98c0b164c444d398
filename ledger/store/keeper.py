"""The process between us and the local PostgreSQL: it starts the server, and stops it when nobody uses it any more.

Run as a script, with the standard library only. Every user of the server holds a shared lock on a file; the kernel
frees it when the process ends, in whatever way, `kill -9` included. The keeper waits for the exclusive lock on the same
file, and having it, shuts the server down. Should the keeper itself be killed, the kernel ends the server.
"""

import ctypes
import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from typing import IO, Any

PR_SET_PDEATHSIG = 1
FAST_SHUTDOWN = signal.SIGINT
IMMEDIATE_SHUTDOWN = signal.SIGQUIT
GRACE_SECONDS = 30


def run(job: dict[str, Any]) -> int:
    """Runs `job["command"]` until `job["users_lock"]` has no user. Gives the server's exit status."""
    for ignored in (signal.SIGINT, signal.SIGHUP):
        signal.signal(ignored, signal.SIG_IGN)
    with open(job["keeper_lock"], "rb+") as mine, open(job["users_lock"], "rb+") as users:
        fcntl.flock(mine, fcntl.LOCK_EX)
        server = _start(job)
        signal.signal(signal.SIGTERM, lambda *_: server.send_signal(FAST_SHUTDOWN))
        threading.Thread(target=_stop_when_unused, args=(server, users), daemon=True).start()
        status = server.wait()
        if job["scratch"]:
            shutil.rmtree(job["scratch"], ignore_errors=True)
        # The locks are freed by the exit: until then nobody may start a server here.
        os._exit(status if status >= 0 else 128 - status)


def _start(job: dict[str, Any]) -> "subprocess.Popen[bytes]":
    keeper = os.getpid()
    libc = ctypes.CDLL(None) if sys.platform == "linux" else None

    def die_with_the_keeper() -> None:
        # Runs after the change of user, which would clear the setting. One thread, so it is safe to run Python here.
        for restored in (signal.SIGINT, signal.SIGHUP):
            signal.signal(restored, signal.SIG_DFL)
        if libc is not None:
            libc.prctl(PR_SET_PDEATHSIG, FAST_SHUTDOWN)
            if os.getppid() != keeper:
                os._exit(1)

    identity = {} if job["uid"] is None else {"user": job["uid"], "group": job["gid"], "extra_groups": []}
    return subprocess.Popen(  # noqa: S603 - a program of ours, without a shell
        job["command"],
        cwd=job["cwd"],
        env=job["env"],
        stdin=subprocess.DEVNULL,
        preexec_fn=die_with_the_keeper,  # noqa: PLW1509 - no thread has been started yet
        **identity,
    )


def _stop_when_unused(server: "subprocess.Popen[bytes]", users: IO[bytes]) -> None:
    fcntl.flock(users, fcntl.LOCK_EX)
    server.send_signal(FAST_SHUTDOWN)
    try:
        server.wait(GRACE_SECONDS)
    except subprocess.TimeoutExpired:
        server.send_signal(IMMEDIATE_SHUTDOWN)


if __name__ == "__main__":
    sys.exit(run(json.loads(sys.argv[1])))
