"""A runner in a process of its own that stays warm between schedules: it can be killed, stopped and outlived.

`python -m penstock.testing.chaos.runner_process OPTIONS` serves one request after the other; a request is a
folder, named on its standard input.
"""

from __future__ import annotations

import os
import pickle
import shutil
import signal
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

from penstock.connect.sink import write_atomically
from penstock.control.driving import Answer, Request
from penstock.control.restarting import RestartPolicy
from penstock.errors import PenstockError, SparkGone, StreamFailed
from penstock.spark.options import RunOptions
from penstock.spark.runner import start
from penstock.spark.warm_up import warm_up
from penstock.testing.chaos.places import changes_here_only
from penstock.testing.chaos.processes import end_with_parent, signal_group, wait_until
from penstock.topology.stream import Topology

_READY = "ready"
_END = "end"
_WARM_AFTER_S = 240.0
_LOOK_EVERY_S = 0.05


class RunnerProcess:
    """A warm Spark elsewhere on this machine."""

    def __init__(self, options: RunOptions) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="penstock-runner-"))
        given = self._folder / "options.pickle"
        given.write_bytes(pickle.dumps(options))
        with open(self._folder / "runner.log", "wb") as log:
            # A group of its own, so that all of it can be stopped and ended at once.
            self.process = subprocess.Popen(
                [sys.executable, "-m", "penstock.testing.chaos.runner_process", str(given)],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def is_alive(self) -> bool:
        return self.process.poll() is None

    def wait_until_warm(self) -> None:
        """Spark is up, and has run something."""
        ready = self._folder / _READY
        if (
            not wait_until(lambda: ready.exists() or not self.is_alive, timeout_s=_WARM_AFTER_S)
            or not self.is_alive
        ):
            raise SparkGone(topology="warm-up", epoch=0, reason=f"see {self._folder / 'runner.log'}")

    def start(self, topology: Topology, options: RunOptions) -> RunningElsewhere:
        """Let it run a topology."""
        folder = Path(tempfile.mkdtemp(dir=self._folder))
        assert options.directory is not None
        Request(topology, options.directory, options, RestartPolicy()).write(folder)
        assert self.process.stdin is not None
        self.process.stdin.write(f"{folder}\n".encode())
        self.process.stdin.flush()
        return RunningElsewhere(self, folder, topology.name)

    def close(self) -> None:
        """End it with all that it has started."""
        signal_group(self.pid, signal.SIGKILL)
        self.process.wait()
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):
            self.process.stdin.close()
        shutil.rmtree(self._folder, ignore_errors=True)


class RunningElsewhere:
    """A run in a runner process."""

    def __init__(self, runner: RunnerProcess, folder: Path, topology: str) -> None:
        self.runner = runner
        self._folder = folder
        self._topology = topology
        self._answer: Answer | None = None

    @property
    def pid(self) -> int:
        return self.runner.pid

    def poll(self, timeout_s: float) -> bool:
        wait_until(self._has_ended, timeout_s=timeout_s)
        if self._answer is not None:
            if self._answer.error is not None:
                raise self._answer.error
            return True
        if not self.runner.is_alive:
            raise SparkGone(topology=self._topology, epoch=-1, reason="its driver has died")
        return False

    def change(self, topology: Topology) -> int:
        raise changes_here_only(topology)

    def rest(self) -> None:
        self.end_abruptly()

    def end_abruptly(self) -> None:
        (self._folder / _END).touch()
        wait_until(lambda: self._has_ended() or not self.runner.is_alive, timeout_s=30)

    def end(self) -> None:
        if self._answer is None and self.runner.is_alive:
            self.end_abruptly()

    def _has_ended(self) -> bool:
        self._answer = self._answer or Answer.take(self._folder)
        return self._answer is not None


def serve(options: RunOptions, ready: Path) -> None:
    """Run what is asked for, until standard input ends."""
    warm_up(options)
    ready.touch()
    for line in sys.stdin:
        folder = Path(line.strip())
        write_atomically(folder / "answer.pickle", pickle.dumps(_run(Request.read(folder), folder / _END)))


def _run(request: Request, end: Path) -> Answer:
    try:
        assert request.topology is not None
        with start(request.topology, request.options) as handle:
            while not handle.poll(_LOOK_EVERY_S):
                if end.exists():
                    handle.query.stop()
                    break
        return Answer()
    except PenstockError as error:
        return Answer(error=error)
    except Exception as error:  # noqa: BLE001 - it is told to the harness, which shows it
        reason = f"without a name: {type(error).__name__}: {error}"
        return Answer(error=StreamFailed(topology=request.directory.name, epoch=-1, reason=reason))


def main() -> None:
    """Serve with the options in a file."""
    end_with_parent()
    given = Path(sys.argv[1])
    serve(pickle.loads(given.read_bytes()), given.with_name(_READY))
    sys.stdout.flush()
    os._exit(0)  # not sys.exit: that would wait for a Spark that may be gone


if __name__ == "__main__":
    main()
