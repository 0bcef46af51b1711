"""Count and sum over 100,000 keys through one exchange, and the same with Spark's own state per key."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from penstock.bench.harness import Settings
from penstock.bench.workload import check_totals, counted, rate, run_through

KEYS = 100_000
EPOCH_ROWS = 16_000_000
EPOCHS = 10
WARM_UP = 3
BASELINE_ROWS = 20_000
BASELINE_EPOCHS = 4


def run(settings: Settings) -> dict[str, float]:
    """Both ways in the same session, Penstock first."""
    rows = EPOCH_ROWS * EPOCHS
    topology = counted(settings.directory, distinct=KEYS, rows=rows, rows_per_epoch=EPOCH_ROWS)
    epochs = run_through(topology, settings.directory)
    check_totals(settings.directory, rows)
    ours, theirs = rate(epochs, warm_up=WARM_UP), _transform_with_state_per_key(settings)
    return {
        "events_per_s": ours,
        "transform_with_state_events_per_s": theirs,
        "ratio_to_transform_with_state": ours / theirs,
    }


def _transform_with_state_per_key(settings: Settings) -> float:
    """Events per second of Spark's transformWithState with one value per key, rows as they come."""
    from pyspark.sql import Row, SparkSession
    from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle

    class PerKey(StatefulProcessor):
        def init(self, handle: StatefulProcessorHandle) -> None:
            self._state = handle.getValueState("totals", "events BIGINT, total BIGINT")

        def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:
            events, total = self._state.get() or (0, 0)
            for row in rows:
                events, total = events + 1, total + row.value
            self._state.update((events, total))
            yield Row(key=key[0], events=events, total=total)

        def close(self) -> None:
            pass

    spark = SparkSession.getActiveSession()
    assert spark is not None
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "10000")
    source = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", BASELINE_ROWS).load()
    keyed = source.selectExpr(f"pmod(hash(value), {KEYS}) AS key", "value % 1024 AS value")
    totals = keyed.groupBy("key").transformWithState(
        PerKey(),
        outputStructType="key BIGINT, events BIGINT, total BIGINT",
        outputMode="append",
        timeMode="None",
    )
    query = (
        totals.writeStream.format("noop")
        .option("checkpointLocation", str(settings.directory / "baseline"))
        .start()
    )
    try:
        while len(query.recentProgress) < BASELINE_EPOCHS:
            query.awaitTermination(1)
        spans = [p["durationMs"]["triggerExecution"] / 1000 for p in query.recentProgress[1:BASELINE_EPOCHS]]
    finally:
        query.stop()
    return float(BASELINE_ROWS * len(spans) / sum(spans))
