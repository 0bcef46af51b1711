"""Live capture: what an interface sees goes to rotating pcap files, and can be read as often as needed."""

from __future__ import annotations

import json
import os
import select
import struct
import threading
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from penstock.connect.sink import write_atomically
from penstock.net.packet_socket import BLOCKS, PacketSocket, read_program

if TYPE_CHECKING:
    from penstock.net.interface import Interface

ROTATE_BYTES = 64 << 20
_WAIT_MS = 100
_NOTE_S = 1.0


@dataclass
class Captured:
    """What was captured over the life of a spool, and what could not be."""

    packets: int = 0
    bytes: int = 0
    dropped: int = 0
    """By the kernel, because nobody took packets in time."""
    refused: int = 0
    """By the spool, because it was full."""


def spool_of(state_dir: Path) -> Path:
    """Where the files are."""
    return state_dir / "spool"


def read_captured(state_dir: Path) -> Captured:
    """What was written down about a spool."""
    note = state_dir / "captured.json"
    return Captured(**json.loads(note.read_text())) if note.exists() else Captured()


def read_failure(state_dir: Path) -> str | None:
    """Why the capture has ended, if it has."""
    failure = state_dir / "failure"
    return failure.read_text() if failure.exists() else None


class LiveCapture:
    """Captures in a thread of its own between ``__enter__`` and ``__exit__``.

    What was written survives the death of the process; of the machine, what is older than a second.
    """

    def __init__(self, source: Interface, state_dir: Path, rotate_bytes: int = ROTATE_BYTES) -> None:
        self._source = source
        self._state_dir = state_dir
        self._rotate_bytes = rotate_bytes
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="capture", daemon=True)
        self._file, self._written, self._held = -1, 0, 0

    def __enter__(self) -> LiveCapture:
        program = read_program(self._source.bpf) if self._source.bpf else ()
        self._socket = PacketSocket(
            self._source.interface,
            snap_bytes=self._source.snap_bytes,
            promiscuous=self._source.promiscuous,
            program=program,
        )
        spool_of(self._state_dir).mkdir(parents=True, exist_ok=True)
        (self._state_dir / "failure").unlink(missing_ok=True)
        self.captured = read_captured(self._state_dir)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopping.set()
        self._thread.join()
        self._socket.close()

    def _run(self) -> None:
        try:
            self._capture()
        except OSError as error:  # told by the planner: nothing here is between it and the user
            write_atomically(self._state_dir / "failure", str(error).encode())

    def _capture(self) -> None:
        waiting = select.poll()
        waiting.register(self._socket.fileno(), select.POLLIN | select.POLLERR)
        self._begin_file()
        try:
            noted = time.monotonic()
            while not self._stopping.is_set():
                if not self._keep_all():
                    waiting.poll(_WAIT_MS)
                if time.monotonic() - noted > _NOTE_S:
                    self._note()
                    noted = time.monotonic()
            waiting.poll(_WAIT_MS)  # the kernel gives up a block that is not full after half of this
            self._keep_all()
        finally:
            self._note()
            os.close(self._file)

    def _keep_all(self) -> int:
        """Take the blocks that are ready, at most a ring of them; answers how many there were."""
        for count in range(BLOCKS):
            block = self._socket.take()
            if block is None:
                return count
            self._keep(*block)
        return BLOCKS

    def _keep(self, records: memoryview, packets: int) -> None:
        """Write a block of whole records, unless there is no room for it."""
        if self._held + self._written + len(records) > self._source.spool_bytes:
            self.captured.refused += packets
            return
        _write(self._file, records)
        self._written += len(records)
        self.captured.packets += packets
        self.captured.bytes += len(records) - 16 * packets
        if self._written >= self._rotate_bytes:
            os.fsync(self._file)
            os.close(self._file)
            self._begin_file()

    def _begin_file(self) -> None:
        """Names ascend and are never used again, also after all files were read and removed."""
        path = spool_of(self._state_dir) / f"{time.time_ns():020d}.pcap"
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        link, snap = self._socket.link_type, self._source.snap_bytes
        header = struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, snap, link)
        _write(self._file, memoryview(header))
        self._written = 0
        self._look()

    def _look(self) -> None:
        """How much the files before this one take: those that were read are removed by the planner."""
        files = sorted(spool_of(self._state_dir).glob("*.pcap"))
        self._held = 0
        for path in files[:-1]:
            try:
                self._held += path.stat().st_size
            except FileNotFoundError:
                continue

    def _note(self) -> None:
        self.captured.dropped += self._socket.dropped()
        os.fdatasync(self._file)
        self._look()
        write_atomically(self._state_dir / "captured.json", json.dumps(asdict(self.captured)).encode())


def _write(file: int, data: memoryview) -> None:
    while len(data):
        data = data[os.write(file, data) :]
