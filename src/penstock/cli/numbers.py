"""Figures as short text."""

from __future__ import annotations

from collections.abc import Sequence

_BARS = "▁▂▃▄▅▆▇█"


def count(n: float) -> str:
    """A number of things.

    >>> count(7), count(12_345), count(4_600_000)
    ('7', '12.3 k', '4.60 M')
    """
    return _scaled(n, 1000, ("", " k", " M", " G", " T"))


def size(n_bytes: float) -> str:
    """A number of bytes.

    >>> size(512), size(3 << 20)
    ('512 B', '3.00 MiB')
    """
    return _scaled(n_bytes, 1024, (" B", " KiB", " MiB", " GiB", " TiB"))


def time(milliseconds: float) -> str:
    """A length of time.

    >>> time(412.4), time(2_350), time(200_000)
    ('412 ms', '2.4 s', '3 min 20 s')
    """
    if milliseconds < 1000:
        return f"{milliseconds:.0f} ms"
    if milliseconds < 120_000:
        return f"{milliseconds / 1000:.1f} s"
    minutes, seconds = divmod(round(milliseconds / 1000), 60)
    return f"{minutes} min {seconds} s"


def sparkline(values: Sequence[float], width: int = 40) -> str:
    """The last values as bars, the greatest one full.

    >>> sparkline([0, 1, 2, 4])
    '▁▂▄█'
    """
    shown = values[-width:]
    top = max(shown, default=0)
    if top <= 0:
        return _BARS[0] * len(shown)
    return "".join(_BARS[int(max(value, 0) / top * (len(_BARS) - 1))] for value in shown)


def _scaled(n: float, step: int, units: tuple[str, ...]) -> str:
    value, unit = float(n), 0
    while abs(value) >= step and unit < len(units) - 1:
        value, unit = value / step, unit + 1
    if unit == 0:
        return f"{value:.0f}{units[0]}"
    digits = 2 if abs(value) < 10 else 1 if abs(value) < 100 else 0
    return f"{value:.{digits}f}{units[unit]}"
