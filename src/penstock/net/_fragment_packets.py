"""Packets as bytes to decoded rows: fragments to what they are, joined ones to the columns of a capture."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from penstock.frames._jit import readonly
from penstock.frames.hashing import byte_buffers
from penstock.net import _fragment_layout as f
from penstock.net import columns as c
from penstock.net._fragment_joining import heads, join
from penstock.net._fragment_spans import spans
from penstock.net._joined_packets import RAW_IP, Numbers, as_rows, side_by_side
from penstock.net.decoding import decode_block
from penstock.operators.keyed import KeyedTable

_KEY = (
    "src_ip_high", "src_ip_low", "dst_ip_high", "dst_ip_low", "fragment_id", "ip_version", "vlan",
    "tunnel_id",
)  # fmt: skip


@dataclass(frozen=True)
class Fragments:
    """Fragments in the order of their arrival, with what part of which datagram each of them holds."""

    rows: pl.DataFrame
    decoded: pl.DataFrame
    ends: Numbers
    data: npt.NDArray[np.uint8]
    spans: Numbers
    datagrams: Numbers

    @classmethod
    def of(cls, rows: pl.DataFrame, most_tunnels: int) -> Fragments:
        """Read them from their bytes: the columns of a capture do not say where the IP header is."""
        ends, data = byte_buffers(rows["packet"])
        lengths, links = rows["length"].to_numpy(), rows["link_type"].to_numpy()
        wanted = (*_KEY, "protocol", "tunnel_depth", "payload_offset", "payload_length", "ip_length")
        decoded = decode_block(side_by_side(data, ends, lengths, links), wanted, most_tunnels)
        length = decoded["ip_length"].cast(pl.Int64)
        at = decoded["payload_offset"].cast(pl.Int64) + decoded["payload_length"].cast(pl.Int64) - length
        found = np.zeros((f.SPAN, rows.height), np.int64)
        spans(data, ends, readonly(at.to_numpy()), readonly(length.to_numpy()), found)
        return cls(rows, decoded, ends, data, found, _numbered(decoded))

    def joined(self, packet_of: Numbers, last: Numbers, most_tunnels: int) -> pl.DataFrame:
        """The whole packets as rows like those of the fragments.

        ``packet_of`` is the packet of each fragment, -1 if none; ``last`` the fragment that completed each,
        which gives it its time.
        """
        head, size = np.zeros(len(last), np.int64), np.zeros(len(last), np.int64)
        owner = readonly(packet_of)
        heads(owner, readonly(self.spans), head, size)
        depth = self.decoded["tunnel_depth"].to_numpy()[head]
        begin = np.where(depth > 0, self.spans[f.AT, head], 0)
        places = np.zeros(len(last) + 1, np.int64)
        np.cumsum(self.spans[f.AT, head] + self.spans[f.HEAD, head] - begin + size, out=places[1:])
        out = np.empty(int(places[-1]), np.uint8)
        join(self.data, self.ends, owner, readonly(self.spans), head, begin, places, out)
        links = np.where(depth > 0, RAW_IP, self.rows["link_type"].to_numpy()[head])
        block, rows = side_by_side(out, places, np.diff(places), links), self.rows[last]
        return as_rows(block, places, rows, rows, self.decoded["tunnel_depth"][last], most_tunnels)


def _numbered(decoded: pl.DataFrame) -> Numbers:
    """A number for the datagram of each fragment.

    The protocol tells datagrams of IPv4 apart; fragments of an IPv6 packet may announce different ones.
    """
    protocol = pl.when(pl.col("ip_version") == 4).then("protocol").otherwise(0).cast(pl.UInt8)
    keys = decoded.select(*_KEY, protocol.alias("protocol"))
    kinds = {name: c.TYPES[name] for name in keys.columns}
    return KeyedTable(kinds, {}).rows(keys)
