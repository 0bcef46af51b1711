"""Watch a run until it ends: a live view on a terminal, log lines elsewhere, Ctrl-C at an epoch boundary."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Protocol

from rich.console import Console
from rich.live import Live

from penstock.cli import numbers, view
from penstock.control.progress import Progress

if TYPE_CHECKING:
    from penstock.control.live_table import Shown

_POLL_S = 0.1
_LINE_EVERY_S = 2.0
ENDING = "ending at the epoch boundary; Ctrl-C again quits at once (nothing is lost, the epoch is repeated)"


class Run(Protocol):
    """What is shown: the part of a handle that the terminal needs."""

    @property
    def directory(self) -> Path: ...
    def progress(self) -> Progress | None: ...
    def history(self) -> Sequence[Progress]: ...
    def console(self) -> Sequence[str]: ...
    def poll(self, timeout_s: float) -> bool: ...
    def stop(self) -> None: ...


class Table(Protocol):
    """Results that are watched."""

    def look(self) -> Shown | None: ...


class Display(Protocol):
    """Where it is shown."""

    def show(self, seen: view.Seen, fresh: Sequence[Progress], waited_s: float, note: str) -> None: ...
    def results(self, shown: Shown) -> None: ...
    def say(self, text: str) -> None: ...
    def open(self) -> AbstractContextManager[object]: ...


@dataclass(slots=True)
class Wish:
    """Whether the user wants the run to end."""

    asked: int = 0

    def ask(self, _signal: int = 0, _frame: FrameType | None = None) -> None:
        """Remember the first wish; the second ends everything now."""
        self.asked += 1
        if self.asked > 1:
            raise KeyboardInterrupt


@dataclass(slots=True)
class Lines:
    """Plain lines, one every few seconds: for logs, pipes and CI."""

    console: Console
    _last_s: float = field(default=-1e9)

    def open(self) -> AbstractContextManager[object]:
        return nullcontext(self)

    def say(self, text: str) -> None:
        self.console.print(text, markup=False, highlight=False, soft_wrap=True)

    def show(self, seen: view.Seen, fresh: Sequence[Progress], waited_s: float, note: str) -> None:
        """Say what is new, not more often than every two seconds."""
        starting = seen.newest is None and self._last_s < 0
        if (fresh or starting) and waited_s - self._last_s >= _LINE_EVERY_S:
            self._last_s = waited_s
            self.say(f"{time.strftime('%H:%M:%S')}  {view.line(seen)}")

    def results(self, shown: Shown) -> None:
        """Not in a log: the table would fill it. The last state is printed at the end."""


class Screen:
    """A live view that redraws in place; lines of console sinks scroll above it."""

    def __init__(self, console: Console, name: str) -> None:
        self._name = name
        self._shown: Shown | None = None
        self._live = Live(console=console, refresh_per_second=8, transient=True)

    def open(self) -> AbstractContextManager[object]:
        return self._live

    def say(self, text: str) -> None:
        self._live.console.print(text, markup=False, highlight=False)

    def show(self, seen: view.Seen, fresh: Sequence[Progress], waited_s: float, note: str) -> None:
        """Draw it anew."""
        self._live.update(view.screen(self._name, seen, waited_s, note, self._shown))

    def results(self, shown: Shown) -> None:
        """Drawn with the next look."""
        self._shown = shown


def watch(
    run: Run,
    name: str | None = None,
    *,
    table: Table | None = None,
    console: Console | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> view.Seen:
    """Show the run until it ends; raise what failed it. Returns what was seen."""
    console = console or Console()
    display: Display = Screen(console, name or run.directory.name) if console.is_terminal else Lines(console)
    before = run.progress()  # of an earlier run in the same directory
    seen, began, note = view.Seen(after=before.epoch if before else -1), clock(), ""
    with display.open(), _wishes() as wish:
        ended = False
        while not ended:
            fresh = _news(run, seen)
            if fresh and table is not None and (shown := table.look()):
                display.results(shown)
            display.show(seen, fresh, clock() - began, note)
            ended = run.poll(_POLL_S)
            for text in run.console():
                display.say(text)
            if wish.asked and not note:
                note = ENDING
                display.say(note)
                run.stop()
        display.show(seen, _news(run, seen), clock() - began, note)
    if table is not None and (shown := table.look()):
        console.print(view.results(shown))
    return seen


def _news(run: Run, seen: view.Seen) -> Sequence[Progress]:
    """The epochs since the last look. The whole history is read only if one was missed in between."""
    newest = run.progress()
    if newest is None or newest.epoch < seen.expected:
        return []
    return seen.take([newest] if newest.epoch == seen.expected else run.history())


@contextmanager
def _wishes() -> Iterator[Wish]:
    """Turn Ctrl-C and a service manager's SIGTERM into a wish while this is open."""
    wish = Wish()
    if threading.current_thread() is not threading.main_thread():  # only the main thread gets signals
        yield wish
        return
    signals = (signal.SIGINT, signal.SIGTERM)
    before = [signal.signal(number, wish.ask) for number in signals]
    try:
        yield wish
    finally:
        for number, handler in zip(signals, before, strict=True):
            signal.signal(number, handler)


def summary(name: str, seen: view.Seen, directory: Path, results: Sequence[str]) -> str:
    """What a run did and where its results are."""
    newest = seen.newest
    if newest is None:
        did = f"{name}: no new epoch; there was nothing to read"
    else:
        did = (
            f"{name}: {numbers.count(seen.events)} events in {seen.count} epochs "
            f"and {numbers.time(seen.elapsed_ms)}, to epoch {newest.epoch} of version {newest.version}; "
            f"{numbers.count(newest.total_events)} in all; dead letters {seen.dead_letters}"
            + (f"; late events {numbers.count(seen.late_events)}" if seen.late_events else "")
        )
    where = [f"  {result}" for result in results]
    return "\n".join([did, *(["results:", *where] if where else []), f"run directory: {directory}"])
