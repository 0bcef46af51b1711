"""Captures on disk: a thread writes one buffer while the next is filled."""

from __future__ import annotations

import os
import struct
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from penstock.errors import BadArgument
from penstock.net.synth import _settings as s
from penstock.net.synth.filling import Buffers, Seen, filled, nothing_seen
from penstock.net.synth.traffic import Traffic
from penstock.net.synth.truth import Tally, Truth
from penstock.net.synth.windows import plan_of, window_of

Format = Literal["pcap", "pcapng"]
FORMS = {"pcap": s.PCAP, "pcapng": s.PCAPNG}
WHOLE_PACKETS = 262_144
_ETHERNET = 1


def file_header(form: Format, snap_bytes: int) -> bytes:
    """What a capture begins with; times are in µs."""
    if form == "pcap":
        return struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, snap_bytes, _ETHERNET)
    section = struct.pack("<IIIHHqI", 0x0A0D0D0A, 28, 0x1A2B3C4D, 1, 0, -1, 28)
    return section + struct.pack("<IIHHII", 1, 20, _ETHERNET, 0, snap_bytes, 20)


def format_of(path: Path, form: Format | None, where: str) -> Format:
    """The given format, or what the name says: pcapng if it ends so, else pcap."""
    if form is None:
        return "pcapng" if path.suffix == ".pcapng" else "pcap"
    if form not in get_args(Format):
        raise BadArgument(where=where, what="form", got=repr(form), allowed=", ".join(get_args(Format)))
    return form


class CaptureFile:
    """A capture that appears under its name when it is complete."""

    def __init__(self, path: Path, header: bytes) -> None:
        self._path, self._header = path, header
        # Sources that watch the directory pass over such names.
        self._beside = path.with_name(f".{path.name}.tmp")
        self._thread = ThreadPoolExecutor(1)
        self._pending: Future[None] | None = None

    def __enter__(self) -> CaptureFile:
        self._file = open(self._beside, "wb", buffering=0)
        self._file.write(self._header)
        return self

    def append(self, data: npt.NDArray[np.uint8]) -> None:
        """Write behind what is there, while the caller goes on; the data must stay as it is."""
        if self._pending is not None:
            self._pending.result()
        self._pending = self._thread.submit(self._write, data.data)

    def _write(self, data: memoryview) -> None:
        while len(data):
            data = data[self._file.write(data) :]

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if self._pending is not None and kind is None:
                self._pending.result()
        finally:
            self._thread.shutdown()
            self._file.close()
        if kind is None:
            self._beside.replace(self._path)
        else:
            self._beside.unlink()


def write(
    path: str | os.PathLike[str],
    traffic: Traffic,
    *,
    form: Format | None = None,
    snap_bytes: int = WHOLE_PACKETS,
) -> Truth:
    """Write a traffic as a capture, and say what is in it.

    ``form`` is taken from the name unless it is given; packets are cut at ``snap_bytes``. The same traffic
    gives the same bytes.
    """
    target, plan = Path(path), plan_of(traffic)
    chosen = format_of(target, form, "synth.write")
    if not 1 <= snap_bytes <= WHOLE_PACKETS:
        allowed = f"a number from 1 to {WHOLE_PACKETS}"
        raise BadArgument(where="synth.write", what="snap_bytes", got=repr(snap_bytes), allowed=allowed)
    settings = plan.settings(form=FORMS[chosen], snap_bytes=snap_bytes)
    buffers, tally, before = Buffers(), Tally(plan), np.zeros((0, s.SEEN), np.int64)
    with CaptureFile(target, file_header(chosen, snap_bytes)) as file:
        for index in range(plan.count):
            window = window_of(traffic, index)
            seen = nothing_seen(plan, window)
            begin, middle = 2 * window.control, 2 * window.earlier
            seen.flows[begin:middle] = before
            for part in filled(plan, window, settings, seen, buffers):
                file.append(part.data)
            _count(tally, seen, window.exchanges, begin, middle)
            before = seen.flows[middle:]
    return tally.truth()


def _count(tally: Tally, seen: Seen, exchanges: npt.NDArray[np.int64], begin: int, middle: int) -> None:
    """The exchanges of the window before have ended; those of this one go on in the next."""
    tally.add_control(seen.flows[:begin])
    tally.add_users(exchanges[begin // 2 : middle // 2], seen.flows[begin:middle])
    tally.add_cells(seen.cells)
