"""Numba steps for AES-128, encryption only: what QUIC's Initial packets need in both directions."""

from __future__ import annotations

from typing import Any

import numpy as np

from penstock.frames._jit import Column, bounded, kernel, step

BLOCK, KEYS = 16, 176


def _sbox() -> bytes:
    box, p, q = bytearray(256), 1, 1
    while True:
        p = p ^ (p << 1) & 0xFF ^ (0x1B if p & 0x80 else 0)
        q ^= q << 1
        q ^= q << 2
        q ^= q << 4
        q &= 0xFF
        if q & 0x80:
            q ^= 0x09
        rotated = q
        for shift in range(1, 5):
            rotated ^= (q << shift | q >> (8 - shift)) & 0xFF
        box[p] = rotated ^ 0x63
        if p == 1:
            box[0] = 0x63
            return bytes(box)


_SBOX = np.frombuffer(_sbox(), np.uint8)
_DOUBLED = np.array([(b << 1 ^ (0x1B if b & 0x80 else 0)) & 0xFF for b in range(256)], np.uint8)
_SHIFTED = np.array([(4 * (c + r) + r) % 16 for c in range(4) for r in range(4)])


@step
def expand(key: Any, keys: Any) -> None:
    """The keys of all rounds, one behind the other."""
    keys[:BLOCK] = key
    constant = np.uint8(1)
    for i in range(BLOCK, KEYS, 4):
        if i % BLOCK == 0:
            for k in range(4):
                keys[i + k] = keys[i - BLOCK + k] ^ _SBOX[keys[i - 4 + (k + 1) % 4]]
            keys[i] ^= constant
            constant = _DOUBLED[constant]
        else:
            for k in range(4):
                keys[i + k] = keys[i - BLOCK + k] ^ keys[i - 4 + k]


@step
def encrypt(keys: Any, state: Any, moved: Any) -> None:
    """Encrypt a block in place; ``moved`` is room for another."""
    for k in range(BLOCK):
        state[k] ^= keys[k]
    for n in range(1, 11):
        for k in range(BLOCK):
            moved[k] = _SBOX[state[_SHIFTED[k]]]
        for c in range(0, BLOCK, 4):
            every = moved[c] ^ moved[c + 1] ^ moved[c + 2] ^ moved[c + 3]
            for k in range(4):
                mixed = moved[c + k]
                if n < 10:
                    mixed ^= every ^ _DOUBLED[moved[c + k] ^ moved[c + (k + 1) % 4]]
                state[c + k] = mixed ^ keys[BLOCK * n + c + k]


@bounded("len(key) == len(state) == BLOCK")
@kernel
def encrypt_block(key: Column, state: Column) -> None:
    """Encrypt one block in place."""
    keys, moved = np.empty(KEYS, np.uint8), np.empty(BLOCK, np.uint8)
    expand(key, keys)
    encrypt(keys, state, moved)
