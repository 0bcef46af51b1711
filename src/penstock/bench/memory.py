"""The peak memory of a process and everything that it started."""

from __future__ import annotations

import re
import threading
from pathlib import Path
from types import TracebackType

import psutil

_NEW_HIGH = 1.02
_PSS = re.compile(rb"^Pss:\s+(\d+) kB", re.MULTILINE)


class PeakMemory:
    """Samples all processes of a tree together in a thread; ``bytes`` is the greatest sum.

    Uses the proportional set size where the system shows it, so that pages shared by forked workers count
    once; otherwise the resident set size. To tell the former the system walks all pages, 7 % of a core when
    done every second: it is asked only when the latter, which costs next to nothing, reaches a new high.
    """

    def __init__(self, root: int, every_s: float = 0.5) -> None:
        self.bytes = 0
        self._root = root
        self._every_s = every_s
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._sample, name="peak-memory", daemon=True)

    def __enter__(self) -> PeakMemory:
        self._thread.start()
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self._ended.set()
        self._thread.join()

    def _sample(self) -> None:
        highest = 0
        while True:
            pids = tree(self._root)
            resident = sum(map(resident_bytes, pids))
            if resident > highest * _NEW_HIGH:
                highest = resident
                self.bytes = max(self.bytes, sum(map(process_bytes, pids)))
            if self._ended.wait(self._every_s):
                return


def tree(root: int) -> list[int]:
    """A process and its descendants now; nothing when it is gone."""
    try:
        return [root, *(child.pid for child in psutil.Process(root).children(recursive=True))]
    except psutil.NoSuchProcess:
        return []


def process_bytes(pid: int) -> int:
    """Memory of one process now, its part of what it shares; 0 when it is gone."""
    try:
        found = _PSS.search(Path(f"/proc/{pid}/smaps_rollup").read_bytes())
        if found:
            return int(found[1]) * 1024
    except OSError:
        pass  # gone, another user's, or another system: the resident size is what is left
    return resident_bytes(pid)


def resident_bytes(pid: int) -> int:
    """Memory of one process now, with all that it shares; 0 when it is gone."""
    try:
        return int(psutil.Process(pid).memory_info().rss)
    except psutil.Error:
        return 0
