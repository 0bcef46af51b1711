"""Start a topology on Spark, watch it, change it, stop it."""

from __future__ import annotations

import datetime as dt
import time
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from penstock.connect.private import FILE
from penstock.connect.secret import require_secrets
from penstock.connect.source import END_OF_TIME
from penstock.control.changes import ChangePlan, plan_change, require_applicable
from penstock.control.checkpoint import check, last_committed, next_epoch
from penstock.control.holding import clear_holds
from penstock.control.incidents import Incident, IncidentLog
from penstock.control.mending import let_mended_code_run, note_failure
from penstock.control.progress import Progress
from penstock.control.rebuilding import prepare, stored_program
from penstock.control.rescale_swap import finish_rescale
from penstock.control.run_directory import RunDirectory
from penstock.control.run_reader import RunReader
from penstock.errors import SparkGone, StreamFailed
from penstock.plan.passes import plan
from penstock.plan.program import Program
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

_POLL_S = 0.05
SPARK_IS_GONE = (Py4JError, PySparkException, OSError)
"""What a call to a JVM that has died, or whose context was stopped from outside, may raise."""


def start(topology: Topology, options: RunOptions | None = None) -> Handle:
    """Run a topology; going on where its directory says that it stopped."""
    options = options or RunOptions()
    program = plan(topology)
    require_secrets({**program.sources, **program.sinks})
    directory = RunDirectory(run_directory(topology.name, options))
    run_id = directory.open(topology.name)
    lock = ExitStack()
    lock.enter_context(directory.lock(take_over=options.take_over))
    try:
        prepare(directory, program)
        term = directory.begin_term()
        clear_holds(directory)
        finish_rescale(directory)
        check(directory.path)
        fabric = _fabric(directory, program, options)
        change = _adopt(directory, program, fabric["hops"], options)
        directory.end_holds()
        directory.take_failure()
        clear(directory.handover)
        for name, spec in change.program.sources.items():
            lock.enter_context(spec.source.attend(directory.planners / name))
        query = _query(change.program, directory, run_id, term, options, fabric)
    except BaseException:
        lock.close()
        raise
    return Handle(topology, directory, term, options, change, fabric, query, lock)


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
        topology: Topology,
        directory: RunDirectory,
        term: int,
        options: RunOptions,
        adopted: ChangePlan,
        fabric: dict[str, int],
        query: StreamingQuery,
        lock: ExitStack,
    ) -> None:
        self.topology = topology
        self.adopted = adopted
        self.query = query
        self._directory = directory
        self._term = term
        self._options = options
        self._program = adopted.program
        self._fabric = fabric
        self._lock = lock
        self._reader = RunReader(directory)
        self._was_cut_off = False

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

    def change(self, topology: Topology, *, allow_state_loss: bool = False) -> Change:
        """Let the next epoch run another version of the topology. Nothing stops or restarts.

        Raises BadChange, with what would be needed, if the running fabric cannot take it.
        """
        version = max(self._directory.versions()) + 1
        change = plan_change(self._program, plan(topology), version=version, hops=self._fabric["hops"])
        require_applicable(change, allow_state_loss=allow_state_loss)
        require_secrets({**change.program.sources, **change.program.sinks})
        self._directory.store(version, change.program)
        self._directory.make_current(version)
        self.topology, self._program = topology, change.program
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
        return kind(topology=self.topology.name, epoch=epoch, reason=reason)

    def _release(self) -> None:
        self._lock.close()


def epoch_versions(directory: RunDirectory) -> list[tuple[int, int]]:
    """The version of each planned epoch that Spark's log still has, in order."""
    found = []
    for path in (directory.checkpoint / "offsets").glob("[0-9]*"):
        try:
            found.append((int(path.name), int(read_offset(directory, int(path.name))["version"])))
        except (LookupError, ValueError, FileNotFoundError):  # being written, or just cleaned up
            continue
    return sorted(found)


def _adopt(directory: RunDirectory, program: Program, hops: int, options: RunOptions) -> ChangePlan:
    """Make the topology the current version, as a change of the one that ran last."""
    current = directory.current()
    if current == 0:
        change = plan_change(_nothing(program), program, version=1, hops=hops)
    else:
        running = stored_program(directory, current, program)
        change = plan_change(running, program, version=max(directory.versions()) + 1, hops=hops)
        require_applicable(change, allow_state_loss=options.allow_state_loss)
        if not change:
            return ChangePlan(
                program=directory.load(current),
                version=current,
                kept=change.kept,
                added=(),
                swapped=(),
                removed=(),
                lost=(),
            )
    directory.store(change.version, change.program)
    let_mended_code_run(directory, change)
    directory.make_current(change.version)
    return change


def _nothing(program: Program) -> Program:
    from penstock.topology.graph import Graph

    return Program(Graph(program.graph.name), {}, {})


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
    term: int,
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


__all__ = ["Change", "Handle", "start"]
