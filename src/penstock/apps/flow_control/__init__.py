"""Flow control: base station controllers limit data while voice messages get in the way of voice calls.

SAND, section 5.2. Voice messages are counted for the controller that their cell belongs to; a controller that
is busy with calls and with messages is told to limit data, and told again when that is over.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Literal

import penstock as ps
from penstock.apps.flow_control.as_of import CHANGES, UNKNOWN, AsOf
from penstock.apps.flow_control.events import CELLS, KPI, VOICE, Thresholds
from penstock.apps.flow_control.generated import Network
from penstock.apps.flow_control.matcher import KPIS, STATIONS, Matcher
from penstock.apps.flow_control.traffic import voice_of
from penstock.control.live_table import LiveTable
from penstock.errors import BadArgument
from penstock.operators.event_time import LATE

SLICES = 12
EPOCH_BYTES = 256 << 20
Ends = Literal["never", "drained"]
LIVE = LiveTable(
    title="controllers",
    sink="controllers",
    key=("bsc",),
    columns=("bsc", "volume_bytes", "voice_rate", "is_limited"),
    order_by="volume_bytes",
)


def topology(
    kpis: Path | str | None = None,
    cells: Path | str | None = None,
    voice: Path | str | None = None,
    *,
    captures: Path | str | None = None,
    application: str = "WeChat",
    format: Literal["jsonl", "csv", "parquet"] = "jsonl",
    lateness: str = "0s",
    follow: bool = False,
    t1: float = 0.8,
    t2: int = 50_000_000,
    window: str = "5m",
    messages: int = 1_000_000,
    rate: int | None = 10_000,
    seed: int = 1,
    rows_per_epoch: int | None = None,
    bytes_per_epoch: int = EPOCH_BYTES,
    notify: str | None = None,
    directory: Path | str = "out/flow-control",
) -> ps.Topology:
    """The topology; without files it runs on as many generated ``messages``.

    ``kpis``, ``cells`` and ``voice`` are folders of files; instead of ``voice``, ``captures`` of a GPRS core
    network give the conversations of one ``application``. ``t1`` is the voice rate and ``t2`` the bytes in
    the ``window`` above which a controller is told. ``follow`` waits for further files. ``rows_per_epoch``
    of generated events are taken at most, by default those of a second. ``notify`` is the address of a
    component that gets the notices too.
    """
    thresholds = Thresholds(t1=t1, t2=t2, window=window)
    _check(kpis, cells, voice, captures)
    top = ps.Topology("flow-control")
    if kpis is not None and cells is not None:
        ends: Ends = "never" if follow else "drained"
        files = partial(ps.Files, format=format, time="time")
        reports = top.source("bsc-kpi-spout", files(kpis, schema=KPI, lateness=lateness, ends=ends))
        # The map has nothing to say for days: it must not hold the others back.
        moves = top.source("cell-map", files(cells, schema=CELLS, ends="drained"))
        if voice is not None:
            spoken = top.source("voice-spout", files(voice, schema=VOICE, lateness=lateness, ends=ends))
        else:
            spoken = voice_of(
                top, str(captures), application=application, ends=ends, bytes_per_epoch=bytes_per_epoch
            )
    else:
        made = Network(messages=messages, seed=seed).sources(rate)
        names = ("voice-spout", "bsc-kpi-spout", "cell-map")
        rows_per_epoch = rate if rows_per_epoch is None else rows_per_epoch
        spoken, reports, moves = (
            top.source(name, source, rows_per_epoch=rows_per_epoch)
            for name, source in zip(names, made, strict=True)
        )
    notices = _lead(spoken, reports, moves, thresholds, directory)
    if notify is not None:
        notices.sink("notify", ps.Http(notify))
    return notices.sink("notices", ps.JsonLines(f"{directory}/notices"))


def _lead(
    spoken: ps.Stream, reports: ps.Stream, moves: ps.Stream, thresholds: Thresholds, directory: Path | str
) -> ps.Stream:
    """From the three inputs to notices; what is put aside goes to tables."""
    locate = AsOf(("lac", "cell"), ("bsc",))
    also = {CHANGES: moves.key_by("lac", "cell")}
    located = spoken.key_by("lac", "cell").process("locate", locate, also=also, parallelism=SLICES)
    matched = located.key_by("bsc").process(
        "matcher", Matcher(thresholds), also={KPIS: reports.key_by("bsc")}, parallelism=SLICES
    )
    matched.output(STATIONS).sink("controllers", ps.Delta(f"{directory}/controllers"))
    located.output(UNKNOWN).sink("unknown-cells", ps.Delta(f"{directory}/unknown-cells"))
    located.output(LATE).sink("late-messages", ps.Delta(f"{directory}/late-messages"))
    matched.output(LATE).sink("late-reports", ps.Delta(f"{directory}/late-reports"))
    return matched


def _check(
    kpis: Path | str | None, cells: Path | str | None, voice: Path | str | None, captures: Path | str | None
) -> None:
    """All that is needed was given, or nothing."""
    given = [path is not None for path in (kpis, cells, voice, captures)]
    if any(given) and (not all(given[:2]) or given[2] == given[3]):
        names = ("KPIS", "CELLS", "VOICE", "--captures")
        got = ", ".join(name for name, is_there in zip(names, given, strict=True) if is_there)
        allowed = "KPIS CELLS VOICE; or KPIS CELLS --captures PATH; or nothing, for generated events"
        raise BadArgument(where="flow-control", what="the input", got=got, allowed=allowed)
