"""The application tracker on subscribers in GTP: packets per second, and what a million flows cost."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from penstock.bench.harness import Settings
from penstock.bench.workload import rate, run_through

if TYPE_CHECKING:
    from penstock.net.synth import Mix, Truth

MEAN_BYTES = 500
EPOCH_PACKETS = 4_000_000
"""About ten seconds. Five exchanges cost each epoch half a second: with epochs half as long, 5 % less."""
WARM_UP = 2
PACKETS = 20_000_000
FEW, MANY = 10_000, 1_000_000
PARALLELISM = 8
"""Slices of each node: enough for two cores. Twice as many take a fifth more of the workers' time."""
LASTS_S = 400
"""How long a flow goes on: long against the idle timeout, so that the table holds little else."""


def run(settings: Settings) -> dict[str, float]:
    """The usual mix; and a mix of short exchanges, so that a million flows fit, in few flows and in many."""
    from penstock.net.synth import Mix

    short = Mix(dns=30, http=8, tls=30, quic=20, sip=4, mail=3, messenger=5)
    usual = _rate(settings.directory / "usual", FEW, Mix(), packets_per_flow=25)
    few, many = (_rate(settings.directory / f"{n}", n, short, packets_per_flow=6) for n in (FEW, MANY))
    return {
        "packets_per_s": usual,
        "short_flows_packets_per_s": few,
        "ratio_1m_to_10k_flows": few / many,
    }


def _rate(folder: Path, flows: int, mix: Mix, *, packets_per_flow: int) -> float:
    """Packets per second when so many flows go on: not in the last epoch, where all of them end at once."""
    from penstock.apps.app_tracker import topology
    from penstock.net.synth import Traffic, write

    folder.mkdir()
    pace = flows * packets_per_flow / LASTS_S
    traffic = Traffic(
        mix=mix, subscribers=20_000, cells=500, rate=pace, duration=f"{PACKETS / pace:.3f}s",
        mean_bytes=MEAN_BYTES, concurrent_flows=flows, tunnel="gtp", stay=None,
    )  # fmt: skip
    capture = folder / "mobile.pcap"
    truth = write(capture, traffic)
    top = topology(
        capture, gprs=True, directory=folder / "out", parallelism=PARALLELISM,
        bytes_per_epoch=EPOCH_PACKETS * (MEAN_BYTES + 16),
    )  # fmt: skip
    epochs = run_through(top, folder)
    capture.unlink()
    _check(folder / "out", truth)
    return rate(epochs[:-1], warm_up=WARM_UP)


def _check(out: Path, truth: Truth) -> None:
    """Every packet is in the share of an application, and each subscriber has what was made for it."""
    import polars as pl

    newest = pl.read_delta(str(out / "shares")).group_by("application").agg(pl.max("packets", "bytes"))
    found = newest.select(pl.sum("packets", "bytes")).row(0)
    made = (truth.packets, truth.bytes)
    if found != made:
        raise AssertionError(f"the shares have {found[0]:,} packets and {found[1]:,} bytes of {made}")
    shares = pl.read_delta(str(out / "subscribers")).group_by("imsi", "application").agg(pl.max("packets"))
    owned = shares.drop_nulls("imsi").group_by("imsi").agg(pl.sum("packets")).sort("imsi")
    if not owned.equals(truth.subscribers.select("imsi", "packets").sort("imsi")):
        raise AssertionError("the packets of subscribers are not those that were made")
