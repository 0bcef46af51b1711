"""Our sessions inside of tunnels beside those of Zeek and Arkime: every session that differs."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from penstock.net.addresses import ip_text
from penstock.net.compare import packets_of

End = tuple[str, int]
Session = tuple[End, End, int]
"""Both ends, the lesser first, and the protocol."""
_WITH_PORTS = (6, 17, 132)


@dataclass(frozen=True, slots=True)
class SessionDifference:
    """A session of which two tools count different packets; 0 where one does not have it."""

    capture: str
    session: Session
    ours: int
    theirs: int

    def __str__(self) -> str:
        (a, a_port), (b, b_port), protocol = self.session
        return (
            f"{self.capture}: {a}:{a_port} - {b}:{b_port} protocol {protocol}: "
            f"{self.ours} packets, theirs {self.theirs}"
        )


def sessions(packets: pl.DataFrame) -> Counter[Session]:
    """Packets of each session, whichever way they went."""
    ends = packets.select(
        ip_text(packets["src_ip_high"], packets["src_ip_low"]).fill_null("::").alias("src"),
        "src_port",
        ip_text(packets["dst_ip_high"], packets["dst_ip_low"]).fill_null("::").alias("dst"),
        "dst_port",
        "protocol",
    )
    return Counter(_session(*row) for row in ends.iter_rows())


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
                a, b = ((conn[f"id.{end}_h"], int(conn[f"id.{end}_p"])) for end in ("orig", "resp"))
                found[_session(*a, *b, int(conn["ip_proto"]))] += int(conn["orig_pkts"]) + int(
                    conn["resp_pkts"]
                )
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


def compare_sessions(
    capture: Path, theirs: Counter[Session], *, only_tunnelled: bool
) -> list[SessionDifference]:
    """The sessions of a capture whose packets differ; ``only_tunnelled`` leaves out what is in no tunnel."""
    packets = packets_of(capture)
    ours = sessions(packets.filter(pl.col("tunnel_depth") > 0) if only_tunnelled else packets)
    return [
        SessionDifference(capture.name, session, ours[session], theirs[session])
        for session in sorted(ours.keys() | theirs.keys())
        if ours[session] != theirs[session]
    ]


def _session(a: str, a_port: int, b: str, b_port: int, protocol: int) -> Session:
    if protocol not in _WITH_PORTS:
        a_port = b_port = 0
    first, second = sorted([(a, a_port), (b, b_port)])
    return first, second, protocol
