"""Throughput over time with the faults marked, as an SVG image: no package is needed to draw it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path

from penstock.control.progress import Progress

_WIDTH, _HEIGHT, _LEFT, _TOP = 900, 180, 70, 34
Part = tuple[Sequence[Progress], Sequence[int]]


def write_timeline(path: Path, parts: Mapping[str, Part]) -> Path:
    """One panel for each part: a log of committed epochs, and the times of faults in ns."""
    panels = [
        _panel(title, log, faults, (_HEIGHT + 70) * number)
        for number, (title, (log, faults)) in enumerate(parts.items())
        if len(log) > 1
    ]
    height = (_HEIGHT + 70) * len(parts)
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH + 100}" height="{height}" '
        'font-family="sans-serif" font-size="12">\n<rect width="100%" height="100%" fill="white"/>\n'
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(head + "\n".join(panels) + "\n</svg>\n")
    return path


def _panel(title: str, log: Sequence[Progress], faults: Sequence[int], top: int) -> str:
    """Each epoch is a step as long as it took since the commit before, as high as its events per second."""
    began, ended = log[0].at_ns, log[-1].at_ns
    rates = [
        (before.at_ns, after.at_ns, after.events / max(1e-9, (after.at_ns - before.at_ns) / 1e9))
        for before, after in pairwise(log)
    ]
    highest = max(rate for *_, rate in rates)

    def x(at_ns: int) -> float:
        return round(_LEFT + (at_ns - began) / max(1, ended - began) * _WIDTH, 1)

    def y(rate: float) -> float:
        return round(top + _TOP + _HEIGHT * (1 - rate / highest), 1)

    steps = " ".join(f"L{x(a)},{y(rate)} L{x(b)},{y(rate)}" for a, b, rate in rates)
    bottom = y(0)
    dashed = 'stroke="#c22" stroke-dasharray="4 3"'
    marks = "\n".join(f'<path d="M{x(at)},{y(highest)} V{bottom}" {dashed}/>' for at in faults)
    seconds = (ended - began) / 1e9
    ticks = "\n".join(
        f'<text x="{_LEFT + _WIDTH * i / 6:.0f}" y="{bottom + 16}">{seconds * i / 6:.0f} s</text>'
        for i in range(7)
    )
    heading = f"{title}: events/s over time, faults dashed"
    return f"""<text x="{_LEFT}" y="{top + 20}" font-size="14">{heading}</text>
<path d="M{x(began)},{bottom} {steps} L{x(ended)},{bottom}" fill="#cfe3f5" stroke="#1f6fb4"/>
<text x="{_LEFT - 6}" y="{y(highest) + 4}" text-anchor="end">{highest / 1000:,.0f} k</text>
<text x="{_LEFT - 6}" y="{bottom}" text-anchor="end">0</text>
{marks}
{ticks}"""
