"""Packets that were put together from parts, as rows like those of a capture."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from penstock.net import columns as c
from penstock.net.capture import Block, Resume
from penstock.net.decoding import decode_block

Numbers = npt.NDArray[np.int64]
RAW_IP = 101
_OF_RECORD = ("time", "time_ns", "interface")
_OF_LINK = ("vlan", "inner_vlan", "mpls_label", "ethertype")
_OF_TUNNEL = ("tunnel", "tunnel_id", *(name for name in c.WIDE if name.startswith("outer_")))


def side_by_side(data: Any, ends: Numbers, lengths: Any, links: Any) -> Block:
    """Packets that lie one behind the other, as if they had been read from a file."""
    captured = np.diff(ends)
    places = np.stack([ends[:-1], ends[:-1], np.zeros(len(captured), np.int64)])
    sizes = np.stack([captured, np.maximum(captured, lengths)]).astype(np.uint32)
    kinds = np.stack([np.zeros(len(captured)), links]).astype(np.uint32)
    return Block(data, places, sizes, kinds, (), Resume(0))


def as_rows(
    block: Block, places: Numbers, last: pl.DataFrame, carrier: pl.DataFrame, depth: pl.Series, most: int
) -> pl.DataFrame:
    """What decoding finds in whole packets, with the rest of the row of the part that completed each.

    ``depth`` tells in how many tunnels the parts travelled. If in any, then columns of link and tunnel are
    those of the row in ``carrier``; tunnels inside of the packets are followed up to ``most``.
    """
    own = [name for name in last.columns if name in c.TYPES and name not in ("packet", *_OF_RECORD)]
    found = decode_block(block, tuple(dict.fromkeys([*own, "tunnel_depth"])), most)
    carried = depth.cast(pl.UInt8)
    was_inside, is_direct = carried > 0, found["tunnel_depth"] == 0
    kept = {**dict.fromkeys(_OF_LINK, was_inside), **dict.fromkeys(_OF_TUNNEL, was_inside & is_direct)}
    columns = {
        name: found[name].zip_with(~kept[name], carrier[name]) if name in kept else found[name]
        for name in own
    }
    if "tunnel_depth" in own:
        columns["tunnel_depth"] = found["tunnel_depth"] + carried
    buffers = [None, pa.py_buffer(places), pa.py_buffer(block.data)]
    packets = pl.Series("packet", pa.Array.from_buffers(pa.large_binary(), last.height, buffers))
    return last.with_columns(packets, *(column.alias(name) for name, column in columns.items()))
