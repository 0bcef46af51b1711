"""A receiver of posts on this machine, which drops what it has had."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Receiver(ThreadingHTTPServer):
    """Keeps the rows of each idempotency key once, by path; answers what it was told to, then 200."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.accepted: dict[tuple[str, str], list[dict[str, Any]]] = {}
        self.requests: list[tuple[str, str]] = []
        self.answers: list[int] = []
        self.says = b"no room for you"
        self.headers: list[dict[str, str]] = []
        self.location = ""
        self.withheld = 0
        """So many bytes fewer are sent than a refusal announces."""

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.server_port}/{path}"

    def rows(self, path: str) -> list[dict[str, Any]]:
        return [row for (at, _), body in self.accepted.items() if at == f"/{path}" for row in body]


class _Handler(BaseHTTPRequestHandler):
    server: Receiver

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        key = (self.path, self.headers["Idempotency-Key"])
        self.server.headers.append(dict(self.headers))
        self.server.requests.append((key[1], self.headers.get("Authorization", "")))
        answer = self.server.answers.pop(0) if self.server.answers else 200
        if answer == 200:
            self.server.accepted.setdefault(key, body)
        self._answer(answer)

    def do_GET(self) -> None:
        self.server.headers.append(dict(self.headers))
        self._answer(200)

    def _answer(self, answer: int) -> None:
        says = b"" if answer == 200 else self.server.says
        self.send_response(answer)
        if self.server.location:
            self.send_header("Location", self.server.location)
        self.send_header("Content-Length", str(len(says) + self.server.withheld))
        self.end_headers()
        self.wfile.write(says)

    def log_message(self, *_: Any) -> None:
        """Nothing on standard error."""


@contextmanager
def receiving() -> Iterator[Receiver]:
    """Serve a receiver in a thread."""
    with Receiver() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()
