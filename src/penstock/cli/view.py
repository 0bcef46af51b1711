"""What the terminal shows of a run: progress in, text out. Nothing here waits or asks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from penstock.cli import numbers
from penstock.control.progress import NodeProgress, Progress

if TYPE_CHECKING:
    from penstock.control.live_table import Shown

WARM_UP = (
    "starting Spark; the first epoch takes 5 to 12 seconds: "
    "the JVM compiles its code, Python workers start. Later epochs are fast."
)
SOURCE = "source"
_KEPT = 120
_WINDOW_NS = 5_000_000_000


@dataclass(slots=True)
class Seen:
    """The epochs that a view has seen, and the sums over them."""

    epochs: list[Progress] = field(default_factory=list)
    events: int = 0
    dead_letters: int = 0
    late: dict[str, int] = field(default_factory=dict)
    """Late events of each node that has had any."""
    count: int = 0
    first_ns: int = 0
    after: int = -1
    """Epochs up to this one were there before the view began."""

    @property
    def expected(self) -> int:
        """The number of the epoch that comes next."""
        return 1 + (self.epochs[-1].epoch if self.epochs else self.after)

    def take(self, history: Sequence[Progress]) -> list[Progress]:
        """Add the epochs that are new; return them."""
        fresh = [progress for progress in history if progress.epoch >= self.expected]
        for progress in fresh:
            if not self.count:
                self.first_ns = progress.at_ns - int(progress.epoch_ms * 1e6)
            self.events += progress.events
            self.dead_letters += progress.dead_letters
            for node in progress.nodes:
                if node.late:
                    self.late[node.node] = self.late.get(node.node, 0) + node.late
            self.count += 1
        self.epochs = [*self.epochs, *fresh][-_KEPT:]
        return fresh

    @property
    def newest(self) -> Progress | None:
        return self.epochs[-1] if self.epochs else None

    @property
    def events_per_s(self) -> float:
        """Over the last five seconds by the clock, waiting included."""
        if not self.epochs:
            return 0.0
        newest = self.epochs[-1]
        recent = [p for p in self.epochs if newest.at_ns - p.at_ns < _WINDOW_NS]
        began = recent[0].at_ns - int(recent[0].epoch_ms * 1e6)
        elapsed = newest.at_ns - began
        return sum(p.events for p in recent) / elapsed * 1e9 if elapsed > 0 else 0.0

    @property
    def late_events(self) -> int:
        """Those that operators have put aside: each operator counts its own."""
        newest = self.newest
        sources = {node.node for node in newest.nodes if node.kind == SOURCE} if newest else set()
        return sum(late for node, late in self.late.items() if node not in sources)

    @property
    def elapsed_ms(self) -> float:
        return (self.epochs[-1].at_ns - self.first_ns) / 1e6 if self.epochs else 0.0


def lag(progress: Progress) -> str:
    """How much waits in the sources, in the unit that they know."""
    if progress.lag_rows is not None:
        return f"{numbers.count(progress.lag_rows)} rows"
    if progress.lag_bytes is not None:
        return numbers.size(progress.lag_bytes)
    return "unknown"


def line(seen: Seen) -> str:
    """The newest epoch as one line of a log."""
    newest = seen.newest
    if newest is None:
        return WARM_UP
    state = sum(node.state_bytes for node in newest.nodes)
    return (
        f"epoch {newest.epoch}  version {newest.version}  {numbers.count(seen.events_per_s)} events/s  "
        f"total {numbers.count(newest.total_events)}  lag {lag(newest)}  "
        f"epoch time {numbers.time(newest.epoch_ms)}  state {numbers.size(state)}  "
        f"dead letters {numbers.count(seen.dead_letters)}"
        + (f"  late {numbers.count(seen.late_events)}" if seen.late_events else "")
    )


def screen(
    name: str, seen: Seen, waited_s: float, note: str = "", shown: Shown | None = None
) -> RenderableType:
    """The whole live view."""
    newest = seen.newest
    if newest is None:
        body: RenderableType = Text(f"{WARM_UP}\n{waited_s:.0f} s so far", style="yellow")
    else:
        tables = [Text(""), _nodes(newest, seen.late), *([Text(""), results(shown)] if shown else [])]
        body = Group(_headline(seen, newest), *tables)
    parts = [body, Text(f"\n{note}", style="yellow")] if note else [body]
    hint = "Ctrl-C ends at the next epoch boundary; running again continues there"
    return Panel(
        Group(*parts), title=f"penstock · {name}", subtitle=hint, title_align="left", subtitle_align="left"
    )


def results(shown: Shown) -> RenderableType:
    """A table of results: the rows that matter most, as they are now."""
    from penstock.control.live_table import share_of

    of_all = f" (the first {len(shown.rows)} of {numbers.count(shown.keys)})"
    title = shown.table.title + (of_all if shown.keys > len(shown.rows) else "")
    table = Table(title=title, title_justify="left", title_style="bold", box=None, header_style="bold")
    columns = [
        column
        for name in shown.table.columns
        for column in ([name, share_of(name)] if name in shown.table.shares else [name])
    ]
    for column in columns:
        is_number = any(isinstance(row[column], int | float) for row in shown.rows)
        share = column not in shown.table.columns
        table.add_column("%" if share else column, justify="right" if is_number else "left")
    for row in shown.rows:
        table.add_row(
            *(_cell(column, row[column], share=column not in shown.table.columns) for column in columns)
        )
    return table


def _cell(column: str, value: Any, *, share: bool) -> str:
    if value is None:
        return "–"
    if share:
        return f"{value:.1%}"
    if isinstance(value, int) and not isinstance(value, bool):
        return numbers.size(value) if column.endswith("bytes") else numbers.count(value)
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
    return str(value)


def _headline(seen: Seen, newest: Progress) -> Table:
    grid = Table.grid(padding=(0, 3))
    rates = [progress.events_per_s for progress in seen.epochs]
    grid.add_row(
        Text(f"{numbers.count(seen.events_per_s)} events/s", style="bold green"),
        Text(numbers.sparkline(rates), style="green"),
        f"total {numbers.count(newest.total_events)}",
    )
    grid.add_row(
        f"epoch {newest.epoch} in {numbers.time(newest.epoch_ms)}",
        f"lag {lag(newest)}",
        f"version {newest.version}",
        Text(f"dead letters {numbers.count(seen.dead_letters)}", style="red" if seen.dead_letters else ""),
        Text(f"late {numbers.count(seen.late_events)}" if seen.late_events else "", style="yellow"),
    )
    return grid


def _nodes(newest: Progress, late: Mapping[str, int]) -> Table:
    """What each node does now, and how many events were late for it since the view began, if any were."""
    table = Table(box=None, pad_edge=False, padding=(0, 2), header_style="bold")
    for heading in ("node", "kind"):
        table.add_column(heading, overflow="fold")
    for heading in ("in/s", "out/s", "busy", "state", *(["late"] if late else [])):
        table.add_column(heading, justify="right", no_wrap=True)
    for node in newest.nodes:
        more = [numbers.count(late[node.node]) if node.node in late else "–"] if late else []
        table.add_row(*_cells(node, newest.epoch_ms), *more)
    return table


def _cells(node: NodeProgress, epoch_ms: float) -> tuple[str, ...]:
    per_s = 1000 / epoch_ms if epoch_ms else 0.0
    return (
        node.node,
        node.kind,
        numbers.count(node.rows_in * per_s) if node.rows_in else "–",
        numbers.count(node.rows_out * per_s) if node.rows_out else "–",
        numbers.time(node.busy_ms),
        numbers.size(node.state_bytes) if node.state_bytes else "–",
    )
