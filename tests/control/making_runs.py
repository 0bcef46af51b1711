"""Run directories as Spark leaves them, made without Spark."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import cloudpickle
from tests.spark.topologies import totals_topology

import penstock as ps
from penstock.connect.sealed import digest
from penstock.control.progress import NodeProgress, Progress
from penstock.control.run_directory import RunDirectory
from penstock.control.spark_files import write_checked
from penstock.control.version_record import made_by, record_of
from penstock.plan import plan


def make_run(
    path: Path, *sinks: Any, committed: int = 3, planned: int = 3, factor: float = 1.0
) -> RunDirectory:
    """A run that has committed so many epochs and planned so many."""
    run = RunDirectory(path)
    run.open("totals")
    run.store(1, plan(totals_topology(*sinks, rows=100, factor=factor)))
    run.make_current(1)
    run.write_fabric(hops=1, partitions=2)
    run.write_observed({"orders": 7})
    (run.planners / "orders").mkdir(parents=True)
    (run.planners / "orders" / "files.jsonl").write_text('["a", 1, 2, 3, "taken"]\n')
    checkpoint = run.checkpoint
    write_checked(checkpoint / "metadata", b'{"id":"one"}')
    schema = checkpoint / "state/0/_stateSchema/default/0_a"
    write_checked(schema, b"schema")
    stores = [{"storeName": "default", "stateSchemaFilePaths": [f"file:{schema}"]}]
    metadata = json.dumps({"operatorInfo": {}, "stateStoreInfo": stores})
    write_checked(checkpoint / "state/0/_metadata/v2/0", f"v2\n{metadata}".encode())
    for epoch in range(planned):
        offset = {"version": 1, "sources": {"orders": {"n": 10 * epoch}}, "punctuation": {}, "tasks": 1}
        write_checked(checkpoint / "offsets" / str(epoch), f"v1\n{{}}\n{json.dumps(offset)}".encode())
        for part in (0, 1):
            write_checked(checkpoint / f"state/0/{part}/{epoch + 1}.changelog", b"change %d" % epoch)
        if epoch < committed:
            write_checked(checkpoint / "commits" / str(epoch), b"v1\n{}")
            nodes = (NodeProgress("totals", "process", state_bytes=100 * (epoch + 1)),)
            run.append_progress(Progress(epoch, 1, 10, 10 * epoch, 5.0, epoch, nodes=nodes))
    write_checked(checkpoint / "state/0/0/1.zip", b"snapshot")
    write_checked(checkpoint / "state/0/0/SSTs/000008-a.sst", b"table")
    return run


def made_elsewhere(tmp_path: Path, top: ps.Topology, *, committed: int = 3, **made: str) -> RunDirectory:
    """A run of three planned epochs whose version another Python has stored: here its code is only noise."""
    run = make_run(tmp_path / "run", ps.Collect(), committed=committed)
    program = replace(plan(top), born={"totals": 7, "visitors": 3})
    run.store(1, program)
    record = record_of(program)
    other = {**made_by(), **(made or {"python": "3.10.4"})}
    run.version_files.store_record(1, replace(record, made_by=other))
    path = run.path / "versions" / "000001.program"
    body = cloudpickle.dumps({"search_path": [], "body": b"byte code of another Python"})
    path.write_bytes(digest(body) + body)
    return run
