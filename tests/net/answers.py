"""Reads what other tools have said about captures, and ours in the same form."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import polars as pl

from penstock.net import ip_text
from penstock.net.columns import DEFAULT
from penstock.net.decoding import decode_block
from penstock.net.opening import NotACapture, opened

DATA = Path(__file__).parents[2].parent / "shared" / "data"
MISSING = "the folder of real data is not here"
Session = tuple[tuple[str, int], tuple[str, int], int]
_WITH_PORTS = (6, 17, 132)


def read(path: Path) -> pl.DataFrame:
    """All packets of a capture, with addresses as text."""
    frames = [pl.DataFrame()]
    try:
        with opened(str(path)) as (walk, _):
            frames += [decode_block(block, DEFAULT) for block in walk.blocks() if len(block)]
    except NotACapture:
        return pl.DataFrame()
    if not frames[1:]:
        return pl.DataFrame()
    rows = pl.concat(frames[1:])
    return rows.with_columns(
        src=ip_text(rows["src_ip_high"], rows["src_ip_low"]),
        dst=ip_text(rows["dst_ip_high"], rows["dst_ip_low"]),
    )


def sessions(packets: pl.DataFrame) -> Counter[Session]:
    """Packets of each session, whichever way they went."""
    found: Counter[Session] = Counter()
    for src, sport, dst, dport, protocol in packets.select(
        "src", "src_port", "dst", "dst_port", "protocol"
    ).iter_rows():
        found[_session(src or "::", sport, dst or "::", dport, protocol)] += 1
    return found


def zeek_inner(log: Path) -> Counter[Session]:
    """The connections of a conn.log that lie in a tunnel."""
    names: list[str] = []
    found: Counter[Session] = Counter()
    for line in log.read_text().splitlines():
        if line.startswith("#fields"):
            names = line.split("\t")[1:]
        elif names and not line.startswith("#"):
            conn = dict(zip(names, line.split("\t"), strict=True))
            if conn["tunnel_parents"] not in ("-", "(empty)"):
                key = _session(
                    conn["id.orig_h"],
                    int(conn["id.orig_p"]),
                    conn["id.resp_h"],
                    int(conn["id.resp_p"]),
                    int(conn["ip_proto"]),
                )
                found[key] += int(conn["orig_pkts"]) + int(conn["resp_pkts"])
    return found


def arkime(test: Path) -> Counter[Session]:
    """The sessions of one of Arkime's expected answers."""
    found: Counter[Session] = Counter()
    for session in json.loads(test.read_text())["sessions3"]:
        body = session["body"]
        a, b = body["source"], body["destination"]
        key = _session(a["ip"], a.get("port", 0), b["ip"], b.get("port", 0), body["ipProtocol"])
        found[key] += body["network"]["packets"]
    return found


def _session(a: str, a_port: int, b: str, b_port: int, protocol: int) -> Session:
    if protocol not in _WITH_PORTS:
        a_port = b_port = 0
    first, second = sorted([(a, a_port), (b, b_port)])
    return first, second, protocol
