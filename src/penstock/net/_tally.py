"""Numba steps and kernels that add packets up by protocol, without making a row of each."""

from __future__ import annotations

from typing import Any

import numpy as np

from penstock.frames._jit import Column, bounded, kernel, step
from penstock.net import _index_state as s
from penstock.net import _layout as y
from penstock.net._bytes import in32
from penstock.net._decode import TCP, UDP, decode_one, plain_protocol, plain_protocol6
from penstock.net._index_pcap import HEADER_BYTES, IS_NANO, LINK, MOST_BYTES, SWAPPED, sizes

CELLS = len(y.REASONS) * 4 * 256
"""A cell for each (reason, half of the IP version, protocol)."""

# Columns of a row: its stretch (by its end) and cell, what is added up, and the times of the stretch.
STRETCH, CELL, PACKETS, BYTES, CAPTURED, FIRST_NS, LAST_NS = range(7)
ROW = 7
# Of what is being added up: rows so far, where the first of them comes from, how many packets wait for the
# decoder; of the present stretch: its first row, its end, its least and greatest time (NO_TIME: none yet).
ROWS, PLACE, WAITING, FIRST_ROW, STRETCH_END, LEAST_NS, GREATEST_NS = range(7)
TALLY = 7

_BILLION = 1_000_000_000
_IPV4, _IPV6 = 2 * 256, 3 * 256


@step
def add(cell: Any, packets: Any, length: Any, captured: Any, cells: Column, rows: Column, n: Any) -> Any:
    """Add packets to their cell; answers how many rows there are then."""
    if packets == 0:
        return n
    if cells[cell] == 0:
        n += 1
        cells[cell] = n
        rows[n - 1, CELL] = cell
        rows[n - 1, PACKETS] = rows[n - 1, BYTES] = rows[n - 1, CAPTURED] = 0
    i = cells[cell] - 1
    rows[i, PACKETS] += packets
    rows[i, BYTES] += length
    rows[i, CAPTURED] += captured
    return n


@step
def add_one(
    data: Column, at: Any, captured: Any, length: Any, link_type: Any, most_tunnels: Any, row: Column,
    cells: Column, rows: Column, n: Any,
) -> Any:  # fmt: skip
    """Add a packet of any kind, by the decoder's word; answers as `add` does."""
    row[:] = 0
    decode_one(data, at, captured, length, link_type, most_tunnels, row)
    cell = (row[y.REASON] * 4 + (row[y.VERSION] >> 1)) * 256 + row[y.PROTOCOL]
    return add(cell, 1, length, captured, cells, rows, n)


@step
def see(least_ns: Any, greatest_ns: Any, tally: Column) -> None:
    """Widen the times of the present stretch."""
    if greatest_ns == s.NO_TIME:
        return
    if tally[LEAST_NS] == s.NO_TIME or least_ns < tally[LEAST_NS]:
        tally[LEAST_NS] = least_ns
    tally[GREATEST_NS] = max(tally[GREATEST_NS], greatest_ns)


@step
def end_stretch(cells: Column, rows: Column, n: Any, tally: Column) -> None:
    """Give the rows of the present stretch its times, and let its cells go."""
    for i in range(tally[FIRST_ROW], n):
        rows[i, STRETCH] = tally[STRETCH_END]
        rows[i, FIRST_NS], rows[i, LAST_NS] = tally[LEAST_NS], tally[GREATEST_NS]
        cells[rows[i, CELL]] = 0
    tally[FIRST_ROW] = n
    tally[LEAST_NS] = tally[GREATEST_NS] = s.NO_TIME


@step
def begin_stretch(place: Any, stretch: Any, cells: Column, rows: Column, n: Any, tally: Column) -> Any:
    """Begin the stretch that a place belongs to; False if the rows must be taken out first."""
    if n + CELLS > len(rows):
        return False
    if n == 0:
        tally[PLACE] = place
    end_stretch(cells, rows, n, tally)
    tally[STRETCH_END] = (place // stretch + 1) * stretch
    return True


@bounded("rows.shape == (2 * CELLS, ROW) and len(cells) == CELLS and len(tally) == TALLY")
@kernel
def finish(cells: Column, rows: Column, tally: Column) -> None:
    """End the present stretch, before the rows are taken out."""
    end_stretch(cells, rows, tally[ROWS], tally)
    tally[STRETCH_END] = 0


# A stretch has one row for each cell at most, and `begin_stretch` begins one only if CELLS rows are free.
@bounded(
    "rows.shape == (2 * CELLS, ROW) and len(cells) == CELLS and len(tally) == TALLY",
    "state[s.AT] >= 0 and filled <= len(data) and len(waiting) > 0",
)
@kernel
def count_plain(  # noqa: C901 - what the loop adds up must stay in registers, so in one function
    data: Column, filled: int, base: int, stop: int, form: Column, most_tunnels: int, stretch: int,
    state: Column, cells: Column, rows: Column, tally: Column, waiting: Column,
) -> int:  # fmt: skip
    """Walk over the records of a pcap file from state[AT] on and add up the sound TCP and UDP packets.

    Places of all other packets are put into ``waiting`` for `count_waiting`, which must follow: with the
    decoder in the same kernel there are too few registers for the loop (measured side by side on a busy
    machine: 21 ns per packet, and 12.5 for the loop alone). It ends (DONE) where the buffer or the range
    does, and before anything that `index_pcap` must judge; MORE asks to be called again, FULL to take the
    rows out before. The arguments are those of `index_pcap`.
    """
    big = state[s.IS_BIG] == 1
    header, limit, swapped, link_type = form[HEADER_BYTES], form[MOST_BYTES], form[SWAPPED], form[LINK]
    unit = 1 if form[IS_NANO] else 1000
    at, n, w, most_waiting = state[s.AT], tally[ROWS], 0, len(waiting)
    end = min(stop - base, filled - header + 1) if state[s.DAMAGE] < 0 else at
    is_sound, answer = True, s.DONE
    while is_sound and at < end:
        if base + at >= tally[STRETCH_END]:
            if w:  # they belong to the stretch before
                answer = s.MORE
                break
            if not begin_stretch(base + at, stretch, cells, rows, n, tally):
                answer = s.FULL
                break
        run_end = min(end, tally[STRETCH_END] - base)
        tcp = tcp_bytes = tcp_captured = udp = udp_bytes = udp_captured = np.int64(0)
        tcp6 = tcp6_bytes = tcp6_captured = udp6 = udp6_bytes = udp6_captured = np.int64(0)
        first, last, last_at = np.int64(s.MAX_NS), np.int64(0), np.int64(-1)
        while at < run_end and w < most_waiting:
            captured, wire = sizes(data, at, big, swapped)
            if captured > limit or at + header + captured > filled:
                is_sound = False
                break
            time_ns = in32(data, at, big) * _BILLION + in32(data, at + 4, big) * unit
            first, last = min(first, time_ns), max(last, time_ns)
            protocol = plain_protocol(data, at + header, captured, wire, link_type, most_tunnels)
            if protocol == TCP:
                tcp, tcp_bytes, tcp_captured = tcp + 1, tcp_bytes + wire, tcp_captured + captured
            elif protocol == UDP:
                udp, udp_bytes, udp_captured = udp + 1, udp_bytes + wire, udp_captured + captured
            else:
                protocol = plain_protocol6(data, at + header, captured, wire, link_type, most_tunnels)
                if protocol == TCP:
                    tcp6, tcp6_bytes, tcp6_captured = tcp6 + 1, tcp6_bytes + wire, tcp6_captured + captured
                elif protocol == UDP:
                    udp6, udp6_bytes, udp6_captured = udp6 + 1, udp6_bytes + wire, udp6_captured + captured
                else:
                    waiting[w] = at
                    w += 1
            last_at, at = at, at + header + captured
        if last_at >= 0:
            see(first, last, tally)
            state[s.LAST_S] = in32(data, last_at, big)
        n = add(_IPV4 + TCP, tcp, tcp_bytes, tcp_captured, cells, rows, n)
        n = add(_IPV4 + UDP, udp, udp_bytes, udp_captured, cells, rows, n)
        n = add(_IPV6 + TCP, tcp6, tcp6_bytes, tcp6_captured, cells, rows, n)
        n = add(_IPV6 + UDP, udp6, udp6_bytes, udp6_captured, cells, rows, n)
        if w == most_waiting:
            answer = s.MORE
            break
    state[s.AT], tally[ROWS], tally[WAITING] = at, n, w
    return answer


@bounded(
    "rows.shape == (2 * CELLS, ROW) and len(cells) == CELLS and len(tally) == TALLY",
    "tally[WAITING] <= len(waiting)",
)
@kernel
def count_waiting(
    data: Column, form: Column, most_tunnels: int, state: Column, cells: Column, rows: Column, tally: Column,
    waiting: Column,
) -> None:  # fmt: skip
    """Add up the packets that `count_plain` has put aside."""
    row = np.zeros(y.ROW, np.int64)
    big, n = state[s.IS_BIG] == 1, tally[ROWS]
    for at in waiting[: tally[WAITING]]:
        captured, wire = sizes(data, at, big, form[SWAPPED])
        n = add_one(
            data, at + form[HEADER_BYTES], captured, wire, form[LINK], most_tunnels, row, cells, rows, n
        )
    tally[ROWS], tally[WAITING] = n, 0


@bounded(
    "rows.shape == (2 * CELLS, ROW) and len(cells) == CELLS and len(tally) == TALLY",
    "places.shape[0] == 3 and lengths.shape == kinds.shape == (2, places.shape[1])",
)
@kernel
def count_block(
    data: Column, places: Column, lengths: Column, kinds: Column, first: int, most_tunnels: int, stretch: int,
    cells: Column, rows: Column, tally: Column,
) -> int:  # fmt: skip
    """Add up indexed packets from the first on; answers how far it came before the rows must be taken out."""
    row = np.zeros(y.ROW, np.int64)
    n = tally[ROWS]
    for i in range(first, places.shape[1]):
        if places[0, i] >= tally[STRETCH_END] and not begin_stretch(
            places[0, i], stretch, cells, rows, n, tally
        ):
            tally[ROWS] = n
            return i
        begin, captured, length = places[1, i], np.int64(lengths[0, i]), np.int64(lengths[1, i])
        see(places[2, i], places[2, i], tally)
        protocol = plain_protocol(data, begin, captured, length, kinds[1, i], most_tunnels)
        if protocol:
            n = add(_IPV4 + protocol, 1, length, captured, cells, rows, n)
        else:
            n = add_one(data, begin, captured, length, kinds[1, i], most_tunnels, row, cells, rows, n)
    tally[ROWS] = n
    return len(places[0])
