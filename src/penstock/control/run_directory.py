"""Where a run keeps everything that must outlive it, and the versions of its topology.

Versions are immutable files; ``current`` names the one that the next epoch shall take. Which version an
epoch really ran under is in Spark's offset log, and nowhere else.
"""

from __future__ import annotations

import fcntl
import os
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any, Literal

import cloudpickle

from penstock.connect.private import make_private, open_private
from penstock.connect.sealed import DIGEST_BYTES, digest, read_sealed, write_sealed
from penstock.connect.sink import write_atomically
from penstock.control import fencing
from penstock.control.line_log import append_line
from penstock.control.progress import Progress
from penstock.control.upgrading import seal_if_older
from penstock.control.version_files import VersionFiles
from penstock.control.way_back import way_back
from penstock.errors import (
    ChangedMeanwhile,
    PenstockError,
    RunDirectoryBroken,
    RunDirectoryInUse,
    RunDirectoryMismatch,
)
from penstock.plan.program import Program

FORMAT = 2
READS = (1, 2)
"""Formats of earlier Penstocks that are brought to the present one (see ``control.upgrading``), and that."""
PROGRESS_BYTES = 16 << 20
_LOCK_PATIENCE_S = 0.5
_CHANGE_PATIENCE_S = 20.0
"""A change plans and writes two files; longer than this means that its process hangs or was stopped."""
_LATE_LINES = 8
Failed = Literal["code", "sink"]


@dataclass(frozen=True, slots=True)
class Origin:
    """Who made a version current, and which apps were started with a topology equal to it."""

    made_by: str
    at_ns: int
    apps: tuple[str, ...] = ()
    """By the identity of the app (see ``control.adoption``)."""

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Origin:
        """Return the origin in the values of ``current``."""
        return cls(str(values["made_by"]), int(values["at_ns"]), tuple(values["apps"]))


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
    def moving(self) -> Path:
        """State on its way from one hop to another (see ``spark.state_moves``)."""
        return self.path / "moving"

    @property
    def sink_places(self) -> Path:
        """Where sinks have written (see ``control.sink_places``)."""
        return self.path / "sink-places"

    @property
    def console_log(self) -> Path:
        return self.path / "console.log"

    @property
    def incidents(self) -> Path:
        return self.path / "incidents.jsonl"

    def open(self, topology: str) -> str:
        """Make the folder, or check that it is this topology's. Gives the run's id."""
        make_private(self.path)
        card = self.path / "run.json"
        if not card.exists():
            if self.checkpoint.exists():
                raise RunDirectoryMismatch(
                    directory=self.path,
                    what="has a checkpoint but no run.json",
                    next_step="restore run.json, or choose another place with --dir",
                )
            self.write_card({"topology": topology, "run_id": uuid.uuid4().hex})
        values = self.read_card()
        if values["topology"] != topology:
            raise RunDirectoryMismatch(
                directory=self.path,
                what=f"belongs to topology '{values['topology']}', not '{topology}'",
                next_step="choose another place with --dir",
            )
        return str(values["run_id"])

    def read_card(self) -> dict[str, Any]:
        """Whose run this is. Raises FileNotFoundError if it is nobody's."""
        seal_if_older(self.path, FORMAT)
        values = read_sealed(self.path / "run.json", next_step=way_back(self.path))
        if values.get("format") != FORMAT:
            raise RunDirectoryMismatch(
                directory=self.path,
                what=f"has a run.json of format {values.get('format')}; this Penstock reads {FORMAT}",
                next_step="go on with the Penstock that made it, or choose another place with --dir",
            )
        return values

    def require_card(self) -> None:
        """Raise RunDirectoryMismatch if nobody has run here."""
        try:
            self.read_card()
        except FileNotFoundError:
            step = "name the directory of a run (--dir)"
            raise RunDirectoryMismatch(directory=self.path, what="holds no run", next_step=step) from None

    def topology(self) -> str:
        """Return the name of the run's topology; of the folder if the card cannot be read."""
        try:
            return str(self.read_card()["topology"])
        except (FileNotFoundError, PenstockError):
            return self.path.name

    def write_card(self, values: Mapping[str, Any]) -> None:
        write_sealed(self.path / "run.json", {"format": FORMAT, **values})

    def fabric(self) -> dict[str, int] | None:
        """The number of hops and state partitions; None before the first start."""
        values = self._read_small(self.path / "fabric.json")
        return None if values is None else {name: values[name] for name in ("hops", "partitions")}

    def write_fabric(self, *, hops: int, partitions: int) -> None:
        write_sealed(self.path / "fabric.json", {"hops": hops, "partitions": partitions})

    def lock(self, *, take_over: bool = False) -> IO[str]:
        """Keep other runners out for as long as the answer is open.

        Taking over leaves the lock of a runner that hangs behind; its fencing token is void as soon as the
        new runner has one (see ``begin_term``).
        """
        if take_over:
            (self.path / "lock").unlink(missing_ok=True)
        file = open(self.path / "lock", "a+", opener=open_private)  # noqa: SIM115 - it stays open as long as the run lives
        if not _locked(file):
            file.seek(0)
            pid = file.read().strip() or "unknown"
            file.close()
            raise RunDirectoryInUse(directory=self.path, pid=pid)
        _note_holder(file)
        return file

    def begin_term(self) -> str:
        """Begin to write here and return the fencing token: runners with earlier ones are refused now."""
        return fencing.begin(self.path / "terms", self.path / "token.json")

    def term(self) -> str:
        """Return the newest fencing token; an empty text before the first."""
        return fencing.newest_token(self.path / "terms")

    def require_term(self, term: str) -> None:
        """Raise Fenced if a newer runner has begun, and RunDirectoryBroken if the tokens are lost."""
        fencing.require_newest(self.path / "terms", term, self.path)

    def hold(self, term: str) -> Path:
        """While this file is there, the runner with the fencing token begins no new epoch."""
        return self.path / f"hold-{term}"

    def end_holds(self) -> None:
        """Let epochs begin: those who wanted none have ended."""
        for path in self.path.glob("hold-[0-9]*"):
            path.unlink(missing_ok=True)

    @property
    def version_files(self) -> VersionFiles:
        return VersionFiles(self.path / "versions")

    def versions(self) -> list[int]:
        return self.version_files.numbers()

    def current(self) -> int:
        """The version that the next epoch shall take; 0: none yet."""
        values = self._read_small(self.path / "current")
        return 0 if values is None else int(values["version"])

    def origin(self) -> Origin | None:
        """Return who made the current version; None if that was not recorded."""
        values = self._read_small(self.path / "current")
        return None if values is None or "made_by" not in values else Origin.of(values)

    @contextmanager
    def changing(self) -> Iterator[None]:
        """Keep all others from making a version, in this process and in others, for the body.

        Raises ChangedMeanwhile if another change does not end in time.
        """
        self.path.mkdir(parents=True, exist_ok=True)
        with open(self.path / "changing", "a+", opener=open_private) as file:
            if not _locked(file, patience_s=_CHANGE_PATIENCE_S):
                file.seek(0)
                pid = file.read().strip() or "unknown"
                raise ChangedMeanwhile(
                    directory=self.path,
                    what=f"process {pid} is making a change and does not come to its end",
                    next_step="end it or wake it, and try again; a change that was broken off is ignored",
                )
            _note_holder(file)
            yield

    def next_version(self) -> int:
        """Return a number that no version has. Versions whose making was broken off keep theirs."""
        return max(self.versions(), default=0) + 1

    def store(self, version: int, program: Program, *, like: int | None = None) -> None:
        """Write a version, for good; ``like`` is the version that the program's nodes are from, if any."""
        self.version_files.store(version, program, like=like)

    def make_current(self, version: int, origin: Origin | None = None) -> None:
        """Let the next epoch take a version. The file is replaced in one step."""
        values = {} if origin is None else asdict(origin)
        write_sealed(self.path / "current", {"version": version, **values})

    def load(self, version: int) -> Program:
        """Read a version. Raises VersionNotLoadable if this Python cannot (see ``control.rebuilding``)."""
        return self.version_files.load(version)

    def record_failure(self, error: PenstockError) -> None:
        """Leave an error where the runner finds it, past Spark's own wrapping."""
        body = cloudpickle.dumps(error)
        write_atomically(self.failures / "last.pickle", digest(body) + body)

    def take_failure(self) -> PenstockError | None:
        """The error that a worker left, once."""
        path = self.failures / "last.pickle"
        try:
            content = path.read_bytes()
        except FileNotFoundError:
            return None
        path.unlink()
        body = _opened(content)
        try:
            error = None if body is None else cloudpickle.loads(body)
        except Exception:  # noqa: BLE001 - another Python left it, of a run that is being started again
            return None
        return error if isinstance(error, PenstockError) else None

    def append_progress(self, progress: Progress) -> None:
        """Add a line to the log; the older half of a long log is let go."""
        if self.progress_log.exists() and self.progress_log.stat().st_size > PROGRESS_BYTES:
            self.progress_log.replace(self.path / "progress.before.jsonl")
        append_line(self.progress_log, progress.to_json().encode())

    def last_progress(self) -> Progress | None:
        """The newest line of the log, without reading all of it.

        A runner that was replaced may have added a line late, so the newest fencing token among the last
        lines counts.
        """
        for path in (self.progress_log, self.path / "progress.before.jsonl"):
            try:
                with open(path, "rb") as file:
                    file.seek(max(0, file.seek(0, os.SEEK_END) - 65_536))
                    lines = file.read().splitlines()
            except FileNotFoundError:
                continue
            last = [progress for line in lines[-_LATE_LINES:] if (progress := read_progress(line))]
            if not last:
                last = [progress for line in lines if (progress := read_progress(line))][-1:]
            if last:
                return max(reversed(last), key=lambda progress: progress.fence)
        return None

    def be_careful(self, epoch: int) -> None:
        """Have the user's code tried elsewhere first when this epoch is run again: it killed a worker."""
        write_atomically(self.path / "careful", str(epoch).encode())

    def read_careful(self) -> int | None:
        """The epoch that killed a worker, if one did."""
        return _read_number(self.path / "careful")

    def note_failed(self, epoch: int, what: Failed) -> None:
        """Remember that the user's code failed in this epoch, or a sink: a mended topology may run it."""
        write_atomically(self.path / "failed", f"{epoch} {what}".encode())

    def read_failed(self) -> tuple[int, Failed] | None:
        """The epoch that failed last, and what did, if it has not come to its commit since."""
        try:
            epoch, what = (self.path / "failed").read_text().split()
            return int(epoch), "sink" if what == "sink" else "code"
        except (FileNotFoundError, ValueError):
            return None

    def forget_failures(self) -> None:
        """An epoch has come to its commit: what failed before it did is over."""
        for path in (self.path / "failed", self.failures / "last.pickle"):
            path.unlink(missing_ok=True)

    def read_observed(self) -> dict[str, int]:
        """The greatest event time of each source in the committed epochs."""
        step = "delete it: windows close somewhat later then, until it is written again"
        try:
            return read_sealed(self.observed, next_step=step)
        except FileNotFoundError:
            return {}

    def write_observed(self, times: Mapping[str, int]) -> None:
        write_sealed(self.observed, times)

    def _read_small(self, path: Path) -> dict[str, Any] | None:
        """A file that every run has after its first start; None before that."""
        try:
            return read_sealed(path, next_step=way_back(self.path))
        except FileNotFoundError:
            if not any((self.checkpoint / "offsets").glob("[0-9]*")):
                return None
        raise RunDirectoryBroken(path=path, what="is missing", next_step=way_back(self.path))


def read_progress(line: bytes) -> Progress | None:
    """A line of the progress log; None for one that a crash has torn."""
    try:
        return Progress.from_json(line.decode())
    except (ValueError, TypeError, KeyError, AttributeError):
        return None


def _locked(file: IO[str], *, patience_s: float = _LOCK_PATIENCE_S) -> bool:
    """Lock a file; whoever looks whether a run lives has its lock for a moment, which is waited for."""
    deadline = time.monotonic() + patience_s
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except OSError:
            if time.monotonic() > deadline:
                return False
            time.sleep(_LOCK_PATIENCE_S / 20)


def _note_holder(file: IO[str]) -> None:
    """Write down which process has a lock, for those that it keeps out."""
    file.truncate(0)
    file.write(str(os.getpid()))
    file.flush()


def _opened(content: bytes) -> bytes | None:
    """What follows its digest; None if it is damaged."""
    body = content[DIGEST_BYTES:]
    return body if digest(body) == content[:DIGEST_BYTES] else None


def _read_number(path: Path) -> int | None:
    try:
        return int(path.read_text())
    except (FileNotFoundError, ValueError):
        return None
