"""Generated traffic as a source, with the rows that `net.Pcap` would give for its capture."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from penstock.connect import source as connect
from penstock.connect.source import Batch, Identity, Reject, Split
from penstock.errors import BadArgument
from penstock.net import columns as c
from penstock.net._layout import MOST_TUNNELS
from penstock.net.synth.traffic import Traffic
from penstock.topology.fingerprint import fingerprint
from penstock.topology.schema import Schema

if TYPE_CHECKING:
    from penstock.net.capture import Block
    from penstock.net.synth.filling import Filled
    from penstock.net.synth.planning import SynthPlanner

_ETHERNET = 1


@dataclass(frozen=True, slots=True, init=False)
class Source(connect.Source):
    """Make packets without a file: the same rows, in the same order, as reading the written capture.

    ``columns`` and ``tunnels`` are those of `net.Pcap`. ``rate`` releases that many packets per second of
    real time (None: as fast as they are wanted), and what came due while the topology was down is made up
    for. Times are those of the traffic, and punctuation is exact. Ends when the traffic does.
    """

    traffic: Traffic
    columns: tuple[str, ...]
    tunnels: Literal["inner", "outer"]
    rate: float | None

    def __init__(
        self,
        traffic: Traffic,
        *,
        columns: Sequence[str] | None = None,
        tunnels: Literal["inner", "outer"] = "inner",
        rate: float | None = None,
    ) -> None:
        chosen = c.DEFAULT if columns is None else tuple(columns)
        if not chosen or len(set(chosen)) != len(chosen) or any(name not in c.TYPES for name in chosen):
            raise _wrong("columns", list(chosen), f"some of {', '.join(c.TYPES)}, each once")
        if tunnels not in ("inner", "outer"):
            raise _wrong("tunnels", tunnels, "inner, outer")
        if rate is not None and not rate > 0:
            raise _wrong("rate", rate, "None or packets per second above 0")
        values = {"traffic": traffic, "columns": chosen, "tunnels": tunnels, "rate": rate}
        for name, value in values.items():
            object.__setattr__(self, name, value)

    @property
    def schema(self) -> Schema:
        """The chosen columns."""
        return c.schema_of(self.columns)

    @property
    def time(self) -> str | None:
        """The time of the packets, unless it was left out."""
        return "time" if "time" in self.columns else None

    @property
    def ahead_us(self) -> None:
        """No bound: the traffic has a time of its own."""

    @property
    def has_end(self) -> bool:
        """Whether it ends by itself."""
        return True

    @property
    def identity(self) -> Identity:
        """Return the traffic: offsets are numbers of its packets."""
        return Identity("synth.Source", f"traffic {fingerprint(self.traffic)}, seed {self.traffic.seed}")

    def planner(self, state_dir: Path) -> SynthPlanner:
        """Make the planner. It keeps everything in its offsets and nothing in ``state_dir``."""
        from penstock.net.synth.planning import SynthPlanner

        return SynthPlanner(self)

    def read(self, split: Split, reject: Reject) -> Iterator[Batch]:
        """Make the split's packets."""
        from penstock.net.decoding import decode_block

        position = split.position
        most = MOST_TUNNELS if self.tunnels == "inner" else 0
        for part in _parts(self.traffic, **split.body):
            rows = decode_block(_block(part), self.columns, most)
            yield Batch(position, rows)
            position += rows.height

    def describe(self) -> str:
        """One line for people."""
        pace = "" if self.rate is None else f", {self.rate:g} packets/s"
        return f"synth.Source(seed {self.traffic.seed}{pace})"


def _parts(traffic: Traffic, window: int, row: int, count: int) -> Iterator[Filled]:
    from penstock.net.synth.filling import Buffers, filled, nothing_seen
    from penstock.net.synth.windows import plan_of, window_of

    plan = plan_of(traffic)
    settings, buffers = plan.settings(), Buffers()
    while count:
        packets = window_of(traffic, window)
        taken = min(count, len(packets) - row)
        seen = nothing_seen(plan, packets)
        yield from filled(plan, packets, settings, seen, buffers, first=row, stop=row + taken)
        window, row, count = window + 1, 0, count - taken


def _block(part: Filled) -> Block:
    import numpy as np

    from penstock.net.capture import Block, Resume

    kinds = np.zeros((2, part.places.shape[1]), np.uint32)
    kinds[1] = _ETHERNET
    return Block(part.data, part.places, part.lengths, kinds, (), Resume(0))


def _wrong(what: str, got: object, allowed: str) -> BadArgument:
    return BadArgument(where="synth.Source", what=what, got=repr(got), allowed=allowed)
