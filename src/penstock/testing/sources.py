"""What every source must keep to, as checks that any implementation runs through.

check_source(lambda: MySource(...), tmp_path)
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal

import polars as pl

from penstock.connect.source import BadRecord, Batch, Limit, Offset, Source, SourcePlanner
from penstock.frames.types import empty, to_polars

MakeSource = Callable[[], Source]
_MOST_EPOCHS = 10_000


def check_source(
    make: MakeSource,
    scratch: Path,
    *,
    limits: Sequence[Limit] = (Limit(rows=1), Limit(rows=7), Limit(bytes=64), Limit(bytes=4096)),
    limit_kind: Literal["exact", "units"] = "exact",
) -> pl.DataFrame:
    """Run a source over data that is already there and does not change; return all its rows.

    ``make`` gives an equal source at every call. ``limit_kind="units"`` is for sources that take
    some things only whole (a compressed file), and so may exceed a limit in rows.
    """
    source = make()
    assert make() == source, "two sources made the same way must be equal"
    assert make().identity == source.identity, "and have one identity: it is what offsets belong to"
    assert all(source.identity), "the identity has a kind and a place"
    planner = source.planner(scratch / "whole")
    start = planner.initial()
    assert planner.initial() == start, "initial() must be the same at every call"
    end = _drain(planner, start, Limit())[-1]
    assert planner.finished(end) == source.has_end, "has_end must tell whether the source finishes"
    rows, bad = read_range(source, planner, start, end, 1)
    _check_splits(source, planner, start, end)
    for i, limit in enumerate(limits):
        _check_cuts(make, scratch / f"cuts-{i}", limit, rows, bad, limit_kind)
    return rows


def read_range(
    source: Source, planner: SourcePlanner, start: Offset, end: Offset, parallelism: int
) -> tuple[pl.DataFrame, list[BadRecord]]:
    """All rows and bad records between two offsets, in order; asserts the promises about positions."""
    bad: list[BadRecord] = []
    frames = [empty(source.schema)]
    last = -1
    for split in planner.splits(_json(start), _json(end), parallelism):
        assert _json(split.body) == split.body, "a split's body must be JSON"
        assert split.position > last, "splits must have ascending positions"
        last = split.position - 1
        for batch in source.read(split, bad.append):
            last = _check_batch(source, batch, max(last, split.position - 1))
            frames.append(batch.rows)
    return pl.concat(frames), bad


def _check_batch(source: Source, batch: Batch, last: int) -> int:
    assert 0 <= batch.position < 2**63, "a position must fit 63 bits"
    assert batch.position > last, "batches must have ascending positions, also across splits"
    assert batch.rows.schema == to_polars(source.schema), "a batch must have the source's schema"
    return batch.position


def _check_splits(source: Source, planner: SourcePlanner, start: Offset, end: Offset) -> None:
    once, bad = read_range(source, planner, start, end, 1)
    for parallelism in (1, 2, 3, 8):
        splits = planner.splits(start, end, parallelism)
        assert len(splits) <= parallelism, "splits() must not give more than it is asked for"
        assert planner.splits(start, end, parallelism) == splits, "splits() must be pure"
        again, again_bad = read_range(source, planner, start, end, parallelism)
        assert again.equals(once), f"{parallelism} splits must give the same rows in the same order"
        assert again_bad == bad, f"{parallelism} splits must give the same bad records"
    assert planner.splits(start, start, 4) == [] or not read_range(source, planner, start, start, 4)[0].height


def _check_cuts(
    make: MakeSource,
    scratch: Path,
    limit: Limit,
    expected: pl.DataFrame,
    expected_bad: list[BadRecord],
    limit_kind: str,
) -> None:
    """Cut into epochs by a limit, with a restarted planner at every other epoch."""
    source = make()
    planner = source.planner(scratch)
    offset = planner.initial()
    frames, bad = [empty(source.schema)], list[BadRecord]()
    foreseen: Offset | None = None
    greatest: int | None = None
    for epoch in range(_MOST_EPOCHS):
        if epoch % 2:
            planner = make().planner(scratch)
        end = _json(planner.latest(offset, limit))
        assert foreseen in (None, end), "an epoch that was planned in advance must stay as it is"
        if end == offset:
            break
        foreseen = _json(planner.latest(end, limit)) if planner.foresees else None
        rows, new_bad = read_range(source, planner, offset, end, 2)
        if limit.rows is not None and limit_kind == "exact":
            assert rows.height <= limit.rows, f"{rows.height} rows exceed the limit of {limit.rows}"
        planner.commit(end)
        assert read_range(source, planner, offset, end, 3)[0].equals(rows), "an epoch must be repeatable"
        frames.append(rows)
        bad += new_bad
        greatest = _greatest(source, rows, greatest)
        _check_promise(source, planner, end, greatest)
        offset = end
    assert pl.concat(frames).equals(expected), f"epochs cut by {limit} must give the same rows"
    assert bad == expected_bad, f"epochs cut by {limit} must give the same bad records"


def _greatest(source: Source, rows: pl.DataFrame, before: int | None) -> int | None:
    """The greatest event time so far."""
    if source.time is None or rows[source.time].null_count() == rows.height:
        return before
    here: Any = rows[source.time].to_physical().max()
    return int(here) if before is None else max(before, int(here))


def _check_promise(source: Source, planner: SourcePlanner, end: Offset, greatest: int | None) -> None:
    """What a planner promises must not be beyond what rows behind the place are late by."""
    knows = source.lateness_us is not None and not source.knows_watermarks
    if source.time is None or planner.finished(end) or not knows:
        return
    promise = planner.punctuation(end, greatest)
    reached = None if greatest is None else greatest - (source.lateness_us or 0)
    assert promise is None or (reached is not None and promise <= reached), (
        f"the planner promises {promise} after {greatest} with a lateness of {source.lateness_us} µs: "
        "an event that is not late would find its window closed"
    )


def _drain(planner: SourcePlanner, start: Offset, limit: Limit) -> list[Offset]:
    offsets = [start]
    for _ in range(_MOST_EPOCHS):
        end = planner.latest(_json(offsets[-1]), limit)
        assert _json(end) == end, "an offset must be JSON"
        if end == offsets[-1]:
            return offsets
        offsets.append(end)
    raise AssertionError("the source does not end: check a bounded one")


def _json(value: Offset) -> Offset:
    decoded: Offset = json.loads(json.dumps(value))
    return decoded
