"""AES-128 in Galois/Counter mode: enough for the few packets of QUIC's templates."""

from __future__ import annotations

import numpy as np

from penstock.net._aes import encrypt_block

_FIELD = 0xE1 << 120


def _xor(a: bytes, b: bytes) -> bytes:
    return bytes(x ^ y for x, y in zip(a, b, strict=False))


class Aes128:
    """Encrypts blocks of 16 bytes under one key."""

    def __init__(self, key: bytes) -> None:
        self._key = np.frombuffer(key, np.uint8)

    def block(self, plain: bytes) -> bytes:
        """One block encrypted."""
        state = np.array(bytearray(plain), np.uint8)
        encrypt_block(self._key, state)
        return state.tobytes()


def gcm_seal(key: bytes, nonce: bytes, plain: bytes, header: bytes) -> bytes:
    """The text encrypted, and the tag of 16 bytes over it and the header."""
    cipher = Aes128(key)
    count = -(-len(plain) // 16)
    stream = b"".join(cipher.block(nonce + (i + 2).to_bytes(4, "big")) for i in range(count))
    sealed = _xor(plain, stream)
    hashed = _ghash(int.from_bytes(cipher.block(bytes(16)), "big"), header, sealed)
    return sealed + _xor(hashed.to_bytes(16, "big"), cipher.block(nonce + b"\0\0\0\x01"))


def _ghash(h: int, header: bytes, sealed: bytes) -> int:
    lengths = (len(header) * 8 << 64 | len(sealed) * 8).to_bytes(16, "big")
    whole = header + bytes(-len(header) % 16) + sealed + bytes(-len(sealed) % 16) + lengths
    y = 0
    for i in range(0, len(whole), 16):
        y = _multiplied(y ^ int.from_bytes(whole[i : i + 16], "big"), h)
    return y


def _multiplied(x: int, y: int) -> int:
    product = 0
    for bit in range(127, -1, -1):
        if x >> bit & 1:
            product ^= y
        y = y >> 1 ^ (_FIELD if y & 1 else 0)
    return product
