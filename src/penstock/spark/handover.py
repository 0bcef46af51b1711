"""Large payloads that go to many slices, or wait for their sink: files of the epoch, which frames refer to.

Through the exchange each state partition would get a copy of its own, and each copy is copied again on the
way: for six receivers in two partitions a sender used 1.36 times the processor time of one receiver. What is
bound for a sink would be copied again in every hop that it passes, and none of them looks at it.
The run directory is shared by all workers already; files are dropped when their epoch is committed.
"""

from __future__ import annotations

import shutil
import uuid
from pathlib import Path

import pyarrow as pa

from penstock.connect.private import open_private
from penstock.errors import RunDirectoryBroken

BY_REFERENCE_BYTES = 16 << 10
"""Smaller payloads travel in their frames: a file costs more than the copies."""


def lay_down(folder: Path, epoch: int, payload: bytes) -> bytes:
    """Write a payload for the slices of an epoch; gives what `pick_up` needs."""
    name = f"{epoch}/{uuid.uuid4().hex}"
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "wb", opener=open_private) as file:
        file.write(payload)
    return name.encode()


def payload_of(kind: str, payload: bytes, folder: Path) -> bytes | pa.Buffer:
    """What a frame carries, or refers to."""
    return pick_up(folder, payload) if kind == "reference" else payload


def pick_up(folder: Path, reference: bytes) -> pa.Buffer:
    """A payload that was laid down; not copied."""
    path = folder / bytes(reference).decode()
    try:
        with pa.memory_map(str(path)) as file:
            return file.read_buffer()
    except FileNotFoundError:
        raise RunDirectoryBroken(
            path=path,
            what="a payload of an epoch that is not committed is missing",
            next_step="all workers must see the run directory: choose a shared one with --dir, and run again",
        ) from None


def clear(folder: Path, *, up_to: int | None = None) -> None:
    """Drop the payloads of epochs that are committed; without a number, those of all that were tried."""
    for path in folder.glob("[0-9]*"):
        if up_to is None or int(path.name) <= up_to:
            shutil.rmtree(path, ignore_errors=True)
