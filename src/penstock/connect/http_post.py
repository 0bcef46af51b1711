"""Rows as JSON to a receiver on the web, which can tell what it has had."""

from __future__ import annotations

import shutil
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from http.client import HTTPException
from itertools import islice
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from penstock.connect.durations import microseconds
from penstock.connect.json_lines import JsonLinesWriter
from penstock.connect.sealed import read_sealed
from penstock.connect.sink import Sink, SinkContext, file_name, join_if_absent, put_if_absent
from penstock.errors import BadArgument, SinkRefused, SinkUnavailable

_PASSING = frozenset({408, 409, 425, 429, *range(500, 600)})
"""Answers after which the same request may be accepted later."""
_FIRST_WAIT_S, _LONGEST_WAIT_S = 0.1, 5.0
_SHOWN_BYTES = 300


@dataclass(frozen=True, slots=True, init=False)
class Http(Sink):
    """POST the rows of each epoch as JSON arrays of at most ``rows_per_post`` objects.

    Every request has a header ``Idempotency-Key``: topology run, sink, epoch and part. An epoch that is
    repeated after a crash sends the same bytes under the same keys, so a receiver that drops keys it has
    accepted gets each row exactly once, and one that does not, at least once. Requests come one after the
    other, in the order of epochs and parts; an epoch without rows sends none.

    A receiver that cannot be reached or answers 408, 409, 425, 429 or 5xx is asked again, for ``patience``;
    then the sink is unavailable, and a supervised run waits and repeats the epoch. Any 2xx accepts; any other
    answer is a refusal, which ends the run with its words.
    """

    url: str
    headers: tuple[tuple[str, str], ...]
    rows_per_post: int
    patience_us: int
    timeout_us: int

    def __init__(
        self,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        rows_per_post: int = 1_000,
        patience: str | timedelta = "30s",
        timeout: str | timedelta = "10s",
    ) -> None:
        set_ = object.__setattr__
        set_(self, "url", url)
        set_(self, "headers", tuple((headers or {}).items()))
        set_(self, "rows_per_post", rows_per_post)
        set_(self, "patience_us", microseconds(patience, where="Http", what="patience"))
        set_(self, "timeout_us", microseconds(timeout, where="Http", what="timeout"))
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            allowed = "an address such as https://host:8443/signals"
            raise BadArgument(where="Http", what="url", got=repr(url), allowed=allowed)
        if rows_per_post < 1 or not self.timeout_us:
            got = f"rows_per_post={rows_per_post}, timeout={timeout!r}"
            raise BadArgument(where="Http", what="an argument", got=got, allowed="more than 0")

    def open(self, context: SinkContext) -> JsonLinesWriter:
        """Begin a pending part."""
        return JsonLinesWriter(_pending(context), context)

    def commit(self, context: SinkContext, messages: Sequence[Any]) -> None:
        """Send the epoch, unless that has been done."""
        folder = _folder(context)
        if context.epoch > _newest(folder):
            self._send(context, self._body(context, messages))
            _note_sent(folder, context.epoch)
        (folder / _name(context)).unlink(missing_ok=True)
        shutil.rmtree(_pending(context), ignore_errors=True)

    def describe(self) -> str:
        """One line for people."""
        return f"Http({self.url})"

    def _body(self, context: SinkContext, messages: Sequence[Any]) -> Path:
        """The lines of the epoch. Kept before they are sent: a repetition may be cut in another way."""
        kept = _folder(context) / _name(context)
        if not kept.exists():
            parts = [_pending(context) / name for name in messages if name is not None]
            join_if_absent(kept, parts)
        return kept

    def _send(self, context: SinkContext, body: Path) -> None:
        for number, rows in enumerate(_arrays(body, self.rows_per_post)):
            key = f"{context.app_id}/{context.epoch}/{number}"
            self._post(context.sink, rows, key)

    def _post(self, sink: str, rows: bytes, key: str) -> None:
        """Ask until it is accepted. Raises SinkRefused, or SinkUnavailable when patience ends."""
        headers = {**dict(self.headers), "Content-Type": "application/json", "Idempotency-Key": key}
        request = urllib.request.Request(self.url, rows, headers, method="POST")
        deadline, wait = time.monotonic() + self.patience_us / 1e6, _FIRST_WAIT_S
        while True:
            try:
                with urllib.request.urlopen(request, timeout=self.timeout_us / 1e6):
                    return
            except urllib.error.HTTPError as error:
                fault = f"the receiver answered {error.code} {error.reason}"
                says = _words(error)
                if error.code not in _PASSING:
                    what = f"{fault} ({says})" if says else fault
                    step = "mend address, headers or receiver and run again: the epoch is repeated"
                    raise SinkRefused(sink=sink, what=what, where=self.url, next_step=step) from None
            except OSError as error:
                fault = f"the receiver cannot be reached ({error})"
            if time.monotonic() + wait > deadline:
                step = "the epoch is repeated once the receiver accepts it; look at its log"
                raise SinkUnavailable(sink=sink, what=fault, where=self.url, next_step=step)
            time.sleep(wait)
            wait = min(2 * wait, _LONGEST_WAIT_S)


def _words(answer: urllib.error.HTTPError) -> str:
    """How the text of an answer begins; nothing if it does not come."""
    with answer, suppress(OSError, HTTPException):
        return answer.read(_SHOWN_BYTES).decode("utf-8", "replace").strip()
    return ""


def _arrays(path: Path, most: int) -> Iterator[bytes]:
    """JSON lines as JSON arrays."""
    with path.open("rb") as lines:
        while rows := [line.rstrip(b"\n") for line in islice(lines, most)]:
            yield b"[%s]" % b",\n".join(rows)


def _folder(context: SinkContext) -> Path:
    return context.run_dir / "http" / file_name(context.sink) / file_name(context.run_id)


def _pending(context: SinkContext) -> Path:
    return _folder(context) / "pending" / f"{context.epoch:012d}"


def _name(context: SinkContext) -> str:
    return f"{context.epoch:012d}.jsonl"


def _note_sent(folder: Path, epoch: int) -> None:
    """Note that an epoch was accepted. The newest note counts: a replaced runner may add an older one."""
    sent = folder / "sent"
    put_if_absent(sent / f"{epoch:012d}", b"")
    for earlier in sorted(sent.glob("[0-9]*"))[:-2]:
        earlier.unlink(missing_ok=True)


def _newest(folder: Path) -> int:
    """The newest epoch that was accepted; -1 if none was."""
    return max((int(path.name) for path in (folder / "sent").glob("[0-9]*")), default=_newest_before(folder))


def _newest_before(folder: Path) -> int:
    """Return the newest epoch that an earlier Penstock has noted; -1 if it has noted none."""
    step = "delete it: an epoch that was sent and not committed is then sent again, under the same keys"
    try:
        return int(read_sealed(folder / "newest.json", next_step=step)["epoch"])
    except FileNotFoundError:
        return -1
