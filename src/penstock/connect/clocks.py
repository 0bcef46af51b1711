"""What a generator's clock says of events by their number, for many events at once."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Times = npt.NDArray[np.int64]

Clock = Callable[[int], int | datetime]
"""Gives the time of an event by its number; never decreases."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_BLOCK = 256
_FEW = 64  # asking for each of so many costs less than finding out whether all can be asked for at once


def to_us(moment: int | datetime) -> int:
    """Return a moment in µs since 1970."""
    if not isinstance(moment, datetime):
        return int(moment)
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return (aware - _EPOCH) // timedelta(microseconds=1)


def watermarks(clock: Clock, lateness_us: int, first: int, times_us: Times) -> Times:
    """Return what the clock says of the events from the first on, less the lateness.

    A clock of plain arithmetic is asked for all at once. Another one is asked for every event only where one
    of a block may lie behind it; elsewhere the time of the block's first event stands for all of them.
    """
    import numpy as np

    count = len(times_us)
    found = _at_once(clock, first, count) if count > _FEW else None
    if found is not None:
        return found - lateness_us
    out = np.empty(count, np.int64)
    for begin in range(0, count, _BLOCK):
        end = min(begin + _BLOCK, count)
        last = to_us(clock(first + end - 1)) - lateness_us
        if int(times_us[begin:end].min()) >= last:
            out[begin:end] = to_us(clock(first + begin)) - lateness_us
        else:
            out[begin:end] = [to_us(clock(first + n)) - lateness_us for n in range(begin, end)]
    return out


def _at_once(clock: Callable[[Any], Any], first: int, count: int) -> Times | None:
    """Return the times of events in µs, if the clock can be asked for an array; None: it cannot."""
    import numpy as np

    try:
        found = clock(np.arange(first, first + count))
    except Exception:  # noqa: BLE001 - a clock is made for one number at a time, and may do anything with more
        return None
    if not isinstance(found, np.ndarray) or found.shape != (count,) or found.dtype != np.int64:
        return None
    probes = (0, count // 3, count // 2, count - 1)
    return found if all(int(found[n]) == to_us(clock(first + n)) for n in probes) else None
