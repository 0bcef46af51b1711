"""Other people's captures, with what their tools say about them."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from tests.net.answers import DATA, MISSING
from typer.testing import CliRunner

from penstock.cli.commands import app
from penstock.errors import BadArgument
from penstock.net.compare import Difference, captures_with_answers, compare_with_ndpi
from penstock.net.compare_sessions import arkime, compare_sessions, zeek_inner
from penstock.net.difference_report import difference_report
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


@pytest.fixture(scope="module")
def differences() -> list[Difference]:
    captures = captures_with_answers(DATA / "dpi")
    assert len(captures) == 209
    found = compare_with_ndpi(captures)
    print("\n".join(f"{difference}: {explained(difference)}" for difference in found))
    return found


def test_totals_equal_those_of_ndpi_except_where_it_leaves_packets_out(differences: list[Difference]) -> None:
    assert {each.capture for each in differences if each.is_in_packets} == set(DIFFERENT_FROM_NDPI)


def test_flow_counts_equal_those_of_ndpi(differences: list[Difference]) -> None:
    # capwap_data has three flows inside of CAPWAP, which is not looked into.
    known = {*DIFFERENT_FROM_NDPI, "capwap_data.pcapng"} - {"reasm_crash_anon.pcapng"}
    assert {each.capture for each in differences if each.is_in_flows} == known


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
    theirs = arkime(folder / f"{name}.test")
    assert compare_sessions(folder / f"{name}.pcap", theirs, only_tunnelled=False) == []


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
    theirs = zeek_inner(folder / "Baseline" / f"core.tunnels.{baseline}" / "conn.log")
    assert compare_sessions(folder / ZEEK[baseline], theirs, only_tunnelled=True) == []


def test_the_difference_report_ends_with_its_figures(tmp_path: Path) -> None:
    folder = tmp_path / "captures"
    folder.mkdir()
    for name in ("quic-v2.pcapng", "quic-v2.pcapng.out", "capwap.pcap", "capwap.pcap.out"):
        (folder / name).write_bytes((DATA / "dpi" / name).read_bytes())
    (folder / "gtp-u.pcap").write_bytes((DATA / "gtp" / "arkime" / "gtp-u.pcap").read_bytes())
    (folder / "gtp-u.test").write_bytes((DATA / "gtp" / "arkime" / "gtp-u.test").read_bytes())
    out = tmp_path / "report.txt"
    asked = ["net", "compare", str(folder), "--engine", "builtin", "--out", str(out)]
    lines = CliRunner().invoke(app, asked, catch_exceptions=False).output.splitlines()
    figures = json.loads(lines[-1])
    assert out.read_text().splitlines() == lines[:-1]
    assert (figures["captures"], figures["captures_with_sessions"]) == (2, 1)
    assert (figures["captures_with_other_packets"], figures["sessions_that_differ"]) == (1, 0)
    assert any(line.startswith("  capwap.pcap: ") for line in lines)


def test_the_difference_report_wants_answers_to_compare_with(tmp_path: Path) -> None:
    with pytest.raises(BadArgument) as refused:
        difference_report(tmp_path)
    assert refused.value.parameters["got"] == str(tmp_path)
