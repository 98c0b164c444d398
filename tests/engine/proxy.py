"""A wire to PostgreSQL that can be cut at the worst moment."""

import contextlib
import socket
import threading
from pathlib import Path

from sqlalchemy import URL, make_url


class Proxy:
    """Listens on loopback and hands everything to the server's socket.

    `cut_commits` COMMITs reach the server, and their answers nobody. With `deaf` no new connection gets through.
    While it is `hung` what is sent goes nowhere, and the connections stand.
    """

    def __init__(self, database_url: str) -> None:
        url = make_url(database_url)
        folder = url.query["host"]
        assert isinstance(folder, str)
        self._socket = Path(folder) / f".s.PGSQL.{url.query.get('port', url.port or 5432)}"
        self._listener = socket.create_server(("127.0.0.1", 0))
        port: int = self._listener.getsockname()[1]
        self.url = URL.create(
            "postgresql", url.username, host="127.0.0.1", port=port, database=url.database
        ).render_as_string(hide_password=False)
        self.cut_commits = 0
        self.deaf_after_cut = False
        self.deaf = False
        self.hung = False
        self.answered = threading.Event()
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                if self.deaf:
                    client.close()
                    continue
                server = socket.socket(socket.AF_UNIX)
                server.connect(str(self._socket))
                cut = threading.Event()
                threading.Thread(target=self._forward, args=(client, server, cut), daemon=True).start()
                threading.Thread(target=self._back, args=(server, client, cut), daemon=True).start()

    def _forward(self, client: socket.socket, server: socket.socket, cut: threading.Event) -> None:
        with contextlib.suppress(OSError):
            while data := client.recv(65536):
                if self.hung:
                    continue
                if self.cut_commits and b"COMMIT" in data:
                    self.cut_commits -= 1
                    self.deaf = self.deaf_after_cut
                    cut.set()
                server.sendall(data)
        server.close()

    def _back(self, server: socket.socket, client: socket.socket, cut: threading.Event) -> None:
        with contextlib.suppress(OSError):
            while data := server.recv(65536):
                if cut.is_set():
                    break
                client.sendall(data)
        self.answered.set()
        with contextlib.suppress(OSError):
            client.shutdown(socket.SHUT_RDWR)
        client.close()
        server.close()
