"""Read the state of a run that is not running, from Spark's state stores."""

from __future__ import annotations

from collections import defaultdict

from pyspark.sql import SparkSession

from penstock.control.run_directory import RunDirectory
from penstock.errors import RunDirectoryBroken

_VARIABLE = "log"
"""The state variable of ``spark.hop``."""

Values = dict[int, bytes]
"""The values of one slice's log by their numbers; the head has the number -1."""


def active_session() -> SparkSession | None:
    """Return the session of this process, if it has one."""
    return SparkSession.getActiveSession() or SparkSession._instantiatedSession


def read_logs(run: RunDirectory, spark: SparkSession) -> dict[int, Values]:
    """Return the log of each slice by the slice's address.

    Raises RunDirectoryBroken if two hops hold state of the same slice: only one of them can be right.
    """
    found: dict[int, Values] = {}
    for operator in sorted((run.checkpoint / "state").glob("[0-9]*")):
        logs: dict[int, Values] = defaultdict(dict)
        reader = spark.read.format("statestore").option("path", str(run.checkpoint))
        rows = reader.option("operatorId", operator.name).option("stateVarName", _VARIABLE).load()
        for key, number, value, _ in rows.collect():
            logs[key.address][number.number] = bytes(value.value)
        if twice := found.keys() & logs.keys():
            what = f"holds state of address {min(twice)} that another hop holds too"
            raise RunDirectoryBroken(path=operator, what=what, next_step="take a savepoint and tell us")
        found |= logs
    return found
