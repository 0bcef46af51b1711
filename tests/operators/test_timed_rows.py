"""A copy that is fed with exports always holds what the original holds."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.operators.timed_rows import TimedRows

changes = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.lists(st.integers(0, 50), max_size=6)),
        st.tuples(st.just("drop_before"), st.integers(0, 50)),
        st.tuples(st.sampled_from(["drop", "mark"]), st.integers(1, 4)),
        st.tuples(st.sampled_from(["clock", "replace"]), st.integers(0, 50)),
        st.tuples(st.just("export"), st.sampled_from(["delta", "base"])),
    ),
    max_size=25,
)


def frame(times: list[int]) -> pl.DataFrame:
    return pl.DataFrame(
        {"time": pl.Series(times, dtype=pl.Int64).cast(pl.Datetime("us")), "v": [str(t) for t in times]},
        schema_overrides={"v": pl.String},
    )


def change(rows: TimedRows, what: str, by: object) -> None:
    every = np.arange(len(rows)) % (by if isinstance(by, int) and by else 1) == 0
    if what == "append":
        rows.append(frame(by))  # type: ignore[arg-type]
    elif what == "drop":
        rows.drop(every)
    elif what == "mark":
        rows.mark(np.flatnonzero(every))
    elif what == "replace" and len(rows):
        rows.replace(rows.frame().head(3))
    elif what == "clock":
        rows.clock = int(by)  # type: ignore[call-overload]
    elif what == "drop_before":
        rows.drop_before(by)  # type: ignore[arg-type]


@pytest.mark.long
@settings(max_examples=200, deadline=None)
@given(changes)
def test_exports_carry_every_change(story: list[tuple[str, object]]) -> None:
    rows, copy = TimedRows("time"), TimedRows("time")
    copy.apply(rows.export_base())
    for what, by in [*story, ("export", "delta")]:
        if what != "export":
            change(rows, what, by)
            continue
        copy.apply(rows.export_base() if by == "base" else rows.export_delta())
        assert not rows.is_changed
        assert not copy.is_changed
        assert (copy.clock, copy.settled, len(copy)) == (rows.clock, rows.settled, len(rows))
        assert copy.times.tolist() == rows.times.tolist()
        assert copy.marks.tolist() == rows.marks.tolist()
        if len(rows):
            assert copy.frame().equals(rows.frame())


def test_chunks_stay_few_and_rows_keep_their_order() -> None:
    rows = TimedRows("time")
    for n in range(0, 100_000, 500):
        rows.append(frame(list(range(n, n + 500))))
    assert len(rows._chunks) < 20
    assert rows.times.tolist() == list(range(100_000))
    assert rows.gather(np.array([7, 99_999]))["v"].to_list() == ["7", "99999"]
