"""The peak memory of a process and everything that it started."""

from __future__ import annotations

import re
import threading
from pathlib import Path
from types import TracebackType

import psutil

_PSS = re.compile(rb"^Pss:\s+(\d+) kB", re.MULTILINE)


class PeakMemory:
    """Samples all processes of a tree together in a thread; ``bytes`` is the greatest sum.

    Uses the proportional set size where the system shows it, so that pages shared by forked workers count
    once; otherwise the resident set size. The system walks all pages to tell it, so samples are rare.
    """

    def __init__(self, root: int, every_s: float = 1.0) -> None:
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
        while True:
            self.bytes = max(self.bytes, tree_bytes(self._root))
            if self._ended.wait(self._every_s):
                return


def tree_bytes(root: int) -> int:
    """Memory of a process and its descendants now; 0 when it is gone."""
    try:
        process = psutil.Process(root)
        pids = [root, *(child.pid for child in process.children(recursive=True))]
    except psutil.NoSuchProcess:
        return 0
    return sum(map(process_bytes, pids))


def process_bytes(pid: int) -> int:
    """Memory of one process now; 0 when it is gone."""
    try:
        found = _PSS.search(Path(f"/proc/{pid}/smaps_rollup").read_bytes())
        if found:
            return int(found[1]) * 1024
    except OSError:
        pass  # gone, another user's, or another system: the resident size is what is left
    try:
        return int(psutil.Process(pid).memory_info().rss)
    except psutil.Error:
        return 0
