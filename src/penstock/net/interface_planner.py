"""Cuts the spool of a live capture into epochs, and removes what was read."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.connect.file_pieces import place_of
from penstock.connect.source import Backlog, Limit, Offset, SourcePlanner, Split
from penstock.errors import SourceUnavailable
from penstock.net.live import read_captured, read_failure, spool_of
from penstock.net.planner import PcapPlanner

if TYPE_CHECKING:
    from penstock.net.interface import Interface

_LOST = {
    "dropped": "the kernel dropped them, because this machine was too slow to take them",
    "refused": "the spool was full; raise spool_bytes, or make the topology faster",
}
_FORGET_AT = 1_000
"""So many removed files are dropped from the index together: each time it is written anew."""


class InterfacePlanner(SourcePlanner):
    """A planner of captures that knows which of them may go.

    Its offsets hold how many packets had been lost by then, so each loss is told exactly once.
    """

    def __init__(self, source: Interface, state_dir: Path) -> None:
        self._source = source
        self._state_dir = state_dir
        self._spool = spool_of(state_dir)
        self._spool.mkdir(parents=True, exist_ok=True)
        self._inner = PcapPlanner(source.packets.at(self._spool), state_dir)
        self._read_to = 0
        self._candidates: set[str] = set()
        self._removed: set[str] = set()

    def initial(self) -> Offset:
        return {**self._inner.initial(), **dict.fromkeys(_LOST, 0)}

    def latest(self, start: Offset, limit: Limit) -> Offset:
        if failure := read_failure(self._state_dir):
            step = "mend that and run again: it goes on with what was captured"
            what = f"the capture has ended ({failure})"
            raise SourceUnavailable(
                source="interface", what=what, where=self._source.interface, next_step=step
            )
        captured = read_captured(self._state_dir)
        lost = {name: max(start[name], getattr(captured, name)) for name in _LOST}
        return {**self._inner.latest(start, limit), **lost}

    def splits(self, start: Offset, end: Offset, parallelism: int) -> list[Split]:
        lost = [(end[name] - start[name], why) for name, why in _LOST.items() if end[name] > start[name]]
        found = self._inner.splits(start, end, parallelism)
        if lost and not found:
            found = [Split(place_of(start["file"], start["position"]), {"pieces": []})]
        return [
            replace(split, body={**split.body, "lost": [] if i else [list(each) for each in lost]})
            for i, split in enumerate(found)
        ]

    def commit(self, end: Offset) -> None:
        """Remove files of which all was read and to which nothing will be added."""
        index = self._inner.files.index
        begin = max(self._read_to, index.base)
        self._candidates.update(index[number].path for number in range(begin, end["file"]))
        self._read_to = max(self._read_to, end["file"])
        waiting = {index[number].path for number in range(end["file"], len(index))}
        newest = max((path.name for path in self._spool.glob("*.pcap")), default="")
        for name in sorted(self._candidates - waiting):
            path, entry = self._spool / name, index.latest(name)
            size = path.stat().st_size if path.exists() else None
            if name < newest and entry is not None and entry.kind == "taken" and size in (entry.size, None):
                path.unlink(missing_ok=True)
                self._candidates.discard(name)
                self._removed.add(name)
        if len(self._removed) >= _FORGET_AT:
            index.forget(end["file"], frozenset(self._removed))
            self._removed.clear()

    def backlog(self, offset: Offset) -> Backlog:
        return self._inner.backlog(offset)

    def punctuation(self, offset: Offset, observed: int | None) -> int | None:
        return self._inner.punctuation(offset, observed)
