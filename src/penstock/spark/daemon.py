"""The process that Spark forks its Python workers from, with the slow imports done once.

Without it each of four to six workers spends two seconds of processor time on them in the first epoch.
Polars is left out on purpose: it starts threads when it is imported, and threads do not survive a fork.
"""

from __future__ import annotations

import sys


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


if __name__ == "__main__":
    from pyspark.daemon import manager

    if sys.argv[1:2] == ["pyspark.worker"]:  # Spark's planning processes run nothing of ours
        preload()
    manager()
