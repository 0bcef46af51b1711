"""Large payloads: written once as a file of the epoch, and referred to by frames.

Through the exchange a payload is copied about eight times, and once more for each state partition that a
broadcast goes to: for six receivers in two partitions a sender used 1.36 times the processor time of one.
The run directory is shared by all workers already; files are dropped when their epoch is committed.
Payloads for many slices always go this way. Those for one slice do where all workers are on one machine,
as the file then stays in its memory; between machines Spark's own exchange is the better way.
"""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from penstock.errors import RunDirectoryBroken

BY_REFERENCE_BYTES = 16 << 10
"""Smaller payloads travel in their frames: a file costs more than the copies."""
ALONE_BYTES = 256 << 10
"""The same for payloads that only one slice gets."""
ONE_MACHINE = "PENSTOCK_ONE_MACHINE"
"""Set in the environment of workers that all run where the driver does."""
_ALIGNED = 64  # as Arrow wants its buffers


def least_alone_bytes() -> float:
    """How large a payload for one slice must be to go by reference from this worker."""
    return ALONE_BYTES if os.environ.get(ONE_MACHINE) else float("inf")


def lay_down(folder: Path, epoch: int, payloads: Sequence[bytes]) -> list[bytes]:
    """Write payloads for slices of an epoch into one file; gives what `pick_up` needs for each."""
    name, at, references = f"{epoch}/{uuid.uuid4().hex}", 0, []
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "wb") as file:
        for payload in payloads:
            references.append(f"{name}:{at}:{len(payload)}".encode())
            padding = -len(payload) % _ALIGNED
            file.write(payload)
            file.write(bytes(padding))
            at += len(payload) + padding
    return references


def pick_up(folder: Path, reference: bytes) -> pa.Buffer:
    """A payload that was laid down; not copied."""
    name, at, length = bytes(reference).decode().split(":")
    path = folder / name
    try:
        with pa.memory_map(str(path)) as file:
            file.seek(int(at))
            return file.read_buffer(int(length))
    except FileNotFoundError:
        raise RunDirectoryBroken(
            path=path,
            what="a payload of an epoch that is not committed is missing",
            next_step="all workers must see the run directory: choose a shared one with --dir, and run again",
        ) from None


def clear(folder: Path, *, up_to: int) -> None:
    """Drop the payloads of epochs that are committed."""
    for path in folder.glob("[0-9]*"):
        if int(path.name) <= up_to:
            shutil.rmtree(path, ignore_errors=True)
