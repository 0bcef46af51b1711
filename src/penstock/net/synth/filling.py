"""Windows to bytes, buffer by buffer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from penstock.net.synth._fill import fill
from penstock.net.synth._settings import SEEN
from penstock.net.synth.windows import Plan, Table, Window

BUFFER_BYTES = 8 << 20
_MOST_ROWS = 1 << 16


@dataclass(frozen=True, slots=True, eq=False)
class Filled:
    """Some packets as bytes. ``places`` and ``lengths`` are laid out as in `net.capture.Block`."""

    data: npt.NDArray[np.uint8]
    places: Table
    lengths: npt.NDArray[np.uint32]


@dataclass(frozen=True, slots=True, eq=False)
class Seen:
    """What was written of each flow of a window's exchanges, and in each cell."""

    flows: Table
    cells: Table


def nothing_seen(plan: Plan, window: Window) -> Seen:
    """Counts of zero for a window."""
    flows = np.zeros((2 * len(window.exchanges), SEEN), np.int64)
    return Seen(flows, np.zeros((plan.traffic.cells, 2), np.int64))


def filled(
    plan: Plan, window: Window, settings: Table, seen: Seen, *, first: int = 0, stop: int | None = None
) -> Iterator[Filled]:
    """The packets of a window from ``first`` on, in new buffers; ``seen`` is added to."""
    c, stop = plan.catalogue, len(window) if stop is None else stop
    while first < stop:
        data = np.empty(BUFFER_BYTES, np.uint8)
        places = np.empty((3, _MOST_ROWS), np.int64)
        lengths = np.empty((2, _MOST_ROWS), np.uint32)
        after, size = fill(
            window.keys, first, stop, window.begin_us, window.who, window.which, window.kinds, window.exchanges,
            c.steps, c.patches, c.arena, settings, data, places, lengths, seen.flows, seen.cells,
        )  # fmt: skip
        count = after - first
        yield Filled(data[:size], places[:, :count], lengths[:, :count])
        first = after
