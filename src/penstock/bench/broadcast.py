"""What a sender pays for six receivers instead of one: CPU time of the sending tasks per event."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl

import penstock as ps
from penstock.bench.harness import Settings
from penstock.bench.workload import SCHEMA, events
from penstock.operators.operator import Emit

EPOCH_ROWS = 4_000_000
EPOCHS = 10
WARM_UP = 4


class Count(ps.Operator):
    """Counts what it gets."""

    returns = {"seen": int}

    def init_state(self) -> dict[str, int]:
        return {"seen": 0}

    def process(self, batch: pl.DataFrame, state: dict[str, int], emit: Emit) -> None:
        state["seen"] += batch.height
        emit(pl.DataFrame({"seen": [state["seen"]]}))


def run(settings: Settings) -> dict[str, float]:
    """CPU time per event of the sending side, JVM and Python together, with one receiver and with six."""
    log = settings.directory / "events"
    log.mkdir()
    spark = {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": log.as_uri(),
        "spark.eventLog.compress": "false",
    }
    ns = {receivers: _sender_ns(settings.directory, receivers, log, spark) for receivers in (1, 6)}
    return {"sender_cpu_ns_1": ns[1], "sender_cpu_ns_6": ns[6], "sender_cpu_ratio_6_to_1": ns[6] / ns[1]}


def _sender_ns(directory: Path, receivers: int, log: Path, spark: dict[str, str]) -> float:
    seen = len(_sending_tasks(log))
    rows = EPOCH_ROWS * EPOCHS
    top = ps.Topology(f"broadcast-{receivers}")
    source = ps.Generator(lambda first, count: events(first, count, 100_000), schema=SCHEMA, rows=rows)
    stream = top.source("events", source, rows_per_epoch=EPOCH_ROWS)
    counts = stream.broadcast().process("count", Count(), parallelism=receivers)
    counts.sink("counts", ps.Collect())
    with ps.start(top, directory=directory / top.name, until="finished", spark=spark) as handle:
        handle.wait()
        history = handle.history()
        if handle.query.recentProgress[-1]["batchId"] < EPOCHS - 1:
            raise AssertionError("epochs are missing")
    python_ms = sum(n.busy_ms for p in history[WARM_UP:] for n in p.nodes if n.node == "events")
    tasks = _sending_tasks(log)[seen:]
    jvm_ns = sum(tasks[len(tasks) * WARM_UP // EPOCHS :])
    return (python_ms * 1e6 + jvm_ns) / (EPOCH_ROWS * (EPOCHS - WARM_UP))


def _sending_tasks(log: Path) -> list[int]:
    """The CPU nanoseconds of each task so far that wrote to the exchange, in the order of their end."""
    found = []
    for path in sorted(log.rglob("*")):
        if not path.is_file():
            continue
        for line in path.read_text().splitlines():
            if '"SparkListenerTaskEnd"' in line and line.endswith("}"):
                event = json.loads(line)
                metrics = event["Task Metrics"]
                if metrics["Shuffle Write Metrics"]["Shuffle Bytes Written"]:
                    found.append(metrics["Executor CPU Time"])
    return found
