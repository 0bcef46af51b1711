"""What an operator emits waits in bounded memory, and leaves in its order."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.engine import emissions, outbox
from penstock.engine.emissions import Emissions
from penstock.engine.flow import Departure
from penstock.engine.outbox import Outbox
from penstock.frames.frame import decode
from penstock.frames.types import of_frame
from penstock.topology import specs
from penstock.topology.graph import Edge, Node

emitted = st.lists(
    st.tuples(st.sampled_from(["out", "late"]), st.lists(st.integers(-9, 9), max_size=6)), max_size=12
)


def frame(numbers: list[int]) -> pl.DataFrame:
    texts = [None if n == 0 else str(n) for n in numbers]
    return pl.DataFrame({"n": numbers, "text": texts}, schema={"n": pl.Int64, "text": pl.String})


@settings(deadline=None)
@given(parts=emitted, in_memory=st.sampled_from([0, 100, 1 << 20]), chunk_rows=st.integers(1, 20))
def test_rows_leave_by_output_in_their_order_whether_they_waited_in_memory_or_in_a_file(
    parts: list[tuple[str, list[int]]], in_memory: int, chunk_rows: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(emissions, "IN_MEMORY_BYTES", in_memory)
        patch.setattr(emissions, "CHUNK_ROWS", chunk_rows)
        made = Emissions()
        for output, numbers in parts:
            made.append(output, frame(numbers))
        assert made.nbytes <= in_memory
        assert [(output, rows["n"].to_list()) for output, rows in made] == parts
        chunks = list(made.chunks())
    for wanted in ("out", "late"):
        found = [rows for output, rows in chunks if output == wanted]
        assert [n for rows in found for n in rows["n"]] == [n for o, ns in parts if o == wanted for n in ns]
        assert all(rows.height < chunk_rows + 6 for rows in found)
        assert all(rows.equals(frame(rows["n"].to_list())) for rows in found)
    assert list(made) == []


def test_parcels_leave_before_all_rows_are_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outbox, "FRAME_ROWS", 10)
    edge = Edge("p")
    target = Node("sink", specs.UnionSpec(), (edge,))
    asked = []

    def departures() -> Iterator[Departure]:
        for n in range(10):
            asked.append(n)
            yield Departure(target, edge, frame([n] * 4))

    parcels = [(len(asked), parcel) for some in Outbox("p#0", 0).stream(departures()) for parcel in some]
    assert [(when, p.sequence, p.rows) for when, p in parcels] == [
        (3, 0, 12),
        (6, 12, 12),
        (9, 24, 12),
        (10, 36, 4),
    ]
    rows = pl.concat([decode(p.payload, of_frame(frame([]))) for _, p in parcels])
    assert rows["n"].to_list() == [n for n in range(10) for _ in range(4)]
