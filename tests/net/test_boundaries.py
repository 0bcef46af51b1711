"""Where epochs and splits of a capture end."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.net import making as m

from penstock.connect.file_pieces import Piece
from penstock.net import boundaries
from penstock.net.boundaries import Found, Stretch, cut_capture, cut_counts, divide
from penstock.net.pieces import CapturePiece


@pytest.mark.parametrize("cut", [cut_capture, cut_counts])
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    sizes=st.lists(st.integers(40, 300), min_size=60, max_size=120),
    damage=st.lists(st.tuples(st.floats(0.05, 0.95), st.integers(1, 80)), max_size=3),
    is_pcapng=st.booleans(),
    ends=st.lists(st.floats(0, 1), max_size=5).map(sorted),
)
def test_splits_are_the_same_from_waypoints_as_from_the_beginning(
    cut: Callable[[Stretch], Found], sizes: list[int], damage: list[tuple[float, int]], is_pcapng: bool,
    ends: list[float], tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(boundaries, "STRETCH_BYTES", 500)
    monkeypatch.setattr(boundaries, "MAX_BLOCK", 300)
    packets = [bytes([n % 7]) * size for n, size in enumerate(sizes)]
    blocks = (m.enhanced(packet, ticks) for ticks, packet in enumerate(packets))
    data = bytearray(m.section() + m.interface() + b"".join(blocks) if is_pcapng else m.pcap(packets))
    for where, count in damage:
        at = int(len(data) * where)
        data[at : at + count] = b"\xff" * len(data[at : at + count])
    path = tmp_path / "some.cap"
    path.write_bytes(data)
    found = cut(Stretch(str(path), len(data), None, None, len(data) * 3 // 4, is_first=True, is_open=False))
    piece = CapturePiece(Piece(0, str(path), 0, found.end.at, len(data), 0, 0, "taken"))
    assert divide(piece, ends, 1, found.waypoints) == divide(piece, ends, 1)
    assert found.waypoints
