"""Numba steps that find the host in what a client says first: TLS, HTTP, DNS. Bytes are never trusted.

Each answers (state, begin, length of the host); the host of DNS is in its own wire form.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from penstock.frames._jit import step

NO, MORE, YES = range(3)
"""Not this protocol; this one, but the host may still come; this one, and all is said."""
_LOWER = 32
_METHODS = (
    b"GET ",
    b"POST ",
    b"HEAD ",
    b"PUT ",
    b"DELETE ",
    b"OPTIONS ",
    b"CONNECT ",
    b"PATCH ",
    b"TRACE ",
    b"PROPFIND ",
)
METHODS = np.zeros((len(_METHODS), 10), np.uint8)
for _place, _method in enumerate(_METHODS):
    METHODS[_place, : len(_method)] = np.frombuffer(_method, np.uint8)


@step
def short(data: Any, at: Any, stop: Any) -> Any:
    """Two bytes as a number; 0 behind the end."""
    return np.int64(data[at]) << 8 | np.int64(data[at + 1]) if at + 2 <= stop else np.int64(0)


@step
def tls(data: Any, size: Any) -> tuple[Any, Any, Any]:
    """The server name of a client hello, which may go on in a later segment or record."""
    if size < 6 or data[0] != 22 or data[1] != 3 or data[2] > 4:
        return NO, 0, 0
    if data[5] != 1:
        return (YES if data[5] == 2 else NO), 0, 0
    if size < 44:
        return MORE, 0, 0
    stop = 9 + (np.int64(data[6]) << 16) + short(data, 7, size)
    at = 43 + 1 + np.int64(data[43])
    at += 2 + short(data, at, size)
    at += 1 + (np.int64(data[at]) if at < size else 0)
    if at + 2 > min(stop, size):
        return (MORE if stop > size else YES), 0, 0
    stop = min(stop, at + 2 + short(data, at, size))
    at += 2
    while at + 4 <= min(stop, size):
        length = short(data, at + 2, size)
        if short(data, at, size) == 0 and at + 9 <= size:
            name = short(data, at + 7, size)
            if at + 9 + name > size:
                return MORE, 0, 0
            return YES, at + 9, min(name, max(length - 5, 0))
        at += 4 + length
    return (MORE if stop > size and at < stop else YES), 0, 0


@step
def has_method(data: Any, size: Any) -> Any:
    for m in range(len(METHODS)):
        k = 0
        while k < METHODS.shape[1] and METHODS[m, k] != 0 and k < size and data[k] == METHODS[m, k]:
            k += 1
        if k == METHODS.shape[1] or METHODS[m, k] == 0:
            return True
    return False


@step
def is_host_line(data: Any, at: Any, size: Any) -> Any:
    """Whether a line begins here with "host:"."""
    return (
        at + 5 <= size
        and data[at] | _LOWER == 104
        and data[at + 1] | _LOWER == 111
        and data[at + 2] | _LOWER == 115
        and data[at + 3] | _LOWER == 116
        and data[at + 4] == 58
    )


@step
def http(data: Any, size: Any) -> tuple[Any, Any, Any]:
    """The host of a request."""
    if not has_method(data, size):
        return NO, 0, 0
    at = 0
    while at < size:
        while at < size and data[at] != 10:
            at += 1
        at += 1
        if at < size and (data[at] == 13 or data[at] == 10):
            return YES, 0, 0
        if is_host_line(data, at, size):
            begin = at + 5
            while begin < size and data[begin] == 32:
                begin += 1
            end = begin
            while end < size and data[end] > 32:
                end += 1
            return (YES if end < size else MORE), begin, (end - begin if end < size else 0)
    return MORE, 0, 0


@step
def dns(data: Any, begin: Any, stop: Any) -> tuple[Any, Any, Any]:
    """The first name that is asked for, as labels with their lengths."""
    if stop - begin < 17 or data[begin + 3] & 0x40:
        return NO, 0, 0
    questions = short(data, begin + 4, stop)
    records = short(data, begin + 6, stop) + short(data, begin + 8, stop) + short(data, begin + 10, stop)
    if (
        questions > 16
        or records > 255
        or (questions == 0 and records == 0)
        or (data[begin + 2] >> 3) & 15 > 6
    ):
        return NO, 0, 0
    at = begin + 12
    while at < stop and data[at] != 0:
        if data[at] > 63:
            return (YES if data[at] >= 192 and at > begin + 12 else NO), 0, 0
        at += 1 + np.int64(data[at])
    if at >= stop:
        return NO, 0, 0
    return YES, begin + 12, (at - begin - 12 if questions else 0)
