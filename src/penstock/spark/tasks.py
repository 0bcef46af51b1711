"""What every task of the fabric needs: recorded failures, and frames for records that were put aside."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from itertools import count
from pathlib import Path

import polars as pl
from pyspark.core.files import SparkFiles
from pyspark.taskcontext import TaskContext

from penstock.control.run_directory import RunDirectory
from penstock.errors import Fenced, InternalError, PenstockError, SourceUnavailable, StateUnreachable
from penstock.frames.frame import Frame, encode
from penstock.frames.types import to_polars
from penstock.operators.boundary import DEAD_LETTERS, Boundary
from penstock.operators.trial import ProcessTrial
from penstock.spark.rows import LETTERS, Stamper

_COLLECT_AFTER = 100_000
"""So many new objects before Python looks for circles among them; its default is 700."""
_BEGINNING = 4
"""So many calls until a process has imported all that it needs."""
_calls = count()


@contextmanager
def failures_recorded(directory: RunDirectory) -> Iterator[None]:
    """Leave a Penstock error where the runner finds it, and let it pass."""
    try:
        yield
    except (Fenced, StateUnreachable):
        # The directory is another runner's, which would take it for its own failure; or Spark has ended this
        # task for a failure that another one has recorded.
        raise
    except PenstockError as error:
        directory.record_failure(error)
        raise
    spare_what_was_imported()


@contextmanager
def known_by(name: str) -> Iterator[None]:
    """Let a source that is unavailable be told by the name that the topology has for it.

    What the system says about its place makes it unavailable, too: it is waited for.
    """
    try:
        yield
    except SourceUnavailable as error:
        raise SourceUnavailable(**{**error.parameters, "source": name}) from error
    except OSError as error:
        step = "it is asked again for as long as the run has patience"
        raise SourceUnavailable(
            source=name, what=f"{type(error).__name__}: {error}", where="its place", next_step=step
        ) from error


def spare_what_was_imported() -> None:
    """Let garbage collections pass over what this process holds now, and be rare; in its beginning only.

    Spark collects after every task. Going through all that was imported took a worker about 80 ms, in
    each of the three workers of a small epoch. Within a task, lists of many objects come and go.
    """
    if next(_calls) < _BEGINNING:
        gc.collect()
        gc.freeze()
        gc.set_threshold(_COLLECT_AFTER)


def epoch_of_task() -> int:
    """The epoch that the running task belongs to."""
    context = TaskContext.get()
    epoch = None if context is None else context.getLocalProperty("streaming.sql.batchId")
    if epoch is None:
        raise InternalError(what="a task of the fabric runs outside of an epoch")
    return int(epoch)


@cache
def _trial() -> ProcessTrial:
    """One for each worker; it ends with the worker."""
    return ProcessTrial()


def local_folder() -> Path | None:
    """Return a folder on this executor's own disk; None outside of Spark."""
    return Path(SparkFiles.getRootDirectory()) if TaskContext.get() is not None else None


def mirror_folder(hop: str, node: str, slice_: int) -> Path:
    """Where the workers of this executor keep values of a slice's log; Spark drops it with the session."""
    return Path(SparkFiles.getRootDirectory(), "penstock", hop, node, str(slice_))


def boundary_for(directory: RunDirectory, epoch: int, place: str) -> Boundary:
    """The user's code is tried first in an epoch that has killed a worker."""
    careful = directory.read_careful() == epoch
    return Boundary(epoch, directory.failures, place, trial=_trial() if careful else None)


def letters_frame(boundary: Boundary, stamper: Stamper, place: int) -> list[Frame]:
    """The records that were put aside since the last call, as a frame for their table."""
    letters, boundary.letters = boundary.letters, []
    if not letters:
        return []
    payload = encode(pl.DataFrame(letters, schema=to_polars(DEAD_LETTERS)))
    return [stamper.control(LETTERS, place % 120, "letters", payload)]
