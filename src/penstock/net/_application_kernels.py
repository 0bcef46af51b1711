"""The numba kernel that says which packets are kept for an engine, who is judged now, and what is counted."""

from __future__ import annotations

from typing import Any

import numpy as np

from penstock.frames._jit import Column, bounded, kernel, step

_TCP, _SYN = 6, 2
# Rows of what is known of a group: the packets, kept in this batch, of one life of a flow.
ROW, PACKETS, SIZE, HAS_PAST, IS_LAST, ENDED, FACTS = range(7)
# Rows of a piece: the packets of a decided flow in this batch. Behind them comes what carries the flow.
P_LABEL, P_PACKETS, P_BYTES, P_CARRIER = range(4)
# Rows of what is known of a flow that ended. Behind them comes what carried it.
LABEL, GROUP, CARRIER = range(3)
CARRIED = 4
PIECE, ENDINGS = P_CARRIER + CARRIED, CARRIER + CARRIED


@step
def _carry(
    high: Column, low: Column, number: Column, since: Column, r: Any, out: Column, first: Any, k: Any
) -> None:
    """Write down what carries a flow."""
    out[first, k], out[first + 1, k] = np.int64(high[r]), np.int64(low[r])
    out[first + 2, k], out[first + 3, k] = np.int64(number[r]), since[r]


@step
def _group(r: Any, kept: Column, group_of: Column, facts: Column, count: Any) -> Any:
    """Let a row have a group; returns how many groups there are."""
    if group_of[r] == 0:
        facts[:, count] = 0
        facts[ROW, count], facts[HAS_PAST, count] = r, kept[r] > 0
        count += 1
        group_of[r] = count
    return count


@step
def _piece(
    r: Any, size: Any, verdict: Column, piece_of: Column, pieces: Column, piece_rows: Column, told: Any
) -> Any:
    """Count a packet of a decided flow; returns how many pieces there are."""
    if piece_of[r] == 0:
        pieces[P_LABEL, told], pieces[P_PACKETS, told], pieces[P_BYTES, told] = verdict[r], 0, 0
        piece_rows[told] = r
        told += 1
        piece_of[r] = told
    pieces[P_PACKETS, piece_of[r] - 1] += 1
    pieces[P_BYTES, piece_of[r] - 1] += size
    return told


@step
def _says_nothing(protocol: Any, size: Any, flags: Any) -> Any:
    """A TCP segment without payload, except when it opens a connection."""
    return protocol == _TCP and size == 0 and flags & _SYN == 0


# A packet begins one group and one piece at most, and a flow that ends begins one group at most.
@bounded(
    "len(which) == len(rows)",
    "len(groups) == len(room) == len(sizes) == len(times) == len(lengths) == len(flags) == len(protocol)",
    "len(ends_high) == len(ends_low) == len(ends_id) and len(ends_low) in (0, len(sizes))",
    "len(verdict) == len(kept) == len(kept_bytes) == len(high) == len(low) == len(number) == len(since)",
    "len(verdict) == len(group_of) == len(piece_of)",
    "facts.shape[0] == FACTS and facts.shape[1] >= len(rows) + len(ended_at)",
    "pieces.shape[0] == PIECE and min(pieces.shape[1], len(piece_rows)) >= len(rows)",
    "ended.shape == (ENDINGS, len(ended_at))",
)
@kernel
def pick(
    which: Column, rows: Column, ended_at: Column, sizes: Column, times: Column, lengths: Column,
    flags: Column, protocol: Column, ends_high: Column, ends_low: Column, ends_id: Column,
    most_packets: int, most_bytes: int, head: int, verdict: Column, kept: Column, kept_bytes: Column,
    high: Column, low: Column, number: Column, since: Column, group_of: Column, piece_of: Column,
    groups: Column, room: Column, facts: Column, pieces: Column, piece_rows: Column, ended: Column,
) -> tuple[int, int]:  # fmt: skip
    """Give each packet a group if it is kept, and count it in a piece if its flow is decided.

    Returns how many groups and pieces there are. ``group_of`` and ``piece_of`` have the group and piece + 1
    of each row, 0 at the start. ``ended`` gets the label of each flow that ended, and the group + 1 of one
    that was not decided. ``ends_…`` say what carries each packet (empty: not asked for); a flow keeps its
    first one.
    """
    count = told = e = 0
    has_ends = len(ends_low) > 0
    for k in range(len(rows)):
        i, r = which[k], rows[k]
        if e < len(ended_at) and ended_at[e] == k:
            ended[LABEL, e] = verdict[r]
            _carry(high, low, number, since, r, ended, CARRIER, e)
            if piece_of[r] > 0:
                _carry(high, low, number, since, r, pieces, P_CARRIER, piece_of[r] - 1)
                piece_rows[piece_of[r] - 1] = -1
            if verdict[r] == 0:
                count = _group(r, kept, group_of, facts, count)
                facts[IS_LAST, group_of[r] - 1] = facts[ENDED, group_of[r] - 1] = 1
            ended[GROUP, e] = group_of[r]
            verdict[r] = kept[r] = kept_bytes[r] = group_of[r] = piece_of[r] = 0
            high[r] = low[r] = number[r] = since[r] = 0
            e += 1
        if has_ends and high[r] | low[r] == 0 and ends_high[i] | ends_low[i] != 0:
            high[r], low[r], number[r], since[r] = ends_high[i], ends_low[i], ends_id[i], times[i]
        groups[i] = -1
        if verdict[r] != 0:
            told = _piece(r, lengths[i], verdict, piece_of, pieces, piece_rows, told)
            continue
        if kept[r] >= most_packets or _says_nothing(protocol[i], sizes[i], flags[i]):
            continue
        count = _group(r, kept, group_of, facts, count)
        g = group_of[r] - 1
        # More may be kept than ``most_bytes``: the state is older than a change that lowered it.
        left = max(np.int64(0), most_bytes - np.int64(kept_bytes[r]))
        size = min(np.int64(sizes[i]), left, np.int64(65535))
        groups[i], room[i] = g, size
        facts[PACKETS, g] += 1
        facts[SIZE, g] += head + size
        kept[r] += 1
        kept_bytes[r] += size
        if kept[r] >= most_packets or kept_bytes[r] >= most_bytes:
            facts[IS_LAST, g] = 1
            kept[r] = most_packets
    if has_ends:
        for p in range(told):
            if piece_rows[p] >= 0:
                _carry(high, low, number, since, piece_rows[p], pieces, P_CARRIER, p)
    return count, told
