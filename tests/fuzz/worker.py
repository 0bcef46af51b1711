"""A process that leads batches of mutated captures through compiled kernels, and tells how far it is.

``python -m tests.fuzz.worker CORPUS SEED MODE RANGE…`` takes the inputs of each RANGE (``0:2048``) as one
batch and writes a line of JSON before and after it. What goes wrong ends the process: `mass` finds the input.
"""

from __future__ import annotations

import faulthandler
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import psutil

from penstock.errors import NdpiUnusable
from penstock.net import capture
from penstock.net.dpi import Choice
from penstock.net.dpi.ndpi import Ndpi
from tests import bounds
from tests.fuzz.heavy import TAIL, Heavy
from tests.fuzz.mutation import Mutator
from tests.fuzz.whole_path import Followed, follow, inspect_as_file

ENGINES_FIRST: tuple[Choice, ...] = ("builtin",)
_BUFFER_BYTES, _BLOCK_RECORDS = 1 << 10, 1 << 6
"""Inputs have a few kB: buffers of the usual size are never filled twice, and take time to make."""
_INSPECTED = 64  # one of so many inputs goes through a file as well, which costs as much as thirty


def engines() -> tuple[Choice, ...]:
    """The engines that are here."""
    try:
        Ndpi()
    except NdpiUnusable:
        return ENGINES_FIRST
    return (*ENGINES_FIRST, "ndpi")


def corpus_of(folder: Path) -> list[bytes]:
    """The captures in a folder, by name: libFuzzer names them after their content."""
    return [path.read_bytes() for path in sorted(folder.iterdir()) if path.is_file()]


def run(numbers: Sequence[int], inputs: Mutator | Heavy, judges: Sequence[Choice], folder: Path) -> Followed:
    """Lead the inputs with these numbers through everything."""
    captures = [inputs.made(number) for number in numbers]
    for number, made in zip(numbers, captures, strict=True):
        if number % _INSPECTED == 0:
            inspect_as_file(made, folder)
    return follow(captures, judges, tail=TAIL if isinstance(inputs, Heavy) else 0)


def inputs_of(mode: str, corpus: Path, seed: int) -> Mutator | Heavy:
    """What makes the inputs of a mode."""
    return Heavy(seed) if mode == "heavy" else Mutator(corpus_of(corpus), seed)


def main(corpus: str, seed: str, mode: str, *ranges: str) -> None:
    """Run all batches in order."""
    faulthandler.enable()
    capture.BUFFER_BYTES, capture.BLOCK_RECORDS = _BUFFER_BYTES, _BLOCK_RECORDS
    bounds.refuse_negative_indices()
    inputs, judges, process = inputs_of(mode, Path(corpus), int(seed)), engines(), psutil.Process()
    with tempfile.TemporaryDirectory() as folder:
        for batch in ranges:
            first, _, stop = batch.partition(":")
            _tell(begun=batch)
            started, worked = time.perf_counter(), time.process_time()
            found = run(range(int(first), int(stop)), inputs, judges, Path(folder))
            seconds = time.perf_counter() - started
            _tell(
                done=batch,
                seconds=seconds,
                processor_s=time.process_time() - worked,
                rss_bytes=process.memory_info().rss,
                packets=found.packets,
                flows=found.flows,
            )


def _tell(**facts: object) -> None:
    print(json.dumps(facts), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
