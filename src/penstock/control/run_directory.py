"""Where a run keeps everything that must outlive it, and the versions of its topology.

Versions are immutable files; ``current`` names the one that the next epoch shall take. Which version an
epoch really ran under is in Spark's offset log, and nowhere else.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import sys
import uuid
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import IO, Any

import cloudpickle

from penstock.connect.sink import write_atomically
from penstock.control.progress import Progress
from penstock.control.shipping import dumps
from penstock.errors import Fenced, PenstockError, RunDirectoryInUse, RunDirectoryMismatch
from penstock.plan.program import Program
from penstock.topology.codec import to_json

FORMAT = 1
PROGRESS_BYTES = 16 << 20
_DIGEST_BYTES = 16


@dataclass(frozen=True, slots=True)
class RunDirectory:
    """The folder of a run, by its parts."""

    path: Path

    @property
    def checkpoint(self) -> Path:
        return self.path / "checkpoint"

    @property
    def failures(self) -> Path:
        return self.path / "failures"

    @property
    def dead_letters(self) -> Path:
        return self.path / "dead-letters"

    @property
    def planners(self) -> Path:
        return self.path / "planners"

    @property
    def progress_log(self) -> Path:
        return self.path / "progress.jsonl"

    @property
    def observed(self) -> Path:
        return self.path / "observed.json"

    @property
    def handover(self) -> Path:
        """Payloads of epochs that are not committed yet (see ``spark.handover``)."""
        return self.path / "handover"

    @property
    def hold(self) -> Path:
        """While this file is there, no new epoch begins."""
        return self.path / "hold"

    @property
    def console_log(self) -> Path:
        return self.path / "console.log"

    @property
    def incidents(self) -> Path:
        return self.path / "incidents.jsonl"

    def open(self, topology: str) -> str:
        """Make the folder, or check that it is this topology's. Gives the run's id."""
        self.path.mkdir(parents=True, exist_ok=True)
        card = self.path / "run.json"
        if not card.exists():
            if self.checkpoint.exists():
                raise RunDirectoryMismatch(
                    directory=self.path,
                    what="has a checkpoint but no run.json",
                    next_step="restore run.json, or choose another place with --dir",
                )
            values = {"format": FORMAT, "topology": topology, "run_id": uuid.uuid4().hex}
            write_atomically(card, json.dumps(values).encode())
        values = _read_card(card)
        if values["topology"] != topology:
            raise RunDirectoryMismatch(
                directory=self.path,
                what=f"belongs to topology '{values['topology']}', not '{topology}'",
                next_step="choose another place with --dir",
            )
        return str(values["run_id"])

    def lock(self, *, take_over: bool = False) -> IO[str]:
        """Keep other runners out for as long as the answer is open.

        Taking over leaves the lock of a runner that hangs behind; its term is over (see ``begin_term``).
        """
        if take_over:
            (self.path / "lock").unlink(missing_ok=True)
        file = open(self.path / "lock", "a+")  # noqa: SIM115 - it stays open as long as the run lives
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            file.seek(0)
            pid = file.read().strip() or "unknown"
            file.close()
            raise RunDirectoryInUse(directory=self.path, pid=pid) from None
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        return file

    def begin_term(self) -> int:
        """Begin to write here: runners of earlier terms are refused from now on."""
        folder = self.path / "terms"
        folder.mkdir(exist_ok=True)
        while True:
            term = self.term() + 1
            try:
                (folder / f"{term:012d}").touch(exist_ok=False)
            except FileExistsError:  # another runner was quicker: it is older than this one now
                continue
            for earlier in sorted(folder.iterdir())[:-2]:
                earlier.unlink(missing_ok=True)
            return term

    def term(self) -> int:
        """The newest term; 0 before the first."""
        return max((int(path.name) for path in (self.path / "terms").glob("[0-9]*")), default=0)

    def require_term(self, term: int) -> None:
        """Raise Fenced if a newer runner has begun."""
        newest = self.term()
        if newest != term:
            raise Fenced(directory=self.path, newest=newest, mine=term)

    def versions(self) -> list[int]:
        return sorted(int(path.stem) for path in (self.path / "versions").glob("*.program"))

    def current(self) -> int:
        """The version that the next epoch shall take; 0: none yet."""
        try:
            return int((self.path / "current").read_text())
        except FileNotFoundError:
            return 0

    def store(self, version: int, program: Program) -> None:
        """Write a version, for good."""
        body = dumps(program, search_path=[p for p in sys.path if p])
        digest = hashlib.blake2b(body, digest_size=_DIGEST_BYTES).digest()
        write_atomically(self._version_file(version), digest + body)
        text = json.dumps(to_json(program.graph), indent=1)
        write_atomically(self.path / "versions" / f"{version:06d}.json", text.encode())

    def make_current(self, version: int) -> None:
        write_atomically(self.path / "current", str(version).encode())

    def load(self, version: int) -> Program:
        """Read a version; it is checked against its digest."""
        path = self._version_file(version)
        try:
            status = path.stat()
        except FileNotFoundError:
            raise RunDirectoryMismatch(
                directory=self.path,
                what=f"has no version {version}",
                next_step="restore the file from a copy",
            ) from None
        return _load(str(path), (status.st_ino, status.st_size, status.st_mtime_ns))

    def record_failure(self, error: PenstockError) -> None:
        """Leave an error where the runner finds it, past Spark's own wrapping."""
        write_atomically(self.failures / "last.pickle", cloudpickle.dumps(error))

    def take_failure(self) -> PenstockError | None:
        """The error that a worker left, once."""
        path = self.failures / "last.pickle"
        try:
            error = cloudpickle.loads(path.read_bytes())
        except FileNotFoundError:
            return None
        path.unlink()
        return error if isinstance(error, PenstockError) else None

    def append_progress(self, progress: Progress) -> None:
        """Add a line to the log; the older half of a long log is let go."""
        if self.progress_log.exists() and self.progress_log.stat().st_size > PROGRESS_BYTES:
            self.progress_log.replace(self.path / "progress.before.jsonl")
        with open(self.progress_log, "a+b") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - 1))
            torn = file.read() not in (b"", b"\n")  # a crash left half a line: it must not spoil this one
            file.write(b"\n" * torn + progress.to_json().encode() + b"\n")

    def last_progress(self) -> Progress | None:
        """The newest line of the log, without reading all of it."""
        for path in (self.progress_log, self.path / "progress.before.jsonl"):
            try:
                with open(path, "rb") as file:
                    file.seek(max(0, file.seek(0, os.SEEK_END) - 65_536))
                    lines = file.read().splitlines()
            except FileNotFoundError:
                continue
            for line in reversed(lines):
                if progress := read_progress(line):
                    return progress
        return None

    def read_observed(self) -> dict[str, int]:
        """The greatest event time of each source in the committed epochs."""
        try:
            values: dict[str, int] = json.loads(self.observed.read_text())
        except FileNotFoundError:
            return {}
        return values

    def _version_file(self, version: int) -> Path:
        return self.path / "versions" / f"{version:06d}.program"


def read_progress(line: bytes) -> Progress | None:
    """A line of the progress log; None for one that a crash has torn."""
    try:
        return Progress.from_json(line.decode())
    except (ValueError, TypeError, KeyError, AttributeError):
        return None


def _read_card(card: Path) -> dict[str, Any]:
    try:
        values: dict[str, Any] = json.loads(card.read_text())
        known = values["format"] == FORMAT and {"topology", "run_id"} <= values.keys()
    except (ValueError, TypeError, KeyError, AttributeError):
        known = False
    if not known:
        raise RunDirectoryMismatch(
            directory=card.parent,
            what=f"has a run.json that this version (format {FORMAT}) cannot read",
            next_step="restore run.json, or choose another place with --dir",
        )
    return values


@lru_cache(maxsize=16)
def _load(path: str, identity: tuple[int, ...]) -> Program:
    """The program in a file; ``identity`` tells a file from another one in its place."""
    content = Path(path).read_bytes()
    digest, body = content[:_DIGEST_BYTES], content[_DIGEST_BYTES:]
    if hashlib.blake2b(body, digest_size=_DIGEST_BYTES).digest() != digest:
        raise RunDirectoryMismatch(
            directory=path,
            what="is damaged: its digest does not fit",
            next_step="restore the file from a copy, or make this version again by changing the topology",
        )
    values: dict[str, Any] = cloudpickle.loads(body)
    for entry in values["search_path"]:
        if entry not in sys.path and Path(entry).is_dir():
            sys.path.append(entry)
    program: Program = cloudpickle.loads(values["program"])
    return program
