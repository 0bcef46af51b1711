"""Numba kernels that open QUIC's Initial packets and put the client hello in them together.

The tag is not checked: what is opened with the wrong keys is no hello, and that shows.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from penstock.frames._jit import Column, bounded, kernel, step
from penstock.net._aes import BLOCK, KEYS, encrypt, expand
from penstock.net.dpi import records as r
from penstock.net.dpi._hellos import MORE, short, tls
from penstock.net.dpi.records import record_end

HELLO, HOST = 8192, 256
# What is known of a flow's first Initial packet: where its record begins, its version, its destination ID.
RECORD, VERSION, ID_PLACE, ID_SIZE = range(4)
FIRST = 4
# Places in a flow's secret.
KEY, IV, HEADER, SECRET = 0, 16, 28, 44
_RECORD_HEAD = 5  # `tls` reads a record; the hello of QUIC has none
_V2 = 0x6B3343CF
_TAG = 16
_MOST_ID = 20


@step
def varint(data: Any, at: Any, stop: Any) -> tuple[Any, Any]:
    """A number as QUIC writes it, and where it ends; (-1, at) if it is cut."""
    if at >= stop:
        return np.int64(-1), at
    size = np.int64(1) << (data[at] >> 6)
    if at + size > stop:
        return np.int64(-1), at
    number = np.int64(data[at] & 63)
    for k in range(1, size):
        number = number << 8 | np.int64(data[at + k])
    return number, at + size


@step
def version_of(data: Any, at: Any, stop: Any) -> Any:
    return short(data, at + 1, stop) << 16 | short(data, at + 3, stop)


@step
def is_initial(data: Any, at: Any, stop: Any) -> Any:
    """Whether an Initial packet with its destination ID begins here."""
    if stop - at < 7 or data[at] & 0xC0 != 0xC0 or data[at + 5] > _MOST_ID or at + 6 + data[at + 5] >= stop:
        return False
    return data[at] >> 4 & 3 == (1 if version_of(data, at, stop) == _V2 else 0)


@bounded("ends[-1] <= len(data) and out.shape == (FIRST, len(which))")
@kernel
def first_initials(data: Column, ends: Column, which: Column, out: Column) -> None:
    """Find the first Initial packet of each flow; ID_PLACE is -1 if there is none."""
    for i in range(len(which)):
        at, stop = ends[which[i]], ends[which[i] + 1]
        out[ID_PLACE, i] = -1
        end = record_end(data, at, stop)
        while end >= 0:
            payload = at + r.HEAD
            if is_initial(data, payload, end):
                out[RECORD, i], out[VERSION, i] = at, version_of(data, payload, end)
                out[ID_PLACE, i], out[ID_SIZE, i] = payload + 6, data[payload + 5]
                break
            at = end
            end = record_end(data, at, stop)


@step
def opened(
    data: Any, at: Any, stop: Any, secret: Any, keys: Any, header_keys: Any, out: Any
) -> tuple[Any, Any]:
    """Decrypt the Initial packet here into ``out``; answers its plain size (-1: cannot) and where it ends."""
    number_at = at + 6 + data[at + 5]
    number_at += 1 + (np.int64(data[number_at]) if number_at < stop else 0)
    token, number_at = varint(data, number_at, stop)
    length, number_at = varint(data, number_at + max(token, 0), stop)
    end = number_at + length
    if token < 0 or length < 4 + _TAG or end > stop:
        return -1, stop
    block, moved = np.empty(BLOCK, np.uint8), np.empty(BLOCK, np.uint8)
    block[:] = data[number_at + 4 : number_at + 4 + BLOCK]
    encrypt(header_keys, block, moved)
    number_size = 1 + ((data[at] ^ block[0]) & 3)
    nonce = np.zeros(BLOCK, np.uint8)
    nonce[:12] = secret[IV : IV + 12]
    for k in range(number_size):
        nonce[12 - number_size + k] ^= data[number_at + k] ^ block[1 + k]
    begin = number_at + number_size
    size = min(end - begin - _TAG, len(out))
    for k in range(0, size, BLOCK):
        count = 2 + k // BLOCK
        block[:] = nonce
        block[14], block[15] = count >> 8, count & 255
        encrypt(keys, block, moved)
        for j in range(min(BLOCK, size - k)):
            out[k + j] = data[begin + k + j] ^ block[j]
    return size, end


@step
def collect(plain: Any, size: Any, hello: Any, is_there: Any) -> None:
    """Copy the CRYPTO frames of a packet to their places; stops at a frame that a client's first has not."""
    at = np.int64(0)
    while at < size:
        kind = plain[at]
        at += 1
        if kind <= 1:  # padding, ping
            continue
        if kind in (2, 3):
            at = after_ack(plain, at, size)
            if at < 0:
                return
            continue
        if kind != 6:
            return
        offset, at = varint(plain, at, size)
        length, at = varint(plain, at, size)
        if offset < 0 or length < 0:
            return
        for k in range(min(length, size - at)):
            place = _RECORD_HEAD + offset + k
            if place < len(hello):
                hello[place], is_there[place] = plain[at + k], 1
        at += length


@step
def after_ack(plain: Any, at: Any, size: Any) -> Any:
    """Where an ACK frame ends; -1 if it is cut."""
    _, at = varint(plain, at, size)
    _, at = varint(plain, at, size)
    ranges, at = varint(plain, at, size)
    _, at = varint(plain, at, size)
    if ranges < 0 or ranges > size:
        return np.int64(-1)
    for _ in range(2 * ranges):
        number, at = varint(plain, at, size)
        if number < 0:
            return np.int64(-1)
    return at


@bounded(
    "ends[-1] <= len(data) and first.shape == (FIRST, len(which))",
    "secrets.shape == (len(which), SECRET) and hosts.shape == (len(which), HOST)",
    "len(states) == len(sizes) == len(which)",
)
@kernel
def hosts_of(
    data: Column, ends: Column, which: Column, first: Column, secrets: Column, states: Column, hosts: Column,
    sizes: Column,
) -> None:  # fmt: skip
    """The server name in the client hello of each flow: a state of `tls`, the name and its size."""
    hello, is_there = np.zeros(HELLO, np.uint8), np.zeros(HELLO, np.uint8)
    plain = np.zeros(2048, np.uint8)
    keys, header_keys = np.zeros(KEYS, np.uint8), np.zeros(KEYS, np.uint8)
    for i in range(len(which)):
        if first[ID_PLACE, i] < 0:
            continue
        is_there[:] = 0
        expand(secrets[i, KEY : KEY + BLOCK], keys)
        expand(secrets[i, HEADER : HEADER + BLOCK], header_keys)
        at, stop = first[RECORD, i], ends[which[i] + 1]
        way = data[at + r.IS_REPLY]
        end = record_end(data, at, stop)
        while end >= 0:
            place = at + r.HEAD
            while data[at + r.IS_REPLY] == way and place < end and is_initial(data, place, end):
                size, place = opened(data, place, end, secrets[i], keys, header_keys, plain)
                collect(plain, size, hello, is_there)
            at = end
            end = record_end(data, at, stop)
        known = _RECORD_HEAD
        while known < HELLO and is_there[known]:
            known += 1
        hello[0], hello[1], hello[2] = 22, 3, 1
        states[i], begin, size = tls(hello, known)
        if known == _RECORD_HEAD and is_there.any():  # a later part came first
            states[i] = MORE
        sizes[i] = min(size, HOST)
        for k in range(sizes[i]):
            hosts[i, k] = hello[begin + k]
