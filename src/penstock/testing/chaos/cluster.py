"""A real standalone Spark cluster on this machine: a master and workers from PySpark's own jars.

with StandaloneCluster(workers=2) as cluster:
    ps.start(topology, master=cluster.url)
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
from pathlib import Path

from penstock.errors import SparkGone
from penstock.spark.home import spark_home
from penstock.spark.java import find_java
from penstock.testing.chaos.processes import executors, python_workers, signal_group, wait_until

_DEPLOY = "org.apache.spark.deploy"
_UP_AFTER_S = 60.0
_HOST = "127.0.0.1"


class StandaloneCluster:
    """Master and workers as processes; an application of ``url`` gets an executor process per worker."""

    def __init__(self, *, workers: int = 2, cores: int = 1, memory: str = "1g") -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="penstock-cluster-"))
        self.port = _free_port()
        self.size = workers
        self._started: list[subprocess.Popen[bytes]] = []
        self._start(
            "master",
            f"{_DEPLOY}.master.Master",
            "--host",
            _HOST,
            "--port",
            str(self.port),
            "--webui-port",
            "0",
        )
        if not wait_until(self._is_up, timeout_s=_UP_AFTER_S, every_s=0.1):
            self.close()
            raise SparkGone(topology="cluster", epoch=0, reason="the master did not come up")
        for number in range(workers):
            share = ("--cores", str(cores), "--memory", memory)
            place = ("--host", _HOST, "--webui-port", "0", "--work-dir", str(self.folder / f"work-{number}"))
            self._start(f"worker-{number}", f"{_DEPLOY}.worker.Worker", *share, *place, self.url)

    @property
    def url(self) -> str:
        return f"spark://{_HOST}:{self.port}"

    def settings(self, executor_memory: str = "768m") -> dict[str, str]:
        """Settings of Spark for an application of this cluster."""
        return {
            "spark.driver.host": _HOST,
            "spark.executor.memory": executor_memory,
            "spark.executor.cores": "1",
            "spark.cores.max": str(self.size),
        }

    def executors(self) -> list[int]:
        """The process ids of the executors that run now."""
        return [p.pid for started in self._started for p in executors(started.pid)]

    def is_whole(self) -> bool:
        """Whether there are as many executors as workers, and each has served slices.

        It has two pools of Python processes then, one for slices and one for the rest.
        """
        running = self.executors()
        return len(running) == self.size and all(len(python_workers(pid)) > 3 for pid in running)

    def close(self) -> None:
        """End all of it."""
        for process in reversed(self._started):
            signal_group(process.pid, signal.SIGKILL)
            process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self) -> StandaloneCluster:
        return self

    def __exit__(self, *args: object) -> None:
        self.close()

    def _start(self, name: str, *command: str) -> None:
        home = spark_home()
        environment = {
            **os.environ,
            "SPARK_HOME": str(home),
            "JAVA_HOME": str(find_java().home),
            "SPARK_LOCAL_IP": _HOST,
            "SPARK_DAEMON_MEMORY": "256m",
        }
        with open(self.folder / f"{name}.log", "wb") as log:
            self._started.append(
                subprocess.Popen(
                    [*_ends_with_us(), str(home / "bin" / "spark-class"), *command],
                    env=environment,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                )
            )

    def _is_up(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex((_HOST, self.port)) == 0


def _ends_with_us() -> list[str]:
    """What to begin a command with that shall be killed should the harness be."""
    return ["setpriv", "--pdeathsig", "KILL"] if shutil.which("setpriv") else []


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((_HOST, 0))
        port: int = probe.getsockname()[1]
        return port
