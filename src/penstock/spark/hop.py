"""One hop of the fabric, as Spark sees it.

Whenever a query starts, Spark asks a process of its own for the state of each hop. That needs no more than
this module; what serves the slices is imported with the first rows, in the workers.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.types import BinaryType, LongType, StructField, StructType

from penstock.errors import StateUnreachable

if TYPE_CHECKING:
    from pyspark.sql.types import Row

_HEAD = -1
"""Where a log's head is kept; its values have numbers from 0 on."""
_NUMBER = StructType([StructField("number", LongType())])  # in words, Spark would be asked what they mean
_VALUE = StructType([StructField("value", BinaryType())])


class Hop(StatefulProcessor):
    """Hosts all nodes of one depth."""

    def __init__(self, hop: int, directory: str, run_id: str, partitions: int) -> None:
        self._hop = hop
        self._directory = directory
        self._run_id = run_id
        self._partitions = partitions

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._shelf = SparkShelf(handle)

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:
        from penstock.spark.hosting import Host

        host = Host(self._hop, self._directory, self._run_id, self._partitions)
        return host.serve(rows, self._shelf)


class SparkShelf:
    """A slice's log in Spark's state store, under the address that Spark has set.

    One state variable for head and values: opening another costs as much as a small slice's work.
    """

    def __init__(self, handle: StatefulProcessorHandle) -> None:
        self._values = handle.getMapState("log", _NUMBER, _VALUE)

    def head(self) -> bytes | None:
        return self.get(_HEAD)

    def put_head(self, head: bytes) -> None:
        self.put(_HEAD, head)

    def drop_head(self) -> None:
        self.drop(_HEAD)

    def get(self, number: int) -> bytes | None:
        with _no_fault_of_the_operator():
            found = self._values.getValue((number,))
        return None if found is None else bytes(found[0])

    def put(self, number: int, value: bytes) -> None:
        with _no_fault_of_the_operator():
            self._values.updateValue((number,), (value,))

    def drop(self, number: int) -> None:
        with _no_fault_of_the_operator():
            self._values.removeKey((number,))

    def distrust(self) -> bool:
        return False


@contextmanager
def _no_fault_of_the_operator() -> Iterator[None]:
    """Tell a store that does not answer from an operator that fails.

    Spark hangs up on a task that it has ended, mostly because another one of the epoch has failed.
    """
    try:
        yield
    except Exception as error:
        raise StateUnreachable(error=f"{type(error).__name__}: {error}") from error
