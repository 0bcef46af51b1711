"""Windows to bytes, buffer by buffer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from penstock.net.synth._fill import fill
from penstock.net.synth._settings import SEEN
from penstock.net.synth.catalogue import Table
from penstock.net.synth.windows import Plan, Window

BUFFER_BYTES = 4 << 20
_MOST_ROWS = 1 << 16


class Buffers:
    """Two pieces of memory in turn: one can be written to disk while the other is filled."""

    def __init__(self) -> None:
        self._pair = [np.empty(BUFFER_BYTES, np.uint8) for _ in range(2)]

    def next(self) -> npt.NDArray[np.uint8]:
        """The one that was not given out last."""
        self._pair.reverse()
        return self._pair[0]


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
    plan: Plan,
    window: Window,
    settings: Table,
    seen: Seen,
    buffers: Buffers,
    *,
    first: int = 0,
    stop: int | None = None,
) -> Iterator[Filled]:
    """The packets of a window from ``first`` on; ``seen`` is added to.

    Each is good until the one after the next: new memory costs as much as filling it.
    """
    c, stop = plan.catalogue, len(window) if stop is None else stop
    places, lengths = np.empty((3, _MOST_ROWS), np.int64), np.empty((2, _MOST_ROWS), np.uint32)
    while first < stop:
        data = buffers.next()
        after, size = fill(
            window.keys, first, stop, window.begin_us, window.packets, window.exchanges,
            c.steps, c.patches, c.arena, settings, data, places, lengths, seen.flows, seen.cells,
        )  # fmt: skip
        count = after - first
        yield Filled(data[:size], places[:, :count], lengths[:, :count])
        first = after
