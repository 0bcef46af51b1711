"""The live view: progress in, text out."""

from __future__ import annotations

import io
import os
import re
import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from rich.console import Console

from penstock.cli import live, view
from penstock.control.progress import NodeProgress, Progress
from penstock.errors import StreamFailed

SECOND_NS = 1_000_000_000
NODES = (
    NodeProgress("clicks", "source", rows_out=500_000, busy_ms=80.0),
    NodeProgress("customers", "process", rows_in=50_000, rows_out=50_000, busy_ms=120.0, state_bytes=3 << 20),
)


def epoch(number: int, *, events: int = 500_000, dead: int = 0, lag: int | None = 1200) -> Progress:
    return Progress(
        epoch=number,
        version=2,
        events=events,
        total_events=events * (number + 1),
        epoch_ms=500.0,
        at_ns=number * SECOND_NS,
        lag_rows=lag,
        dead_letters=dead,
        nodes=NODES,
    )


@dataclass
class ScriptedRun:
    """A run that commits an epoch per poll and ends after the last."""

    epochs: Sequence[Progress]
    directory: Path = Path("run")
    said: list[str] = field(default_factory=list)
    earlier: Sequence[Progress] = ()
    per_poll: int = 1
    fails: Exception | None = None
    endless: bool = False
    on_poll: Callable[[int], None] = lambda polls: None
    polls: int = 0
    stopped: bool = False

    def progress(self) -> Progress | None:
        return self.history()[-1] if self.history() else None

    def history(self) -> list[Progress]:
        return [*self.earlier, *self.epochs[: self.polls * self.per_poll]]

    def console(self) -> list[str]:
        said, self.said = self.said, []
        return said

    def poll(self, timeout_s: float) -> bool:
        self.polls += 1
        self.on_poll(self.polls)
        if self.fails and self.polls >= len(self.epochs):
            raise self.fails
        return self.stopped if self.endless else self.polls >= len(self.epochs)

    def stop(self) -> None:
        self.stopped = True


def shown(run: ScriptedRun, *, terminal: bool) -> str:
    ticks = iter(range(0, 10_000, 3))
    console = Console(file=io.StringIO(), force_terminal=terminal, width=110, color_system=None)
    live.watch(run, "shop", console=console, clock=lambda: float(next(ticks)))
    return console.file.getvalue()  # type: ignore[attr-defined]


def watched(run: ScriptedRun) -> view.Seen:
    return live.watch(run, "shop", console=Console(file=io.StringIO(), force_terminal=False))


def drawn(seen: view.Seen, *, waited_s: float = 0.0, note: str = "") -> str:
    console = Console(file=io.StringIO(), width=110, color_system=None)
    console.print(view.screen("shop", seen, waited_s, note))
    return console.file.getvalue()  # type: ignore[attr-defined]


def saw(*epochs: Progress) -> view.Seen:
    seen = view.Seen()
    seen.take(epochs)
    return seen


def test_before_the_first_epoch_the_view_says_what_is_going_on() -> None:
    text = drawn(view.Seen(), waited_s=4)
    assert "the first epoch takes 5 to 12 seconds" in text
    assert "4 s so far" in text


def test_the_view_shows_rate_total_lag_epoch_version_and_dead_letters() -> None:
    text = drawn(saw(epoch(0), epoch(1, dead=3)))
    for part in (
        "667 k events/s",
        "total 1.00 M",
        "lag 1.20 k rows",
        "epoch 1 in 500 ms",
        "version 2",
        "dead letters 3",
    ):
        assert part in text


def test_the_view_has_a_line_per_node() -> None:
    lines = drawn(saw(epoch(0))).splitlines()
    [customers] = [text for text in lines if "customers" in text]
    cells = re.split(r"\s{2,}", customers.strip("│ "))
    assert cells == ["customers", "process", "100 k", "100 k", "120 ms", "3.00 MiB"]


def test_late_events_are_shown_once_there_are_any() -> None:
    late = (replace(NODES[0], late=9), replace(NODES[1], late=4))
    first = saw(epoch(0))
    assert "late" not in drawn(first) + view.line(first)
    seen = saw(epoch(0), replace(epoch(1), nodes=late), replace(epoch(2), nodes=late))
    assert "late 8" in drawn(seen), "operators put 4 aside twice; what broke a source's promise is no sum"
    assert view.line(seen).endswith("late 8")
    [clicks] = [text for text in drawn(seen).splitlines() if "clicks" in text]
    assert clicks.strip("│ ").endswith(" 18")


def test_a_source_that_cannot_tell_its_lag_is_said_to_be_unknown() -> None:
    assert "lag unknown" in view.line(saw(epoch(0, lag=None)))


def test_an_epoch_is_counted_once_however_often_it_is_seen() -> None:
    seen = saw(epoch(0, dead=1))
    assert seen.take([epoch(0, dead=1), epoch(1, dead=2)]) == [epoch(1, dead=2)]
    assert (seen.count, seen.events, seen.dead_letters) == (2, 1_000_000, 3)


def test_the_rate_counts_waiting_and_forgets_what_is_long_ago() -> None:
    idle = saw(*(epoch(n, events=0) for n in range(10, 20)))
    assert idle.events_per_s == 0
    assert saw(epoch(0), epoch(100, events=1000)).events_per_s == pytest.approx(2000)


def test_lines_instead_of_a_view_where_there_is_no_terminal() -> None:
    text = shown(ScriptedRun([epoch(0), epoch(1)]), terminal=False)
    assert "\x1b" not in text
    assert "epoch 0  version 2  1.00 M events/s" in text
    assert "starting Spark" in text


def test_epochs_of_an_earlier_run_are_not_counted_again() -> None:
    run = ScriptedRun([epoch(2)], earlier=[epoch(0), epoch(1)])
    assert watched(run).count == 1


def test_epochs_that_came_between_two_looks_are_counted() -> None:
    seen = watched(ScriptedRun([epoch(n, dead=1) for n in range(6)], per_poll=3))
    assert (seen.count, seen.dead_letters) == (6, 6)


def test_a_terminal_gets_the_view() -> None:
    assert "penstock · shop" in shown(ScriptedRun([epoch(0), epoch(1)]), terminal=True)


def test_lines_of_console_sinks_are_shown_as_they_are() -> None:
    assert "[red]north 12" in shown(ScriptedRun([epoch(0)], said=["[red]north 12"]), terminal=False)


def test_what_failed_the_run_is_raised() -> None:
    failure = StreamFailed(topology="shop", epoch=3, reason="gone")
    with pytest.raises(StreamFailed):
        shown(ScriptedRun([epoch(0)], fails=failure), terminal=False)


def test_the_first_interrupt_ends_at_the_epoch_boundary() -> None:
    run = ScriptedRun([epoch(0)], endless=True)
    run.on_poll = lambda polls: os.kill(os.getpid(), signal.SIGINT) if polls == 2 else None
    text = shown(run, terminal=False)
    assert run.stopped
    assert "ending at the epoch boundary" in text


def test_the_second_interrupt_quits_at_once() -> None:
    run = ScriptedRun([epoch(0)], endless=True)
    run.stop = lambda: os.kill(os.getpid(), signal.SIGINT)  # type: ignore[method-assign]
    run.on_poll = lambda polls: os.kill(os.getpid(), signal.SIGINT) if polls == 2 else None
    with pytest.raises(KeyboardInterrupt):
        shown(run, terminal=False)


def test_a_service_manager_ends_it_at_the_epoch_boundary_too() -> None:
    run = ScriptedRun([epoch(0)], endless=True)
    run.on_poll = lambda polls: os.kill(os.getpid(), signal.SIGTERM) if polls == 2 else None
    shown(run, terminal=True)
    assert run.stopped


def test_handlers_of_signals_are_put_back() -> None:
    before = signal.getsignal(signal.SIGINT)
    shown(ScriptedRun([epoch(0)]), terminal=False)
    assert signal.getsignal(signal.SIGINT) is before


def test_the_summary_says_what_was_done_and_where_it_is() -> None:
    text = live.summary("shop", saw(epoch(0), epoch(1)), Path("runs/shop"), ["table: sink Delta out/totals"])
    assert "1.00 M events in 2 epochs and 1.5 s" in text
    assert "  table: sink Delta out/totals" in text
    assert text.endswith("run directory: runs/shop")


def test_the_summary_of_a_run_without_work_says_so() -> None:
    assert "nothing to read" in live.summary("shop", view.Seen(), Path("runs/shop"), [])
