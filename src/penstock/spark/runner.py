"""Start a topology on Spark, watch it, change it, stop it."""

from __future__ import annotations

import datetime as dt
import logging
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from penstock.connect.private import FILE
from penstock.connect.secret import require_secrets
from penstock.connect.source import END_OF_TIME
from penstock.control.adoption import Adoption, adopt, unchanged
from penstock.control.changes import ChangePlan, plan_change
from penstock.control.changing import change_version
from penstock.control.checkpoint import check, last_committed, next_epoch
from penstock.control.holding import clear_holds
from penstock.control.incidents import Incident, IncidentLog
from penstock.control.mending import let_mended_code_run, note_failure
from penstock.control.progress import Progress
from penstock.control.rebuilding import prepare
from penstock.control.rescale_swap import finish_rescale
from penstock.control.run_directory import RunDirectory
from penstock.control.run_reader import RunReader
from penstock.control.source_changes import Decision
from penstock.errors import PenstockError, RunDirectoryMismatch, SparkGone, StreamFailed
from penstock.plan.passes import plan
from penstock.plan.program import Program
from penstock.spark.attendance import Attendance
from penstock.spark.causes import cause_of
from penstock.spark.damage import damage_in
from penstock.spark.handover import clear
from penstock.spark.intake import FORMAT
from penstock.spark.lowering import lay_fabric
from penstock.spark.offset_log import read_offset
from penstock.spark.options import RunOptions, partitions_for, run_directory
from penstock.spark.session import cores_of, is_one_process, open_session
from penstock.spark.thread_settings import let_threads_follow
from penstock.topology.stream import Topology

if TYPE_CHECKING:
    from pyspark.sql.streaming import StreamingQuery

_LOG = logging.getLogger("penstock.spark.runner")
_POLL_S = 0.05
SPARK_IS_GONE = (Py4JError, PySparkException, OSError)
"""What a call to a JVM that has died, or whose context was stopped from outside, may raise."""


def start(topology: Topology, options: RunOptions | None = None) -> Handle:
    """Run a topology; going on where its directory says that it stopped.

    A topology that differs from the run's current version is applied if that version came from the same app,
    or if ``options.apply`` says so. Otherwise the current version runs (see ``Handle.not_applied``).
    """
    options = options or RunOptions()
    program = plan(topology)
    require_secrets({**program.sources, **program.sinks})
    directory = RunDirectory(run_directory(topology.name, options))
    with ExitStack() as undo:
        lock = undo.enter_context(ExitStack())
        with _written_to(directory, topology.name):
            directory.open(topology.name)
            term = _begin(directory, options, lock, program)
            adoption = adopt(directory, program, options)
        if adoption.proposed is not None:
            _LOG.warning("%s", adoption.report())
        handle = _go_on(directory, term, options, adoption, lock)
        undo.pop_all()
    return handle


def resume(directory: Path, options: RunOptions | None = None) -> Handle:
    """Run the current version of a run directory, which needs no topology."""
    options = options or RunOptions()
    run = RunDirectory(directory.resolve())
    run.require_card()
    with ExitStack() as undo:
        lock = undo.enter_context(ExitStack())
        with _written_to(run, str(run.read_card()["topology"])):
            term = _begin(run, options, lock)
        version = run.current()
        if not version:
            step = "start it with its topology first (penstock run APP)"
            raise RunDirectoryMismatch(directory=run.path, what="has no version yet", next_step=step)
        handle = _go_on(run, term, options, Adoption(unchanged(run.load(version), version)), lock)
        undo.pop_all()
    return handle


def _begin(
    directory: RunDirectory, options: RunOptions, lock: ExitStack, program: Program | None = None
) -> str:
    """Become the directory's runner, and finish what was broken off. Return the fencing token."""
    lock.enter_context(directory.lock(take_over=options.take_over))
    if program is not None:
        prepare(directory, program)
    term = directory.begin_term()
    clear_holds(directory)
    finish_rescale(directory)
    check(directory.path)
    return term


def _go_on(
    directory: RunDirectory, term: str, options: RunOptions, adoption: Adoption, lock: ExitStack
) -> Handle:
    """Start the query of the current version."""
    change = adoption.plan
    require_secrets({**change.program.sources, **change.program.sinks})
    with _written_to(directory, change.program.graph.name):
        fabric = _fabric(directory, change.program, options)
        directory.require_term(term)  # this start may have been held up for any time
        let_mended_code_run(directory, change)
        directory.end_holds()
        directory.take_failure()
        _clear_handover(directory)
    attendance = Attendance(directory)
    lock.callback(attendance.close)
    attendance.follow(change.program)
    run_id = str(directory.read_card()["run_id"])
    query = _query(change.program, directory, run_id, term, options, fabric)
    return Handle(directory, term, options, adoption, fabric, query, lock, attendance)


@contextmanager
def _written_to(directory: RunDirectory, topology: str) -> Iterator[None]:
    """Report a run directory that cannot be written, on a full disk for instance, as a failure of the run."""
    try:
        yield
    except PenstockError:  # some are OSErrors too
        raise
    except OSError as error:
        reason, epoch = f"its run directory cannot be written ({error})", next_epoch(directory.checkpoint)
        raise StreamFailed(topology=topology, epoch=epoch, reason=reason) from error


@dataclass(frozen=True, slots=True)
class Change:
    """A change on its way into a running topology."""

    plan: ChangePlan
    _directory: RunDirectory

    @property
    def version(self) -> int:
        return self.plan.version

    def first_epoch(self, timeout_s: float = 60.0) -> int:
        """Wait until an epoch was planned under the new version, and tell which is the first."""
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            for epoch, version in epoch_versions(self._directory):
                if version >= self.plan.version:
                    return epoch
            time.sleep(_POLL_S)
        raise TimeoutError(f"version {self.plan.version} was not taken up within {timeout_s:g} s")


class Handle:
    """A running topology."""

    def __init__(
        self,
        directory: RunDirectory,
        term: str,
        options: RunOptions,
        adoption: Adoption,
        fabric: dict[str, int],
        query: StreamingQuery,
        lock: ExitStack,
        attendance: Attendance,
    ) -> None:
        self.adopted = adoption.plan
        self.not_applied = adoption.proposed
        """What the topology given at the start would have changed, if the version came from elsewhere."""
        self.query = query
        self._directory = directory
        self._term = term
        self._options = options
        self._fabric = fabric
        self._lock = lock
        self._attendance = attendance
        self._seen = adoption.plan.version
        self._reader = RunReader(directory)
        self._was_cut_off = False

    @property
    def topology(self) -> Topology:
        """The topology of the version that the next epoch takes."""
        graph = self._program.graph
        return Topology(graph.name, graph)

    @property
    def _program(self) -> Program:
        return self._directory.load(self.version)

    @property
    def directory(self) -> Path:
        return self._directory.path

    @property
    def version(self) -> int:
        """The version that the next epoch takes."""
        return self._directory.current()

    def progress(self) -> Progress | None:
        """The newest committed epoch."""
        return self._directory.last_progress()

    def history(self) -> list[Progress]:
        """The epochs committed since the log was last cut, oldest first; one run again counts once."""
        return self._reader.history()

    def console(self) -> list[str]:
        """Lines of console sinks since the last call."""
        return self._reader.console()

    def offset(self) -> dict[str, Any]:
        """How far the newest planned epoch reads: version, offsets of the sources, punctuation."""
        newest = max(int(path.name) for path in (self._directory.checkpoint / "offsets").glob("[0-9]*"))
        return read_offset(self._directory, newest)

    def plan(self, topology: Topology, *, sources: Mapping[str, Decision] | None = None) -> ChangePlan:
        """Return what a change to a topology would do to the current version. Changes nothing."""
        version, hops = self._directory.next_version(), self._fabric["hops"]
        return plan_change(self._program, plan(topology), version=version, hops=hops, sources=sources)

    def change(
        self,
        topology: Topology,
        *,
        allow_state_loss: bool = False,
        sources: Mapping[str, Decision] | None = None,
        planned_on: int | None = None,
    ) -> Change:
        """Let the next epoch run another version of the topology. Nothing stops or restarts.

        ``planned_on`` is the version that you have looked at; by default the one that this handle has started
        with or made last. Raises ChangedMeanwhile if another version has become current since, BadChange if
        the running fabric cannot take the change, and SourceUndecided if a source reads another place and
        ``sources`` does not say what becomes of it ("continue" or "anew", by name).
        """
        self._directory.require_term(self._term)
        program = plan(topology)
        require_secrets({**program.sources, **program.sinks})
        change = change_version(
            self._directory,
            program,
            planned_on=self._seen if planned_on is None else planned_on,
            hops=self._fabric["hops"],
            allow_state_loss=allow_state_loss,
            sources=sources,
        )
        self._seen = change.version
        self._attendance.follow(change.program)
        return Change(change, self._directory)

    def poll(self, timeout_s: float) -> bool:
        """Wait a while; True when the run has ended. Raises what failed it."""
        deadline = time.monotonic() + timeout_s
        while True:
            if self._has_ended():
                return True
            if time.monotonic() >= deadline:
                return False
            time.sleep(min(_POLL_S, max(0.0, deadline - time.monotonic())))

    def wait(self) -> None:
        """Wait for the end of the run. Raises what failed it."""
        while not self.poll(1.0):
            pass

    def stop(self, timeout_s: float = 60.0) -> bool:
        """End at an epoch boundary: the running epoch is finished, none begins.

        An epoch that takes longer than the limit is ended in its middle, which is safe: the next run repeats
        it. Return False for a run that had to be ended so.
        """
        at_boundary = not self._was_cut_off
        with suppress(*SPARK_IS_GONE):  # then there is nothing to stop: the next run repeats the epoch
            if at_boundary and self.query.isActive:
                self._directory.hold(self._term).touch(FILE)
                at_boundary = self._comes_to_rest(timeout_s)
                self._was_cut_off = not at_boundary
                self.query.stop()
        self._release()
        return at_boundary

    def _comes_to_rest(self, timeout_s: float) -> bool:
        """Wait for the end of the running epoch. Return whether it came; if not, leave an incident."""
        deadline = time.monotonic() + timeout_s
        while self.query.isActive and not self._is_idle():
            if time.monotonic() >= deadline:
                epoch = next_epoch(self._directory.checkpoint)
                what = f"epoch {epoch} was not finished within {timeout_s:g} s of the request to stop"
                action = "it was ended in its middle; the next run repeats it"
                log = IncidentLog(self._directory.incidents)
                log.add(Incident(time.time_ns(), epoch, "handled", what, action))
                return False
            time.sleep(_POLL_S)
        return True

    def __enter__(self) -> Handle:
        return self

    def __exit__(self, *args: object) -> None:
        self.stop()

    def _has_ended(self) -> bool:
        try:
            return self._looks_ended()
        except SPARK_IS_GONE as error:
            self._release()
            raise self._failed(f"Spark is gone ({type(error).__name__})", SparkGone) from error

    def _looks_ended(self) -> bool:
        self._attendance.follow(self._program)  # another process may have changed the run
        if not self.query.isActive:
            self._release()
            self._raise_failure()
            return True
        if self._options.until == "caught-up" and self._is_idle() and self._has_read_all():
            self.stop()
            return True
        if self._options.until == "finished" and self._is_idle() and self._has_finished():
            self.stop()
            return True
        return False

    def _is_idle(self) -> bool:
        status = self.query.status
        return (
            not status["isTriggerActive"] and not status["isDataAvailable"] and "Waiting" in status["message"]
        )

    def _has_read_all(self) -> bool:
        """Whether Spark has looked for data under the current version and found none."""
        newest = max((version for _, version in epoch_versions(self._directory)), default=0)
        return newest == self.version

    def _has_finished(self) -> bool:
        progress, done = self.progress(), last_committed(self._directory.checkpoint)
        if done is None or not self._has_read_all():
            return False
        if progress is not None and progress.epoch == done:
            return progress.finished
        # The log of progress is for people and may be cut or damaged: the offsets say it too.
        promises = read_offset(self._directory, done)["punctuation"].get("sources", {})
        return all(promises.get(name) == END_OF_TIME for name in self._program.sources)

    def _raise_failure(self) -> None:
        error = self.query.exception()
        if error is None:
            return
        # Spark may notice a newer runner first, by a file that both of them write.
        self._directory.require_term(self._term)
        recorded = self._directory.take_failure()
        if damage := damage_in(f"{error} {recorded}", self._directory):
            raise damage
        if recorded is not None:
            note_failure(self._directory, recorded)
            raise recorded
        failure = self._failed(cause_of(error))
        with suppress(OSError):  # on a full disk the epoch is run again without care
            self._directory.be_careful(failure.parameters["epoch"])  # no code owned up: a worker may be dead
        raise failure

    def _failed(self, reason: str, kind: type[StreamFailed] = StreamFailed) -> StreamFailed:
        epoch = next_epoch(self._directory.checkpoint)
        return kind(topology=self._directory.topology(), epoch=epoch, reason=reason)

    def _release(self) -> None:
        _clear_handover(self._directory)
        self._lock.close()


def _clear_handover(directory: RunDirectory) -> None:
    """Drop the payloads of committed epochs; those of a later one may be in use by a newer runner."""
    done = last_committed(directory.checkpoint)
    clear(directory.handover, up_to=-1 if done is None else done)


def epoch_versions(directory: RunDirectory) -> list[tuple[int, int]]:
    """The version of each planned epoch that Spark's log still has, in order."""
    found = []
    for path in (directory.checkpoint / "offsets").glob("[0-9]*"):
        try:
            found.append((int(path.name), int(read_offset(directory, int(path.name))["version"])))
        except (LookupError, ValueError, FileNotFoundError):  # being written, or just cleaned up
            continue
    return sorted(found)


def _fabric(directory: RunDirectory, program: Program, options: RunOptions) -> dict[str, int]:
    """The shape of the fabric: chosen at the first start, kept by the checkpoint ever after."""
    tasks = cores_of(options.master)
    shape = directory.fabric()
    if shape is None:
        shape = {
            "hops": max(program.hops, options.hops or 0),
            "partitions": options.partitions or partitions_for(tasks),
        }
        directory.write_fabric(**shape)
    return {**shape, "tasks": tasks}


def _query(
    program: Program,
    directory: RunDirectory,
    run_id: str,
    term: str,
    options: RunOptions,
    fabric: dict[str, int],
) -> StreamingQuery:
    spark = open_session(options, directory.path, fabric["partitions"], has_dataframes=bool(program.natives))
    # Elsewhere the next epoch's part would often be given to another machine than the one that has read it.
    reads_ahead = is_one_process(options.master)
    place = directory.path
    frames = lay_fabric(
        spark, program, directory=place, run_id=run_id, term=term, reads_ahead=reads_ahead, **fabric
    )
    writer = (
        frames.writeStream.format(FORMAT)
        .option("directory", str(place))
        .option("run_id", run_id)
        .option("term", term)
        .option("tasks", fabric["tasks"])
        .option("partitions", fabric["partitions"])
        .option("checkpointLocation", str(directory.checkpoint))
        .outputMode("append")
    )
    query = writer.trigger(processingTime=_interval(options.every)).start()
    let_threads_follow(spark)
    return query


def _interval(every: dt.timedelta | None) -> str:
    return f"{int((every or dt.timedelta()).total_seconds() * 1000)} milliseconds"


__all__ = ["Change", "Handle", "resume", "start"]
