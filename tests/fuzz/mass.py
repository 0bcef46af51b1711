"""The mass phase: very many mutations of the corpus through compiled kernels, in a process that may die.

Kernels are compiled with bounds checks, so that a read behind the end is an error and no luck. nDPI is C:
a segmentation fault ends the worker, not the search. A worker that dies, or works too long without a word, is
asked again with fewer and fewer inputs until those that do it are left.
"""

from __future__ import annotations

import json
import os
import selectors
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import psutil

from tests import bounds

Mode = Literal["mutated", "heavy"]
"""Small mutated captures; or captures that fill the state, and end in small epochs (see `heavy`)."""
BATCH = 4096  # each input of a batch has a VLAN of its own
HEAVY_BATCH = 256
_COMPILING_S = 300  # before a worker's first batch is done; once for each version of the code
_BUSY_MACHINE = 20  # how many times longer the clock may run than the worker did
_LOOK_EVERY_S = 1.0
_ERROR_LINES = 12


@dataclass(slots=True)
class Ran:
    """What a run has done so far."""

    inputs: int = 0
    packets: int = 0
    flows: int = 0
    slowest_s: float = 0.0
    processor_s: float = 0.0
    rss_bytes: list[int] = field(default_factory=list)
    failed: list[tuple[range, str]] = field(default_factory=list)


class Failed(Exception):
    """A worker died or fell silent within a batch."""

    def __init__(self, batch: str, why: str) -> None:
        super().__init__(why)
        self.batch = batch


def batches(count: int, size: int = BATCH) -> list[range]:
    """So many inputs in batches."""
    return [range(first, min(first + size, count)) for first in range(0, count, size)]


@dataclass(frozen=True, slots=True)
class Lab:
    """What workers are started with. One that works for ``silence_s`` without a word hangs.

    That is processor time, so that a busy machine finds nothing; one that waits is given many times as long.
    """

    corpus: Path
    seed: int
    home: Path
    mode: Mode = "mutated"
    worker: str = "tests.fuzz.worker"
    silence_s: float = 60


def search(lab: Lab, wanted: Sequence[range], goes_on: Callable[[Ran], bool]) -> Ran:
    """Run batches until ``goes_on`` says no; a batch that fails is noted and the next one begun."""
    ran, todo = Ran(), [_text(batch) for batch in wanted]
    while todo:
        try:
            for told in _worker(lab, todo):
                _count(ran, told)
                if not goes_on(ran):
                    return ran
            return ran
        except Failed as failure:
            batch = failure.batch
            ran.failed.append((_range(batch), str(failure)))
            todo = todo[todo.index(batch) + 1 :]
            if not goes_on(ran):
                return ran
    return ran


def shrunk(lab: Lab, batch: range) -> list[int]:
    """The fewest inputs of a batch, found by halving, that still make a worker fail."""
    numbers = batch
    while len(numbers) > 1:
        middle = len(numbers) // 2
        halves = (numbers[:middle], numbers[middle:])
        failing = next((half for half in halves if _fails(lab, half)), None)
        if failing is None:
            break  # only both together do it
        numbers = failing
    return list(numbers)


def _fails(lab: Lab, numbers: range) -> bool:
    try:
        for _ in _worker(lab, [_text(numbers)]):
            pass
    except Failed:
        return True
    return False


def _worker(lab: Lab, todo: Sequence[str]) -> Iterator[dict[str, Any]]:
    """What a worker tells after each batch; ends it in any case."""
    environment = bounds.environment(lab.home / "numba")
    command = [sys.executable, "-m", lab.worker, str(lab.corpus), str(lab.seed), lab.mode, *todo]
    with (
        open(lab.home / "worker.err", "w+b") as errors,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, env=environment) as process,
    ):
        now = todo[0]
        try:
            for told in _lines(process, lab.silence_s):
                now = told.get("begun", now)
                if "done" in told:
                    yield told
        finally:
            process.kill()
            code = process.wait()
        if code:
            errors.seek(0)
            lines = errors.read().decode(errors="replace").splitlines()[-_ERROR_LINES:]
            why = f"signal {-code}" if code < 0 else f"exit {code}"
            raise Failed(now, "\n".join([why, *lines]))


def _lines(process: subprocess.Popen[bytes], silence_s: float) -> Iterator[dict[str, Any]]:
    """The lines of a worker; ends when it ends, or has said nothing for too long."""
    assert process.stdout is not None
    place, patience, rest = process.stdout.fileno(), silence_s + _COMPILING_S, b""
    with selectors.DefaultSelector() as selector:
        selector.register(place, selectors.EVENT_READ)
        while _speaks(selector, process.pid, patience):
            said = os.read(place, 1 << 16)  # a buffered file would hide lines from the selector
            if not said:
                process.wait()
                return
            *lines, rest = (rest + said).split(b"\n")
            for line in lines:
                told = json.loads(line)
                patience = silence_s if "done" in told else patience
                yield told


def _speaks(selector: selectors.BaseSelector, worker: int, patience_s: float) -> bool:
    """Wait for a word of a worker; False if it works or waits too long without one."""
    began, worked = time.monotonic(), _worked_s(worker)
    while not selector.select(_LOOK_EVERY_S):
        if _worked_s(worker) - worked > patience_s or time.monotonic() - began > patience_s * _BUSY_MACHINE:
            return False
    return True


def _worked_s(worker: int) -> float:
    times = psutil.Process(worker).cpu_times()
    return float(times.user + times.system)


def _count(ran: Ran, told: dict[str, Any]) -> None:
    ran.inputs += len(_range(told["done"]))
    ran.packets += told["packets"]
    ran.flows += told["flows"]
    ran.processor_s += told["processor_s"]
    ran.slowest_s = max(ran.slowest_s, told["seconds"])
    ran.rss_bytes.append(told["rss_bytes"])


def _text(batch: range) -> str:
    return f"{batch.start}:{batch.stop}"


def _range(batch: str) -> range:
    first, _, stop = batch.partition(":")
    return range(int(first), int(stop))
