"""Mutated captures by number: the same number gives the same bytes, so a finding can be made again."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

_TELLING = (0, 1, 2, 3, 4, 5, 6, 8, 16, 17, 20, 32, 41, 44, 47, 63, 64, 69, 96, 127, 128, 254, 255)
_MOST_BYTES = 4096
_KEPT_HEAD = 24  # behind the header of pcap: a file that is no capture is soon read


class Mutator:
    """Makes inputs from a corpus: a few edits each, sometimes of two captures joined."""

    def __init__(self, corpus: Sequence[bytes], seed: int) -> None:
        self._corpus = corpus
        self._seed = seed

    def made(self, number: int) -> bytes:
        """The input of this number."""
        rng = random.Random(self._seed << 40 | number)
        data = bytearray(rng.choice(self._corpus))
        first = 0 if rng.random() < 0.05 else min(_KEPT_HEAD, len(data))
        edit(data, first, rng.choice((1, 1, 2, 2, 3, 4, 6, 10, 24)), rng)
        if rng.random() < 0.15:
            other = rng.choice(self._corpus)
            data += other[rng.randrange(len(other)) if rng.random() < 0.5 else _KEPT_HEAD :]
        return bytes(data[:_MOST_BYTES])


def edit(data: bytearray, first: int, times: int, rng: random.Random) -> None:
    """Change some bytes from ``first`` on, in place."""
    for _ in range(times):
        if len(data) > first:
            rng.choice(_EDITS)(data, rng.randrange(first, len(data)), rng)


def _flip(data: bytearray, at: int, rng: random.Random) -> None:
    data[at] ^= 1 << rng.randrange(8)


def _telling(data: bytearray, at: int, rng: random.Random) -> None:
    data[at] = rng.choice(_TELLING)


def _step(data: bytearray, at: int, rng: random.Random) -> None:
    data[at] = (data[at] + rng.randrange(-8, 9)) & 255


def _length(data: bytearray, at: int, rng: random.Random) -> None:
    width = rng.choice((2, 4))
    value = rng.choice((0, 1, rng.randrange(2000), 0x7FFF, 0xFFFF, (1 << 8 * width) - 1))
    data[at : at + width] = value.to_bytes(width, rng.choice(("big", "little")))


def _cut(data: bytearray, at: int, rng: random.Random) -> None:
    del data[at : at + rng.choice((1, 2, 4, 16, rng.randrange(1, 400)))]


def _insert(data: bytearray, at: int, rng: random.Random) -> None:
    data[at:at] = rng.randbytes(rng.choice((1, 2, 4, 16)))


def _repeat(data: bytearray, at: int, rng: random.Random) -> None:
    data[at:at] = data[at : at + rng.randrange(1, 200)]


def _move(data: bytearray, at: int, rng: random.Random) -> None:
    begin, size = rng.randrange(len(data)), rng.randrange(1, 64)
    data[at : at + size] = data[begin : begin + size]


_EDITS: tuple[Callable[[bytearray, int, random.Random], None], ...] = (
    _flip, _flip, _telling, _telling, _telling, _step, _length, _length, _cut, _insert, _repeat, _move,
)  # fmt: skip
