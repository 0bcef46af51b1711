"""Other people's captures, with what their tools say about them."""

from __future__ import annotations

import re
from pathlib import Path

import polars as pl
import pytest
from tests.net.answers import DATA, MISSING, arkime, read, sessions, zeek_inner

from penstock import net
from penstock.net.compare import Difference, compare_with_ndpi
from penstock.net.inspection import inspect

pytestmark = pytest.mark.skipif(not DATA.is_dir(), reason=MISSING)

DIFFERENT_FROM_NDPI = {
    "capwap.pcap": "nDPI looks into CAPWAP and leaves out data packets that hold no IP inside",
    "dns_fragmented.pcap": "nDPI leaves out the seven later fragments",
    "fuzz-2021-06-07-c6c72a0a56.pcap": "48 bytes that claim to be 4 GB on the wire: nothing for nDPI",
    "fuzz-2021-10-13.pcap": "nDPI takes every unknown family of BSD's loopback for IPv6",
    "reasm_crash_anon.pcapng": "nDPI leaves out packets that claim to be longer; ours have a reason",
}


def test_pcapng_files_hold_what_their_texts_say() -> None:
    files = sorted((DATA / "decode" / "pcapng-test-generator").rglob("*.pcapng"))
    assert len(files) == 34
    for file in files:
        counts = dict(re.findall(r"^\t(\w+): (\d+)$", file.with_suffix(".txt").read_text(), re.MULTILINE))
        found = inspect(file)
        assert found.blocks == {kind: int(count) for kind, count in counts.items()}, file
        assert found.packets == sum(int(counts.get(kind, 0)) for kind in ("EPB", "SPB", "PB")), file
        assert not found.damaged, file


def explained(difference: Difference) -> str:
    return DIFFERENT_FROM_NDPI.get(difference.capture, "not explained")


def test_totals_equal_those_of_ndpi_except_where_it_leaves_packets_out() -> None:
    captures = [
        path.with_name(path.name.removesuffix(".out")) for path in sorted((DATA / "dpi").glob("*.out"))
    ]
    differences = compare_with_ndpi(captures)
    print("\n".join(f"{difference}: {explained(difference)}" for difference in differences))
    assert len(captures) == 209
    assert {difference.capture for difference in differences} == set(DIFFERENT_FROM_NDPI)


def test_flow_counts_equal_those_of_ndpi() -> None:
    reports = sorted((DATA / "dpi").glob("*.out"))
    different = set()
    for report in reports:
        theirs = re.findall(
            r"^\S[^\t]*\t\d+\s+\d+\s+(\d+)\s*$", report.read_text(errors="replace"), re.MULTILINE
        )
        packets = read(report.with_name(report.name.removesuffix(".out")))
        if net.flow_key(packets).select(net.FLOW_KEY).n_unique() != sum(map(int, theirs)):
            different.add(report.name.removesuffix(".out"))
    # capwap_data has three flows inside of CAPWAP, which is not looked into.
    known = {*DIFFERENT_FROM_NDPI, "capwap_data.pcapng"} - {"reasm_crash_anon.pcapng"}
    assert different == known


def tcpdump_cases() -> list[tuple[str, Path, Path]]:
    folder = DATA / "decode" / "tcpdump"
    lines = [line.partition("#")[0].split() for line in (folder / "TESTLIST").read_text().splitlines()]
    # What comes after "--" is a filter: the output then lacks packets.
    cases = [
        (name, folder / file, folder / out)
        for name, file, out, *flags in (x for x in lines if x[2:])
        if "--" not in flags
    ]
    return [case for case in cases if case[1].is_file() and case[2].is_file()]


def test_packet_counts_equal_those_of_tcpdump() -> None:
    cases = tcpdump_cases()
    assert len(cases) > 260
    counts: dict[Path, int] = {}
    for name, file, out in cases:
        numbers = re.findall(r"^ *(\d+)  \S", out.read_text(errors="replace"), re.MULTILINE)
        if file not in counts:
            counts[file] = inspect(file).packets
        assert counts[file] == max(map(int, numbers), default=0), name


def test_the_whole_corpus_is_read_without_an_error() -> None:
    files = [path for path in DATA.rglob("*") if path.suffix in (".pcap", ".pcapng", ".cap")]
    assert len(files) > 600
    packets = 0
    for file in files:
        found = inspect(file)
        assert sum(tally.packets for tally in found.link_types) == found.packets
        packets += found.packets
    assert packets > 50_000


@pytest.mark.parametrize("name", ["gtp-u", "gtp-iphone", "ipv6-gtp6"])
def test_inner_sessions_equal_those_of_arkime(name: str) -> None:
    folder = DATA / "gtp" / "arkime"
    assert sessions(read(folder / f"{name}.pcap")) == arkime(folder / f"{name}.test")


ZEEK = {
    "gtp.inner_ipv6": "gtp/gtp7_ipv6.pcap",
    "gtp.not_user_plane_data": "gtp/gtp10_not_0xff.pcap",
    "gtp.false_gtp": "gtp/gtp3_false_gtp.pcap",
    "vxlan": "vxlan.pcap",
    "geneve": "geneve.pcap",
    "geneve-many-options": "geneve-many-options.pcap",
    "geneve-truncated": "geneve-truncated.pcapng",
    "gre": "gre-sample.pcap",
    "gre-pptp": "gre-pptp.pcap",
}


@pytest.mark.parametrize("baseline", ZEEK)
def test_inner_sessions_equal_those_of_zeek(baseline: str) -> None:
    folder = DATA / "gtp" / "zeek_tunnels"
    inner = read(folder / ZEEK[baseline]).filter(pl.col("tunnel_depth") > 0)
    assert sessions(inner) == zeek_inner(folder / "Baseline" / f"core.tunnels.{baseline}" / "conn.log")
