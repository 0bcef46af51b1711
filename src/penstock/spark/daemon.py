"""The process that Spark forks its Python workers from, with the slow imports done once.

Without it each of four to six workers spends two seconds of processor time on them in the first epoch.
Polars is left out on purpose: it starts threads when it is imported, and threads do not survive a fork.
"""

from __future__ import annotations

import os
import sys
from typing import TextIO

from penstock.spark.stack_files import dump_stacks_on_signal


def preload() -> None:
    """Import what every worker needs and what may be inherited by a fork."""
    import numpy as np
    import pandas
    import pyarrow

    from penstock.frames import _kernels
    from penstock.operators import _keyed_changes, _keyed_kernels
    from penstock.spark.read_ahead import open_rooms

    open_rooms()
    ids = _kernels.readonly(np.zeros(1, np.int32))  # the first call starts numba's machinery
    _kernels.destinations(ids, np.zeros(2, np.int64), np.empty(1, np.int32))
    del pandas, pyarrow, _keyed_changes, _keyed_kernels


def keep_port_apart() -> None:
    """Leave the JVM's pipe to the port number: descriptor 1 becomes standard error, here and in workers.

    The JVM takes the first four bytes of the pipe for the port. What a library in C prints while it is
    imported came before them: "Bad data in pyspark.daemon's standard output", and no worker ever started.
    """
    usual, pipe = sys.stdout, os.dup(1)
    os.dup2(2, 1)
    sys.stdout = os.fdopen(pipe, "w")  # `manager` sends the port by the descriptor of sys.stdout
    os.register_at_fork(after_in_child=lambda: _leave_pipe(usual, pipe))


def _leave_pipe(usual: TextIO, pipe: int) -> None:
    """Let a worker print to descriptor 1, and close the JVM's pipe for it."""
    sys.stdout = usual  # which closes the pipe
    os.dup2(1, pipe)  # `manager` still has the number: no other file may get it


def main() -> None:
    """Serve Spark until it closes standard input."""
    from pyspark.daemon import manager

    keep_port_apart()
    if sys.argv[1:2] == ["pyspark.worker"]:  # Spark's planning processes run nothing of ours
        preload()
    os.register_at_fork(after_in_child=dump_stacks_on_signal)
    manager()


if __name__ == "__main__":
    main()
