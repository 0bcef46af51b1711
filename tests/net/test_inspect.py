"""`penstock net inspect` and the packet counter, as a user meets them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import polars as pl
from tests.net import making as m
from typer.testing import CliRunner

from penstock.apps import packet_counter
from penstock.cli.commands import app
from penstock.testing import run

PACKETS = [m.ethernet(m.ipv4(m.udp(b"x" * i))) for i in range(10)] + [
    m.ethernet(m.ipv4(m.udp(m.gtp(m.ipv4(m.tcp(b"y"), 6)), dst=2152))),
    m.ethernet(b"\x95" + bytes(30)),
]


def inspected(path: Path, *options: str) -> str:
    done = CliRunner().invoke(app, ["net", "inspect", str(path), *options])
    assert done.exit_code == 0, done.output
    return done.output


def test_inspect_says_what_there_is_and_what_is_malformed(tmp_path: Path) -> None:
    path = tmp_path / "a.pcap"
    path.write_bytes(m.pcap(PACKETS)[:-5])
    text = inspected(path)
    for part in ("pcap 2.4, little-endian", "11 packets", "IPv4 UDP", "gtp-u", "damaged stretches: 1"):
        assert part in text


def test_inspect_as_json_is_for_programs(tmp_path: Path) -> None:
    path = tmp_path / "a.pcapng"
    path.write_bytes(m.section() + m.interface() + b"".join(m.enhanced(packet, 10**15) for packet in PACKETS))
    found = json.loads(inspected(path, "--json"))
    assert (found["packets"], found["blocks"]) == (12, {"SHB": 1, "IDB": 1, "EPB": 12})
    assert found["malformed"] == [{"name": "bad IP version", "packets": 1, "bytes": 45}]
    assert found["first_time"] == "2001-09-09T01:46:40.000000000Z"


def test_inspect_of_something_else_says_so(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"hello")
    assert "neither as pcap nor as pcapng" in inspected(path)


def test_the_packet_counter_adds_up_all_captures(tmp_path: Path) -> None:
    for name in ("a.pcap", "b.pcap"):
        (tmp_path / name).write_bytes(m.pcap(PACKETS))
    totals = run(packet_counter.topology(tmp_path, directory=tmp_path / "out"))["table"]
    newest = totals.group_by(*packet_counter.KEY).agg(pl.col("packets").max())
    assert sorted(newest.rows()) == [(0, 0, 5, 2), (4, 6, 0, 2), (4, 17, 0, 20)]


def test_describing_a_capture_imports_neither_polars_nor_numba() -> None:
    script = (
        "import sys\nfrom penstock import net\nnet.Pcap('x').schema, net.Pcap('y').describe()\n"
        "print(sorted({'polars', 'pyarrow', 'numba', 'numpy', 'pyspark'} & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
