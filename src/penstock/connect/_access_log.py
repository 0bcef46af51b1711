"""Finds the fields of access log lines in one pass; numba kernels, imported when first used."""

from __future__ import annotations

from typing import Any

import numpy as np

from penstock.frames._jit import Column, bounded, kernel, step
from penstock.frames._kernels import NULL, folded, hash_one

HOST, USER, METHOD, PATH, QUERY, PROTOCOL, REFERRER, AGENT, COOKIE = range(9)
TEXTS = 9
TIME, STATUS, BYTES = range(3)
NUMBERS = 3
NONE = -1
REASONS = (
    "",
    "no [time] after the host",
    "the time is not of the form [29/Aug/1995:23:53:25 -0400]",
    'no "request" after the time, or its end is missing',
    "no status after the request",
    "the number of bytes is neither a number nor '-'",
    "a quoted field has no end",
)
GOOD, NO_TIME, BAD_TIME, NO_REQUEST, NO_STATUS, BAD_BYTES, NO_END = range(7)

_NEWLINE, _RETURN, _SPACE, _QUOTE, _BACKSLASH = 10, 13, 32, 34, 92
_OPEN, _CLOSE, _COLON, _SLASH, _DASH, _PLUS, _QUESTION = 91, 93, 58, 47, 45, 43, 63
_MONTHS = np.frombuffer(b"JanFebMarAprMayJunJulAugSepOctNovDec", np.uint8)
_SECOND = 1_000_000
_ONES, _HIGHS = np.uint64(0x0101010101010101), np.uint64(0x8080808080808080)
_PLACES = np.uint64(0x0001020304050607)  # multiplied by 256**k, its highest byte is k


@step
def _word(data: Column, at: int) -> Any:
    """Eight bytes as a number; the compiler makes one load of this."""
    word = np.uint64(0)
    for j in range(8):
        word |= np.uint64(data[np.uint64(at) + np.uint64(j)]) << np.uint64(8 * j)
    return word


@step
def _find(data: Column, at: int, end: int, wanted: int) -> int:
    """The place of a byte, or ``end``. Eight bytes at once: a byte that is the wanted one becomes 0."""
    pattern = np.uint64(wanted) * _ONES
    while at + 8 <= end:
        word = _word(data, at) ^ pattern
        zeros = (word - _ONES) & ~word & _HIGHS
        if zeros:
            first = zeros & (~zeros + np.uint64(1))
            return at + int(np.int64(((first >> np.uint64(7)) * _PLACES) >> np.uint64(56)))
        at += 8
    while at < end and data[at] != wanted:
        at += 1
    return at


@step
def _number(data: Column, at: int, end: int) -> int:
    """The number that these bytes spell; NONE if they do not."""
    if at >= end or end - at > 18:
        return NONE
    value = 0
    for i in range(at, end):
        digit = np.int64(data[i]) - 48
        if digit < 0 or digit > 9:
            return NONE
        value = value * 10 + int(digit)
    return value


@step
def _clock(data: Column, at: int) -> int:
    """Seconds of the day that HH:MM:SS spells; NONE if it does not."""
    if data[at + 2] != _COLON or data[at + 5] != _COLON:
        return NONE
    hour, minute = _number(data, at, at + 2), _number(data, at + 3, at + 5)
    second = _number(data, at + 6, at + 8)
    if hour < 0 or hour > 23 or minute < 0 or minute > 59 or second < 0 or second > 60:
        return NONE
    return hour * 3600 + minute * 60 + second


@step
def _month(data: Column, at: int) -> int:
    for month in range(12):
        if (
            data[at] == _MONTHS[3 * month]
            and data[at + 1] == _MONTHS[3 * month + 1]
            and data[at + 2] == _MONTHS[3 * month + 2]
        ):
            return month + 1
    return NONE


@step
def _days_in(year: int, month: int) -> int:
    if month == 2:
        return 29 if year % 4 == 0 and (year % 100 != 0 or year % 400 == 0) else 28
    return 30 if month in (4, 6, 9, 11) else 31


@step
def _days(year: int, month: int, day: int) -> int:
    """Days since 1970-01-01 (Howard Hinnant's days_from_civil)."""
    if month <= 2:
        year -= 1
    of_era = year % 400
    of_year = (153 * (month + (9 if month <= 2 else -3)) + 2) // 5 + day - 1
    return year // 400 * 146097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719468


@step
def _time(data: Column, at: int, end: int) -> int:
    """Microseconds since 1970 in UTC; NONE if it is no time. [DD:HH:MM:SS] has no month: January 1970."""
    if end - at == 11 and data[at + 2] == _COLON:
        day, clock = _number(data, at, at + 2), _clock(data, at + 3)
        return ((day - 1) * 86400 + clock) * _SECOND if 1 <= day <= 31 and clock >= 0 else NONE
    if (
        end - at not in (20, 26)
        or data[at + 2] != _SLASH
        or data[at + 6] != _SLASH
        or data[at + 11] != _COLON
    ):
        return NONE
    day, month, year = _number(data, at, at + 2), _month(data, at + 3), _number(data, at + 7, at + 11)
    clock = _clock(data, at + 12)
    if month < 0 or year < 1970 or clock < 0 or day < 1 or day > _days_in(year, month):
        return NONE
    seconds = _days(year, month, day) * 86400 + clock
    if end - at == 26:
        hours, minutes = _number(data, at + 22, at + 24), _number(data, at + 24, at + 26)
        sign = data[at + 21]
        if hours < 0 or minutes < 0 or data[at + 20] != _SPACE or sign not in (_PLUS, _DASH):
            return NONE
        zone = hours * 3600 + minutes * 60
        seconds += zone if sign == _DASH else -zone
    return max(seconds, 0) * _SECOND


@step
def _is_escaped(data: Column, at: int) -> bool:
    """Whether an odd number of backslashes lies before a place."""
    before = at - 1
    while data[before] == _BACKSLASH:
        before -= 1
    return (at - before) % 2 == 0


@step
def _quote_end(data: Column, at: int, end: int, is_request: bool) -> int:  # noqa: FBT001 - a kernel's flag
    """The place of the quote that ends a field: what follows it is the line's end or the next field.

    Old servers did not escape quotes, so not every quote inside of a request ends it.
    """
    at = _find(data, at, end, _QUOTE)
    while at < end:
        is_last = at + 1 == end
        if (is_last or data[at + 1] == _SPACE) and not _is_escaped(data, at):
            if not is_request:
                return at
            if at + 2 < end and (48 <= data[at + 2] <= 57 or data[at + 2] == _DASH):
                return at
        at = _find(data, at + 1, end, _QUOTE)
    return NONE


@step
def _put(texts: Column, row: int, field: int, begin: int, end: int) -> None:
    texts[row, 2 * field] = begin
    texts[row, 2 * field + 1] = end


@step
def _put_request(data: Column, at: int, end: int, texts: Column, row: int) -> None:
    """Method, path, query and protocol; none of them if the client sent no request at all."""
    method = _find(data, at, end, _SPACE)
    if method in (end, at):
        return
    last = end - 1
    while data[last] != _SPACE:
        last -= 1
    target = last if last > method and end - last > 5 and data[last + 1] == 72 else end  # "H" of HTTP/…
    question = _find(data, method + 1, target, _QUESTION)
    _put(texts, row, METHOD, at, method)
    _put(texts, row, PATH, method + 1, question)
    if question < target:
        _put(texts, row, QUERY, question + 1, target)
    if target < end:
        _put(texts, row, PROTOCOL, last + 1, end)


@step
def _put_quoted(data: Column, at: int, end: int, texts: Column, row: int) -> int:
    """Referrer, agent and cookie, as many of them as there are."""
    for field in (REFERRER, AGENT, COOKIE):
        if at >= end or data[at] != _QUOTE:
            return GOOD
        close = _quote_end(data, at + 1, end, False)
        if close < 0:
            return NO_END
        if not (close == at + 2 and data[at + 1] == _DASH):
            _put(texts, row, field, at + 1, close)
        at = close + 2
    return GOOD


@step
def _line(data: Column, at: int, end: int, texts: Column, numbers: Column, row: int) -> int:
    """Enter the fields of one line; gives why it is bad, or GOOD."""
    host = _find(data, at, end, _SPACE)
    opened = _find(data, host, end, _OPEN)
    if host == at or opened >= end or data[opened - 1] != _SPACE:
        return NO_TIME
    closed = _find(data, opened, end, _CLOSE)
    numbers[TIME, row] = _time(data, opened + 1, closed)
    if closed >= end or numbers[TIME, row] < 0:
        return BAD_TIME
    _put(texts, row, HOST, at, host)
    ident = _find(data, host + 1, opened, _SPACE)
    if ident + 1 < opened - 1 and not (ident + 2 == opened - 1 and data[ident + 1] == _DASH):
        _put(texts, row, USER, ident + 1, opened - 1)
    if closed + 2 >= end or data[closed + 1] != _SPACE or data[closed + 2] != _QUOTE:
        return NO_REQUEST
    quote = _quote_end(data, closed + 3, end, True)
    if quote < 0:
        return NO_REQUEST
    _put_request(data, closed + 3, quote, texts, row)
    status = _find(data, quote + 2, end, _SPACE)
    numbers[STATUS, row] = _number(data, quote + 2, status)
    if status - quote != 5 or numbers[STATUS, row] < 0:
        return NO_STATUS
    size = _find(data, status + 1, end, _SPACE)
    if size > status + 1 and not (size == status + 2 and data[status + 1] == _DASH):
        numbers[BYTES, row] = _number(data, status + 1, size)
        if numbers[BYTES, row] < 0:
            return BAD_BYTES
    return _put_quoted(data, size + 1, end, texts, row)


@kernel
def line_breaks(data: Column) -> int:
    """How many there are."""
    count, at, end = 0, np.uint64(0), np.uint64(len(data))
    while at < end:
        some = np.uint8(0)  # so small that the compiler adds up 16 and more at once
        for i in range(at, min(at + np.uint64(255), end)):
            some += np.uint8(data[i] == _NEWLINE)
        count += int(np.int64(some))
        at += np.uint64(255)
    return count


# There is one line more than `line_breaks` at most. Places in a block are int32.
@bounded(
    "len(data) < 1 << 31 and lines.shape[0] == 2 and numbers.shape[0] == NUMBERS",
    "lines.shape[1] == numbers.shape[1] == len(texts) == len(reasons) and texts.shape[1] == 2 * TEXTS",
)
@kernel
def scan(data: Column, lines: Column, texts: Column, numbers: Column, reasons: Column) -> int:
    """Enter every line that is not blank; gives how many there are.

    ``lines`` gets where lines begin and end, ``texts`` where their fields do.
    """
    row, at = 0, 0
    while at < len(data):
        end = _find(data, at, len(data), _NEWLINE)
        last = end - 1 if end > at and data[end - 1] == _RETURN else end
        if last > at:
            lines[0, row], lines[1, row] = at, last
            numbers[BYTES, row] = NONE
            for place in range(2 * TEXTS):
                texts[row, place] = NONE
            reasons[row] = _line(data, at, last, texts, numbers, row)
            row += 1
        at = end + 1
    return row


@bounded("len(hashes) == len(texts) and texts.shape[1] == 2 * TEXTS")
@kernel
def visitors(data: Column, texts: Column, hashes: Column) -> None:
    """The stable hash of host and agent, as ``frames.hashing.stable_hash`` has it."""
    for i in range(len(texts)):
        hashes[i] = folded(
            folded(np.uint64(0), _field_hash(data, texts, i, HOST)), _field_hash(data, texts, i, AGENT)
        )


@step
def _field_hash(data: Column, texts: Column, row: int, field: int) -> Any:
    begin, end = texts[row, 2 * field], texts[row, 2 * field + 1]
    return NULL if begin < 0 else hash_one(data, np.uint64(begin), np.uint64(end))


@bounded("words.shape == (len(texts), 4) and field < TEXTS and len(data) < 1 << 31")
@kernel
def views(data: Column, texts: Column, field: int, words: Column) -> None:
    """Arrow's string views of a field: up to 12 bytes lie in the view, longer ones stay where they are."""
    for i in range(len(texts)):
        begin, length = texts[i, 2 * field], max(texts[i, 2 * field + 1] - texts[i, 2 * field], 0)
        words[i, 0] = length
        for word in range(1, 4 if length <= 12 else 2):
            bits = np.uint32(0)
            for j in range(min(length - 4 * (word - 1), 4)):
                bits |= np.uint32(data[begin + 4 * (word - 1) + j]) << np.uint32(8 * j)
            words[i, word] = bits
        if length > 12:
            words[i, 2], words[i, 3] = 0, begin
