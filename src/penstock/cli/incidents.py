"""`penstock incidents`: what went wrong in a run, and what was done about it."""

from __future__ import annotations

import datetime as dt
import sys
from collections.abc import Sequence

from rich.console import Console, RenderableType
from rich.table import Table

from penstock.control.incidents import Incident

_WIDTH = 160


def shown(incidents: Sequence[Incident]) -> RenderableType:
    """One row per incident, oldest first."""
    if not incidents:
        return "no incidents"
    table = Table(box=None, pad_edge=False, padding=(0, 2), header_style="bold")
    for heading in ("when (UTC)", "epoch", "what happened", "what was done"):
        table.add_column(heading, overflow="fold", justify="right" if heading == "epoch" else "left")
    for incident in incidents:
        at = dt.datetime.fromtimestamp(incident.at_ns / 1e9, dt.UTC)
        table.add_row(f"{at:%Y-%m-%d %H:%M:%S}", str(incident.epoch), incident.what, incident.action)
    return table


def show(incidents: Sequence[Incident]) -> None:
    """Print them; where there is no terminal to fit into, in lines that hold a sentence."""
    width = None if sys.stdout.isatty() else _WIDTH
    Console(width=width).print(shown(incidents), markup=False, highlight=False)
