"""What the harness does to a run from outside, by the name that a fault gives."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING

import psutil

from penstock.control.savepoints import create
from penstock.errors import Fenced, PenstockError
from penstock.spark.options import RunOptions
from penstock.spark.rescaling import rescale
from penstock.testing.chaos.damage import Kind, damage, lose_last_commit
from penstock.testing.chaos.disk import fill
from penstock.testing.chaos.dying import dying
from penstock.testing.chaos.faults import Fault
from penstock.testing.chaos.places import BLOCKS, MASTER, Running
from penstock.testing.chaos.processes import jvms, python_workers, signal_group, strike, wake
from penstock.testing.chaos.restored import continues_wrongly
from penstock.testing.chaos.watched import with_points
from penstock.topology.stream import Topology

if TYPE_CHECKING:
    from penstock.testing.chaos.grounds import OnCluster, Second
    from penstock.testing.chaos.trial import Trial

Action = Callable[["Trial", Running, Fault], bool]
"""Does it; False if the run has ended by it and must be started again. May raise NobodyThere."""
_REFUSED_WITHIN_S = 30.0


class NobodyThere(Exception):
    """There is no process to be hit, for the moment."""


def end_query(trial: Trial, running: Running, fault: Fault) -> bool:
    running.end_abruptly()
    return False


def lose_commit(trial: Trial, running: Running, fault: Fault) -> bool:
    running.rest()  # were a further epoch in its offset log, Spark would not repeat the one that is lost
    lose_last_commit(trial.directory.checkpoint)
    return False


def damage_file(kind: Kind) -> Action:
    def act(trial: Trial, running: Running, fault: Fault) -> bool:
        running.end_abruptly()
        trial.damaged = damage(trial.directory.path, kind, trial.chance)
        return False

    return act


def kill_worker(trial: Trial, running: Running, fault: Fault) -> bool:
    _hit(trial, python_workers(running.pid), signal.SIGKILL)
    return True


def lose_shuffle(trial: Trial, running: Running, fault: Fault) -> bool:
    """Remove files of a shuffle that is under way; Spark has to make them again."""
    files = list(BLOCKS.glob("blockmgr-*/*/shuffle_*"))
    if not files:
        raise NobodyThere
    for path in files:
        path.unlink(missing_ok=True)
    return True


def stop_worker(trial: Trial, running: Running, fault: Fault) -> bool:
    victim = _hit(trial, python_workers(running.pid), signal.SIGSTOP)
    trial.after(fault.seconds, partial(wake, victim.pid))
    return True


def _hit(trial: Trial, victims: list[psutil.Process], signal_: signal.Signals) -> psutil.Process:
    victim = strike(victims, signal_, trial.chance)
    if victim is None:
        raise NobodyThere
    return victim


def change(trial: Trial, running: Running, fault: Fault) -> bool:
    trial.topology, plain = _other_version(trial)
    trial.versions[running.change(trial.topology)] = plain
    return True


def change_and_die(trial: Trial, running: Running, fault: Fault) -> bool:
    """The driver dies while it writes the new version; the next one is started with it."""
    trial.topology, plain = _other_version(trial)
    with dying(trial.directory.path, at_write=trial.chance.randint(0, 8)):
        running.change(trial.topology)
    running.end_abruptly()
    trial.versions |= dict.fromkeys(range(2, 5), plain)  # however often it was begun
    return False


def savepoint(trial: Trial, running: Running, fault: Fault) -> bool:
    """Save the run while it runs; who saves it may die."""
    with dying(trial.directory.path, at_write=trial.chance.choice((5, 20, 10_000))):
        made = create(trial.directory.path, timeout_s=20.0)
        trial.demands.append(partial(continues_wrongly, trial, made))
    return True


def rescale_run(trial: Trial, running: Running, fault: Fault) -> bool:
    """Give it other state partitions; who does it may die."""
    running.rest()
    partitions = trial.chance.choice((1, 3, 4))
    with dying(trial.directory.path, at_write=trial.chance.choice((3, 30, 10_000))):
        rescale(trial.directory.path, RunOptions(master=MASTER, partitions=partitions))
    return False


def _other_version(trial: Trial) -> tuple[Topology, Topology]:
    makers = trial.schedule.check.changes
    plain = makers[(len(trial.versions) - 1) % len(makers)](trial.data)
    return with_points(plain, trial.faults), plain


def fill_disk(trial: Trial, running: Running, fault: Fault) -> bool:
    ballast = fill(trial.data)
    trial.after(fault.seconds, partial(ballast.unlink, missing_ok=True))
    return True


def strike_driver(send: Callable[[int, signal.Signals], None], signal_: signal.Signals) -> Action:
    """Only the Python process (its JVM goes on for a moment, beside the next runner), or its group."""

    def act(trial: Trial, running: Running, fault: Fault) -> bool:
        if running.pid == os.getpid():  # an earlier fault has brought the run here
            return end_query(trial, running, fault)
        try:
            send(running.pid, signal_)
        except ProcessLookupError:  # it is being replaced just now
            raise NobodyThere from None
        return True

    return act


def strike_jvm(signal_: signal.Signals) -> Action:
    """Only the JVM of a driver in another process."""

    def act(trial: Trial, running: Running, fault: Fault) -> bool:
        _hit(trial, jvms(running.pid), signal_)
        return True

    return act


def take_over(trial: Trial, running: Running, fault: Fault) -> bool:
    """Stop a runner, let another one take over, and wake the older one: it must be refused."""
    if running.pid == os.getpid():
        return end_query(trial, running, fault)
    place: Second = trial.place  # type: ignore[assignment]
    signal_group(running.pid, signal.SIGSTOP)
    last = trial.directory.last_progress()
    trial.successor = place.take_over(trial.job)
    trial.after(fault.seconds, partial(signal_group, running.pid, signal.SIGCONT))
    if last is None or not last.finished:  # otherwise there is nothing that it could be refused
        trial.demands.append(partial(_not_refused, running))
    return False


def _not_refused(older: Running) -> str:
    """What the older runner did instead of being refused; nothing if it was."""
    try:
        ended = older.poll(_REFUSED_WITHIN_S)
    except Fenced:
        return ""
    except PenstockError as error:
        return f"the older runner was not refused, it ended with {error}"
    return "the older runner was not refused and " + ("ran to its end" if ended else "goes on")


def strike_executor(signal_: signal.Signals) -> Action:
    def act(trial: Trial, running: Running, fault: Fault) -> bool:
        place: OnCluster = trial.place  # type: ignore[assignment]
        victims = [psutil.Process(pid) for pid in place.cluster.executors()]
        victim = _hit(trial, victims, signal_)
        if signal_ == signal.SIGSTOP:
            trial.after(fault.seconds, partial(wake, victim.pid))
        return True

    return act


ACTIONS: Mapping[str, Action] = {
    "end-query": end_query,
    "lose-commit": lose_commit,
    "tear": damage_file("tear"),
    "double": damage_file("double"),
    "flip": damage_file("flip"),
    "kill-worker": kill_worker,
    "stop-worker": stop_worker,
    "lose-shuffle": lose_shuffle,
    "change": change,
    "change-and-die": change_and_die,
    "savepoint": savepoint,
    "rescale": rescale_run,
    "fill-disk": fill_disk,
    "kill-driver": strike_driver(os.kill, signal.SIGKILL),
    "stop-driver": strike_driver(os.kill, signal.SIGSTOP),
    "kill-group": strike_driver(os.killpg, signal.SIGKILL),
    "kill-jvm": strike_jvm(signal.SIGKILL),
    "stop-jvm": strike_jvm(signal.SIGSTOP),
    "take-over": take_over,
    "kill-executor": strike_executor(signal.SIGKILL),
    "stop-executor": strike_executor(signal.SIGSTOP),
}
