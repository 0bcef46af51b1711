"""The kinds of trouble, each a function from a source of chance to faults."""

from __future__ import annotations

import random
from collections.abc import Sequence

from penstock.testing.chaos.endings import DAMAGE, DEATH, DRIVER_DEATH, NO_ROOM, NOT_RESCALED, NOT_SAVED
from penstock.testing.chaos.faults import COMMITTED, POINTS, Deed, Fault
from penstock.testing.chaos.schedules import Draw, Scenario

_PROCESS_POINTS = tuple(point for point in POINTS if point != "in-commit")


def at_point(point: str) -> Draw:
    """A process dies there once, or also when it is tried again; or the driver dies while it is there."""

    def draw(chance: random.Random) -> Sequence[Fault]:
        visit = chance.randint(1, 4)
        how = chance.choice(("once", "twice", "driver"))
        if how == "driver":
            return [Fault(point, visit, "hold")]
        return [Fault(point, visit + i, "die") for i in range(1 if how == "once" else 2)]

    return draw


def from_outside(*actions: str, seconds: float = 0.0) -> Draw:
    """Something is done to the run from outside between two epochs."""

    def draw(chance: random.Random) -> Sequence[Fault]:
        longest = seconds and round(chance.uniform(0.2, seconds), 1)
        return [Fault(COMMITTED, chance.randint(1, 4), "do", longest, chance.choice(actions))]

    return draw


def any_death(chance: random.Random, earliest: int = 1) -> Fault:
    """A process dies somewhere."""
    deeds: tuple[Deed, ...] = ("die", "hold")
    deed = chance.choice(deeds)
    return Fault(chance.choice(_PROCESS_POINTS), chance.randint(earliest, earliest + 3), deed)


def slow(chance: random.Random) -> Sequence[Fault]:
    """Some processes pause; more than one fails to come back in time for the others."""
    points = chance.sample(_PROCESS_POINTS, 3)
    deeds: tuple[Deed, ...] = ("sleep", "freeze")
    return [
        Fault(point, chance.randint(1, 4), chance.choice(deeds), round(chance.uniform(0.1, 0.8), 1))
        for point in points
    ]


def clock(chance: random.Random) -> Sequence[Fault]:
    """The clocks of some processes jump by up to two hours, and one of them dies, so that it jumps back."""
    jumps = [
        Fault(
            chance.choice(_PROCESS_POINTS), chance.randint(1, 4), "jump", float(chance.randint(-7200, 7200))
        )
        for _ in range(3)
    ]
    return [*jumps, any_death(chance, 3)]


def two_at_once(chance: random.Random) -> Sequence[Fault]:
    """A process dies, and at the same epoch another one does, or a worker is killed."""
    first = any_death(chance)
    second = Fault(
        COMMITTED, max(1, first.visit - 1), "do", action=chance.choice(("kill-worker", "end-query"))
    )
    return [first, second]


def during_recovery(chance: random.Random) -> Sequence[Fault]:
    """Three deaths in a row, each as soon as the run is back from the one before."""
    point = chance.choice(("planning", "after-offsets", "reading", "in-write", "before-sink", "after-sink"))
    visit = chance.randint(1, 4)
    return [Fault(point, visit + i, chance.choice(("die", "hold"))) for i in range(4)]


def during_change(chance: random.Random) -> Sequence[Fault]:
    """The topology is changed, and a process dies in the epochs around the change."""
    epoch = chance.randint(1, 3)
    change = Fault(COMMITTED, epoch, "do", action="change")
    point = chance.choice(_PROCESS_POINTS)
    deaths = [Fault(point, epoch + chance.randint(0, 2), chance.choice(("die", "hold")))]
    if chance.random() < 0.5:
        deaths.append(Fault(COMMITTED, epoch + 1, "do", action=chance.choice(("end-query", "lose-commit"))))
    return [change, *deaths]


def many_changes(chance: random.Random) -> Sequence[Fault]:
    """The topology is changed at every epoch, and a process dies in the middle of it."""
    changes = [Fault(COMMITTED, epoch, "do", action="change") for epoch in range(1, 4)]
    return [*changes, any_death(chance)]


def slow_commit(chance: random.Random) -> Sequence[Fault]:
    """A commit takes so long that state is maintained meanwhile, and its process dies in the end."""
    visit = chance.randint(1, 3)
    return [Fault("before-sink", visit, "sleep", 5.0), Fault("before-sink", visit, "die")]


def in_commit(chance: random.Random) -> Sequence[Fault]:
    """The process that commits dies between two changes to files, and again when it repeats them."""
    first = chance.randint(1, 6)
    return [Fault("in-commit", first + i, "die") for i in range(chance.randint(1, 3))]


def during_savepoint(chance: random.Random) -> Sequence[Fault]:
    """A savepoint is taken, and a process dies meanwhile."""
    epoch = chance.randint(1, 3)
    return [Fault(COMMITTED, epoch, "do", action="savepoint"), any_death(chance, epoch)]


def during_rescale(chance: random.Random) -> Sequence[Fault]:
    """The state is spread anew, twice, and a process dies soon after."""
    first = chance.randint(1, 3)
    times = [Fault(COMMITTED, epoch, "do", action="rescale") for epoch in (first, first + 2)]
    return [*times, any_death(chance, first)]


def dying_change(chance: random.Random) -> Sequence[Fault]:
    """The driver dies while it writes a new version of the topology."""
    return [Fault(COMMITTED, chance.randint(1, 3), "do", action="change-and-die")]


def cluster_workers(chance: random.Random) -> Sequence[Fault]:
    """Tasks die in executors, which try them again."""
    points = ("reading", "in-write", "written")
    return [Fault(chance.choice(points), chance.randint(1, 6), "die") for _ in range(3)]


def failing_at(*points: str) -> Draw:
    """A source or a sink fails with I/O errors for some seconds, whoever asks it."""

    def draw(chance: random.Random) -> Sequence[Fault]:
        point = chance.choice(points)
        return [Fault(point, chance.randint(1, 4), "fail", round(chance.uniform(5.0, 20.0), 1))]

    return draw


def nothing(chance: random.Random) -> Sequence[Fault]:
    """No fault: what the others are compared with."""
    return []


SCENARIOS = (
    Scenario("no-fault", "a run without any fault", nothing, every=4),
    *(
        Scenario(point, f"death when {about}", at_point(point), may_end=(DEATH,))
        for point, about in POINTS.items()
        if point != "in-commit"
    ),
    Scenario("in-commit", f"death when {POINTS['in-commit']}", in_commit, may_end=(DEATH,), needs="files"),
    Scenario(
        "many-changes", "a change at every epoch, and a death", many_changes, may_end=(DEATH,), changes=True
    ),
    Scenario(
        "shuffle-lost", "files of a shuffle are gone before they are read", from_outside("lose-shuffle")
    ),
    Scenario(
        "slow-commit", "a commit takes long, and its process dies in the end", slow_commit, may_end=(DEATH,)
    ),
    Scenario("driver-ends", "the driver ends between two steps", from_outside("end-query")),
    Scenario("commit-lost", "the last entry of the commit log is lost", from_outside("lose-commit")),
    Scenario(
        "worker-killed",
        "SIGKILL of a Python worker, at any moment",
        from_outside("kill-worker"),
        may_end=(DEATH,),
    ),
    Scenario("worker-stopped", "SIGSTOP of a Python worker", from_outside("stop-worker", seconds=1.5)),
    Scenario("file-torn", "a file of the run is cut off", from_outside("tear"), may_end=(DAMAGE,)),
    Scenario(
        "file-doubled", "a file of the run holds its content twice", from_outside("double"), may_end=(DAMAGE,)
    ),
    Scenario("bit-flipped", "a bit of a file of the run is wrong", from_outside("flip"), may_end=(DAMAGE,)),
    Scenario("slow-node", "processes sleep or are stopped for a while", slow),
    Scenario("clock-jump", "clocks jump by hours, forth and back", clock, may_end=(DEATH,)),
    Scenario("two-at-once", "two faults in one epoch", two_at_once, may_end=(DEATH,)),
    Scenario(
        "during-recovery", "faults while the run comes back from one", during_recovery, may_end=(DEATH,)
    ),
    Scenario(
        "during-change", "a fault around a change of version", during_change, may_end=(DEATH,), changes=True
    ),
    Scenario("change-torn", "the driver dies while it writes a new version", dying_change, changes=True),
    Scenario(
        "during-savepoint",
        "a savepoint while processes die, restored afterwards",
        during_savepoint,
        may_end=(DEATH, *NOT_SAVED),
    ),
    Scenario(
        "during-rescale",
        "the state is spread anew; who does it dies",
        during_rescale,
        may_end=(DEATH, NOT_RESCALED),
    ),
    Scenario(
        "disk-full",
        "no room on the disk for a while",
        from_outside("fill-disk", seconds=2.0),
        may_end=NO_ROOM,
        place="disk",
    ),
    Scenario(
        "disk-full-supervised",
        "the same under a supervisor, which waits for room",
        from_outside("fill-disk", seconds=10.0),
        place="supervised-disk",
        every=12,
    ),
    Scenario(
        "driver-killed",
        "SIGKILL of the driver; its JVM goes on for a moment",
        from_outside("kill-driver"),
        may_end=(DRIVER_DEATH,),
        place="second",
        every=6,
    ),
    Scenario(
        "group-killed",
        "SIGKILL of driver, JVM and workers at once",
        from_outside("kill-group"),
        may_end=(DRIVER_DEATH,),
        place="second",
        every=6,
    ),
    Scenario(
        "two-runners",
        "a runner is stopped, outlived and woken again",
        from_outside("take-over", seconds=3.0),
        place="second",
        every=2,
    ),
    Scenario(
        "driver-replaced",
        "SIGKILL of the driver; its supervisor starts another one",
        from_outside("kill-driver", "kill-group"),
        place="supervised",
        every=12,
    ),
    Scenario(
        "driver-stopped",
        "SIGSTOP of the driver, for good; its supervisor starts another one",
        from_outside("stop-driver"),
        place="supervised",
        every=12,
    ),
    Scenario(
        "jvm-killed",
        "SIGKILL of the driver's JVM; its supervisor starts another driver",
        from_outside("kill-jvm"),
        place="supervised",
        every=12,
    ),
    Scenario(
        "jvm-stopped",
        "SIGSTOP of the driver's JVM, for good",
        from_outside("stop-jvm"),
        place="supervised",
        every=12,
    ),
    Scenario(
        "sink-away",
        "a sink fails with I/O errors for some seconds; the run waits for it",
        failing_at("in-write", "before-sink"),
        place="supervised",
        every=12,
    ),
    Scenario(
        "source-away",
        "a source fails with I/O errors for some seconds; the run waits for it",
        failing_at("planning", "after-offsets", "reading", "after-commit"),
        place="supervised",
        every=12,
    ),
    Scenario(
        "executor-killed",
        "SIGKILL of an executor of a standalone cluster",
        from_outside("kill-executor"),
        place="cluster",
        every=2,
    ),
    Scenario(
        "executor-stopped",
        "SIGSTOP of an executor",
        from_outside("stop-executor", seconds=2.0),
        place="cluster",
        every=2,
    ),
    Scenario(
        "cluster-worker-killed",
        "SIGKILL of a Python worker of an executor",
        cluster_workers,
        place="cluster",
        every=2,
    ),
)
"""All of them; those with a place other than the warm session need processes of their own."""
