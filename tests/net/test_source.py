"""`net.Pcap` keeps to what every source must keep to, whatever the files hold."""

from __future__ import annotations

import gzip
import os
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pyarrow as pa
import pytest
from tests.net import making as m

from penstock.connect import expansion
from penstock.connect.source import BadRecord, Limit
from penstock.errors import BadArgument, SourceUnavailable
from penstock.net import Pcap
from penstock.net.planner import PcapPlanner
from penstock.testing.sources import check_source, read_range

LIMITS = (Limit(rows=1), Limit(rows=7), Limit(bytes=64), Limit(bytes=4096))


def packets(count: int) -> list[bytes]:
    return [m.ethernet(m.ipv4(m.udp(bytes(i % 50), src=1000 + i))) for i in range(count)]


def ng(count: int) -> bytes:
    """Two sections of different byte order; an interface is described in the middle of the second."""
    made = packets(count)
    first = m.section() + m.interface() + b"".join(m.enhanced(p, 10**15 + i) for i, p in enumerate(made))
    second = (
        m.section(">") + m.interface(order=">") + b"".join(m.enhanced(p, 10**15, order=">") for p in made[:5])
    )
    second += m.interface(order=">", resolution=9) + m.block(5, bytes(20), ">")
    return first + second + b"".join(m.enhanced(p, 10**18, 1, ">") + m.simple(p, ">") for p in made[5:])


def damaged(data: bytes, place: int) -> bytes:
    """The length field of some record becomes nonsense."""
    return data[:place] + b"\xff\xff\xff\x7f" + data[place + 4 :]


FILES: dict[str, bytes] = {
    "a.pcap": m.pcap(packets(40)),
    "b.pcap": damaged(m.pcap(packets(60), order=">"), 24 + (16 + 42) * 1 + 8),
    "c.pcapng": ng(30),
    "d.pcapng": damaged(ng(30), 28 + 20 + 72 + 76 + 4),
    "e.txt": b"this is no capture at all",
    "f.pcap": m.pcap(packets(9))[:-3],
}


def put(folder: Path, files: dict[str, bytes]) -> Path:
    folder.mkdir(exist_ok=True)
    for i, (name, data) in enumerate(files.items()):
        (folder / name).write_bytes(data)
        os.utime(folder / name, (1000 + i, 1000 + i))
    return folder


@pytest.fixture(autouse=True)
def _small_splits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PcapPlanner, "min_split_bytes", 100)


def drained(source: Pcap, scratch: Path) -> tuple[pl.DataFrame, list[BadRecord]]:
    planner = source.planner(scratch)
    start = planner.initial()
    return read_range(source, planner, start, planner.latest(start, Limit()), 3)


@pytest.mark.parametrize("name", FILES)
def test_any_cut_of_a_file_gives_the_same_rows(name: str, tmp_path: Path) -> None:
    folder = put(tmp_path / "in", {name: FILES[name]})
    check_source(lambda: Pcap(folder), tmp_path / "state", limits=LIMITS)


def test_any_cut_of_a_folder_gives_the_same_rows(tmp_path: Path) -> None:
    folder = put(tmp_path / "in", FILES)
    rows = check_source(
        lambda: Pcap(folder, columns=["time", "src_port", "packet"]), tmp_path / "state", limits=LIMITS
    )
    assert rows.height > 40 + 50 + 50 + 50


def test_counts_are_the_same_for_any_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("boundaries", "reader"):
        monkeypatch.setattr(f"penstock.net.{module}.STRETCH_BYTES", 500)
    folder = put(tmp_path / "in", FILES)
    counts = check_source(
        lambda: Pcap(folder, rows="counts"), tmp_path / "state", limits=LIMITS, limit_kind="units"
    )
    rows, _ = drained(Pcap(folder), tmp_path / "packets")
    assert counts["packets"].sum() == rows.height
    assert counts["bytes"].sum() == rows["length"].sum()


def zstd(data: bytes) -> bytes:
    return bytes(pa.compress(data, "zstd", asbytes=True))


@pytest.mark.parametrize("segment_bytes", [100, 1 << 20])
@pytest.mark.parametrize("squeeze", [gzip.compress, zstd])
def test_a_compressed_capture_gives_the_same_rows_as_a_plain_one_for_any_cut(
    squeeze: Callable[[bytes], bytes], segment_bytes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(expansion, "SEGMENT_BYTES", segment_bytes)
    squeezed = put(tmp_path / "squeezed", {name: squeeze(data) for name, data in FILES.items()})
    rows = check_source(lambda: Pcap(squeezed), tmp_path / "state", limits=LIMITS)
    plain, _ = drained(Pcap(put(tmp_path / "plain", FILES)), tmp_path / "plain-state")
    assert rows.equals(plain)


def test_counts_of_a_compressed_capture_are_those_of_a_plain_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("boundaries", "reader"):
        monkeypatch.setattr(f"penstock.net.{module}.STRETCH_BYTES", 500)
    squeezed = put(tmp_path / "squeezed", {name: gzip.compress(data) for name, data in FILES.items()})
    make = lambda: Pcap(squeezed, rows="counts")  # noqa: E731
    counts = check_source(make, tmp_path / "state", limits=LIMITS, limit_kind="units")
    plain, _ = drained(Pcap(put(tmp_path / "plain", FILES), rows="counts"), tmp_path / "plain-state")
    assert counts.equals(plain)


def test_limits_of_an_epoch_count_what_comes_out_of_a_compressed_capture(tmp_path: Path) -> None:
    packet = m.ethernet(m.ipv4(m.udp(bytes(20))))
    squeezed = zstd(m.pcap([packet] * 200_000))
    assert len(squeezed) < 1 << 20
    source = Pcap(put(tmp_path / "in", {"bomb.pcap.zst": squeezed}), columns=["time"])
    planner = source.planner(tmp_path / "s")
    offset, sizes = planner.initial(), []
    while (end := planner.latest(offset, Limit(bytes=1 << 20))) != offset:
        sizes.append(read_range(source, planner, offset, end, 2)[0].height)
        planner.commit(end)
        offset = end
        assert sum(path.stat().st_size for path in (tmp_path / "s").rglob("*.segment")) < 17 << 20
    assert sum(sizes) == 200_000
    assert max(sizes) <= (1 << 20) // (16 + len(packet))


@pytest.mark.long
def test_damage_that_expands_without_end_ends_a_compressed_capture(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.net.opening.MOST_PACKED_DAMAGE", 40 << 20)
    data = m.pcap(packets(5)) + b"\xff" * (60 << 20) + m.pcap(packets(5))[24:]
    squeezed = put(tmp_path / "in", {"a.pcap.zst": zstd(data), "b.pcap": m.pcap(packets(3))})
    source = Pcap(squeezed)
    for number, limit in enumerate([Limit(), Limit(rows=2)]):
        planner = source.planner(tmp_path / f"s{number}")
        offset, rows, bad = planner.initial(), 0, list[BadRecord]()
        while (end := planner.latest(offset, limit)) != offset:
            some, faults = read_range(source, planner, offset, end, 2)
            rows, bad, offset = rows + some.height, bad + faults, end
        assert rows == 8
        begin = len(m.pcap(packets(5)))
        assert [record.position for record in bad] == [begin, begin + (40 << 20)]
        assert "the rest of the file was not read" in bad[1].reason


def test_a_torn_gzip_gives_what_can_be_read_and_a_bad_record(tmp_path: Path) -> None:
    data = gzip.compress(m.pcap(packets(2000)))
    rows, bad = drained(Pcap(put(tmp_path / "in", {"a.pcap.gz": data[: len(data) // 2]})), tmp_path / "s")
    assert 0 < rows.height < 2000
    assert any("decompressed" in record.reason for record in bad)


def test_damage_costs_only_what_it_covers(tmp_path: Path) -> None:
    rows, bad = drained(Pcap(put(tmp_path / "in", {"b.pcap": FILES["b.pcap"]})), tmp_path / "state")
    assert rows.height == 59
    assert [record.where for record in bad] == ["b.pcap@byte 82"]


def test_a_file_that_is_no_capture_is_one_bad_record(tmp_path: Path) -> None:
    rows, bad = drained(Pcap(put(tmp_path / "in", {"e.txt": FILES["e.txt"]})), tmp_path / "state")
    assert (rows.height, [record.where for record in bad]) == (0, ["e.txt@byte 0"])


def test_a_last_record_that_is_cut_off_is_a_bad_record(tmp_path: Path) -> None:
    rows, bad = drained(Pcap(put(tmp_path / "in", {"f.pcap": FILES["f.pcap"]})), tmp_path / "state")
    assert (rows.height, len(bad)) == (8, 1)


def test_a_drained_source_ends_and_takes_files_that_come_later(tmp_path: Path) -> None:
    folder = put(tmp_path / "in", {"a.pcap": FILES["a.pcap"]})
    planner = Pcap(folder, ends="drained").planner(tmp_path / "state")
    end = planner.latest(planner.initial(), Limit())
    assert planner.finished(end)
    put(folder, {"b.pcap": FILES["b.pcap"]})
    assert not planner.finished(end)
    assert planner.latest(end, Limit())["file"] == 2


@pytest.mark.parametrize("made", [m.pcap(packets(40)), ng(40)])
def test_the_end_of_an_epoch_promises_the_time_of_its_last_packets(made: bytes, tmp_path: Path) -> None:
    source = Pcap(put(tmp_path / "in", {"a.cap": made}), lateness="3s")
    planner = source.planner(tmp_path / "state")
    start, promised = planner.initial(), list[int]()
    while (end := planner.latest(start, Limit(rows=10)))["file"] == 0:
        rows, _ = read_range(source, planner, start, end, 2)
        seen = rows["time"].to_physical().max()
        assert planner.punctuation(end, None) == seen - 3_000_000  # type: ignore[operator]
        later = seen + 10**9  # type: ignore[operator]
        assert planner.punctuation(end, later) == later - 3_000_000, "what was read before counts as well"
        promised.append(seen)  # type: ignore[arg-type]
        start = end
    assert len(promised) >= 3
    assert source.planner(tmp_path / "state").punctuation(start, None) is None, (
        "another planner has not seen it"
    )


@pytest.mark.parametrize(
    ("what", "arguments"),
    [
        ("columns", {"columns": ["nothing"]}),
        ("columns", {"columns": []}),
        ("columns", {"columns": ["time", "time"]}),
        ("columns", {"rows": "counts", "columns": ["time"]}),
        ("rows", {"rows": "flows"}),
        ("tunnels", {"tunnels": "all"}),
    ],
)
def test_a_wrong_argument_is_named(what: str, arguments: dict[str, object]) -> None:
    with pytest.raises(BadArgument) as error:
        Pcap("x", **arguments)  # type: ignore[arg-type]
    assert error.value.parameters["what"] == what


@pytest.mark.parametrize("limit", [Limit(), Limit(rows=7)])
@pytest.mark.parametrize("name", ["a.pcap", "c.pcapng"])
def test_captures_that_are_away_for_a_while_are_waited_for(tmp_path: Path, limit: Limit, name: str) -> None:
    """As when a disk is not mounted: its folder is there and empty."""
    inbox = put(tmp_path / "in", {name: FILES[name]})
    source = Pcap(inbox)
    expected, _ = drained(source, tmp_path / "other")
    planner = source.planner(tmp_path / "s")
    first = planner.latest(planner.initial(), Limit(rows=9))
    planned = planner.latest(first, limit)
    inbox.rename(tmp_path / "away")
    inbox.mkdir()
    restarted = source.planner(tmp_path / "s")
    with pytest.raises(SourceUnavailable):
        restarted.latest(first, limit)
    with pytest.raises(SourceUnavailable):
        read_range(source, restarted, first, planned, 3)
    _, bad = read_range(Pcap(inbox, missing="dead-letter"), restarted, first, planned, 1)
    assert "deleted before it was read" in bad[0].reason
    inbox.rmdir()
    (tmp_path / "away").rename(inbox)
    offset, got = planner.initial(), []
    while (end := restarted.latest(offset, limit)) != offset:
        got.append(read_range(source, restarted, offset, end, 3)[0])
        offset = end
    assert pl.concat(got).equals(expected)
