"""The mass phase: very many mutations of the corpus through compiled kernels, in a process that may die.

Kernels are compiled with bounds checks, so that a read behind the end is an error and no luck. nDPI is C:
a segmentation fault ends the worker, not the search. A worker that dies, or says nothing for too long, is
asked again with fewer and fewer inputs until those that do it are left.
"""

from __future__ import annotations

import hashlib
import json
import os
import selectors
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import penstock

BATCH = 2048
_SILENCE_S = 60
_FIRST_SILENCE_S = 400  # the kernels are compiled in this time, once
_ERROR_LINES = 12


@dataclass(slots=True)
class Ran:
    """What a run has done so far."""

    inputs: int = 0
    packets: int = 0
    flows: int = 0
    slowest_s: float = 0.0
    rss_bytes: list[int] = field(default_factory=list)
    failed: list[tuple[range, str]] = field(default_factory=list)


class Failed(Exception):
    """A worker died or fell silent within a batch."""

    def __init__(self, batch: str, why: str) -> None:
        super().__init__(why)
        self.batch = batch


def batches(count: int) -> list[range]:
    """So many inputs in batches."""
    return [range(first, min(first + BATCH, count)) for first in range(0, count, BATCH)]


def search(
    corpus: Path, seed: int, wanted: Sequence[range], home: Path, goes_on: Callable[[Ran], bool]
) -> Ran:
    """Run batches until ``goes_on`` says no; a batch that fails is noted and the next one begun."""
    ran, todo = Ran(), [_text(batch) for batch in wanted]
    while todo:
        try:
            for told in _worker(corpus, seed, todo, home):
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


def shrunk(corpus: Path, seed: int, batch: range, home: Path) -> list[int]:
    """The fewest inputs of a batch, found by halving, that still make a worker fail."""
    numbers = batch
    while len(numbers) > 1:
        middle = len(numbers) // 2
        halves = (numbers[:middle], numbers[middle:])
        failing = next((half for half in halves if _fails(corpus, seed, half, home)), None)
        if failing is None:
            break  # only both together do it
        numbers = failing
    return list(numbers)


def _fails(corpus: Path, seed: int, numbers: range, home: Path) -> bool:
    try:
        for _ in _worker(corpus, seed, [_text(numbers)], home):
            pass
    except Failed:
        return True
    return False


def _worker(corpus: Path, seed: int, todo: Sequence[str], home: Path) -> Iterator[dict[str, Any]]:
    """What a worker tells after each batch; ends it in any case."""
    environment = {
        **os.environ,
        "NUMBA_BOUNDSCHECK": "1",
        "NUMBA_CACHE_DIR": str(home / "numba" / _version()),
    }
    command = [sys.executable, "-m", "tests.fuzz.worker", str(corpus), str(seed), *todo]
    with (
        open(home / "worker.err", "w+b") as errors,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, env=environment) as process,
    ):
        now = todo[0]
        try:
            for told in _lines(process):
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


@cache
def _version() -> str:
    """The code as a number: numba does not notice when a step that a kernel calls has changed."""
    folder = Path(penstock.__file__).parent
    sources = b"".join(path.read_bytes() for path in sorted(folder.rglob("*.py")))
    return hashlib.sha1(sources).hexdigest()[:12]


def _lines(process: subprocess.Popen[bytes]) -> Iterator[dict[str, Any]]:
    """The lines of a worker; ends when it ends, or has said nothing for too long."""
    assert process.stdout is not None
    patience = _FIRST_SILENCE_S
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while selector.select(patience):
            line = process.stdout.readline()
            if not line:
                process.wait()
                return
            told = json.loads(line)
            patience = _SILENCE_S if "done" in told else patience
            yield told


def _count(ran: Ran, told: dict[str, Any]) -> None:
    ran.inputs += len(_range(told["done"]))
    ran.packets += told["packets"]
    ran.flows += told["flows"]
    ran.slowest_s = max(ran.slowest_s, told["seconds"])
    ran.rss_bytes.append(told["rss_bytes"])


def _text(batch: range) -> str:
    return f"{batch.start}:{batch.stop}"


def _range(batch: str) -> range:
    first, _, stop = batch.partition(":")
    return range(int(first), int(stop))
