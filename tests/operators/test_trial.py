"""Code that kills its process is found out in another one."""

from __future__ import annotations

import ctypes
import os
import signal
from collections.abc import Callable, Iterator
from typing import Any

import polars as pl
import pytest

import penstock as ps
from penstock.errors import OperatorFailed
from penstock.operators.boundary import Boundary
from penstock.operators.trial import ProcessTrial
from penstock.topology.graph import Node, OnError

pytestmark = pytest.mark.long
BATCH = pl.DataFrame({"n": range(9)})


@pytest.fixture(scope="module")
def trial() -> Iterator[ProcessTrial]:
    process = ProcessTrial()
    yield process
    process.close()


def segfault(batch: pl.DataFrame) -> pl.DataFrame:
    if (batch["n"] == 5).any():
        ctypes.string_at(0)
    return batch


def test_the_death_is_told_and_life_goes_on(trial: ProcessTrial) -> None:
    assert trial.death_of(lambda batch: os.kill(os.getpid(), signal.SIGKILL), BATCH) == "SIGKILL"
    assert trial.death_of(segfault, BATCH) == "SIGSEGV"
    assert trial.death_of(lambda batch: os._exit(3), BATCH) == "exit code 3"
    assert trial.death_of(segfault, BATCH.head(3)) is None


def test_ordinary_failures_are_survived(trial: ProcessTrial) -> None:
    assert trial.death_of(lambda batch: batch["missing"], BATCH) is None


def node(on_error: OnError) -> Node:
    top = ps.Topology("t")
    source = ps.Generator(lambda first, count: BATCH, schema={"n": int}, rows=1)
    top.source("s", source).map("native", segfault, returns={"n": int}, on_error=on_error).sink(
        "o", ps.Collect()
    )
    return top.graph["native"]


def test_the_record_that_kills_is_put_aside(trial: ProcessTrial) -> None:
    boundary = Boundary(4, None, trial=trial)
    made = pl.concat(boundary.run(node("dead-letter"), BATCH, segfault))
    assert made["n"].to_list() == [0, 1, 2, 3, 4, 6, 7, 8]
    (letter,) = boundary.letters
    assert (letter["raw"], letter["reason"]) == (b'{"n": 5}', "KilledItsWorker: SIGSEGV")


def test_a_node_that_must_stop_is_named(trial: ProcessTrial) -> None:
    with pytest.raises(OperatorFailed, match=r"'native'.*KilledItsWorker: SIGSEGV"):
        Boundary(4, None, trial=trial).run(node("stop"), BATCH, segfault)


def reads_descriptor_0(batch: pl.DataFrame) -> None:
    os.read(0, 10)


@pytest.mark.parametrize("work", [lambda batch: os.write(1, b"+no"), reads_descriptor_0])
def test_work_that_uses_the_standard_descriptors_is_survived_and_hides_no_later_death(
    trial: ProcessTrial, work: Callable[[pl.DataFrame], Any]
) -> None:
    assert trial.death_of(work, BATCH) is None
    assert trial.death_of(lambda batch: os._exit(3), BATCH) == "exit code 3"
    assert trial.death_of(lambda batch: os.system("echo no"), BATCH) is None
    assert trial.death_of(segfault, BATCH) == "SIGSEGV"
