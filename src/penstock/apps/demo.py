"""The demo: subscribers of a mobile network, and which applications their traffic belongs to.

The application tracker on traffic that is made while it runs: DNS, web, TLS, QUIC, calls and mail of
subscribers who wander between cells, carried in GTP with its control plane, with some loss and disorder.
"""

from __future__ import annotations

from pathlib import Path

import penstock as ps
from penstock.apps import app_tracker
from penstock.net import synth

SUBSCRIBERS = 2_000
CELLS = 60
SLICES = 6
TABLES = ("flows", "shares", "subscribers")
LIVE = app_tracker.LIVE


def topology(directory: Path | str = "out/demo", *, seconds: int = 30, rate: int = 20_000) -> ps.Topology:
    """The topology: made traffic, and all that the application tracker does with captures of it."""
    top = ps.Topology("demo")
    source = synth.Source(
        traffic(seconds=seconds, rate=rate), columns=app_tracker.columns(gprs=True), rate=rate
    )
    packets = top.source("traffic", source, rows_per_epoch=4 * rate)
    app_tracker.track(packets, directory, gprs=True, parallelism=SLICES)
    return top


def traffic(*, seconds: int, rate: int) -> synth.Traffic:
    """What the subscribers do; the same whenever it is made."""
    return synth.Traffic(
        subscribers=SUBSCRIBERS,
        cells=CELLS,
        rate=rate,
        duration=f"{seconds}s",
        tunnel="gtp",
        stay="20s",
        loss=0.002,
        disorder=0.002,
        retransmission=0.01,
    )


STORY = f"""\
A mobile network: {SUBSCRIBERS:,} subscribers in {CELLS} cells, their packets carried in GTP tunnels.
Packets are decoded, flows get their application from their first packets, and the control plane says
whose they are. State is kept per flow, tunnel and subscriber; every packet counts exactly once, through
crashes too. `penstock describe demo` shows the nodes."""


def look(directory: Path, python: str) -> str:
    """What to type to see the results."""
    totals = (
        f"pl.read_delta('{directory}/subscribers').sort('bytes').unique(['imsi', 'application'], keep='last')"
        ".sort('bytes', descending=True)"
    )
    return (
        f"look at the heaviest subscribers and what they do:\n"
        f'  {python} -c "import polars as pl; print({totals})"\n'
        f"the flows are in {directory}/flows; "
        f"captures of your own: penstock run app-tracker FOLDER [--gprs]"
    )
