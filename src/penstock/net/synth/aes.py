"""AES-128 with Galois/Counter mode in plain Python: enough for the few packets of QUIC's templates."""

from __future__ import annotations

import hmac

_FIELD = 0xE1 << 120


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


_SBOX = _sbox()
_SHIFTED = [(4 * (column + row) + row) % 16 for column in range(4) for row in range(4)]


def _doubled(byte: int) -> int:
    return (byte << 1 ^ (0x1B if byte & 0x80 else 0)) & 0xFF


def _round_keys(key: bytes) -> list[bytes]:
    words = [key[i : i + 4] for i in range(0, 16, 4)]
    constant = 1
    for i in range(4, 44):
        word = words[-1]
        if i % 4 == 0:
            turned = bytes(_SBOX[b] for b in word[1:] + word[:1])
            word = bytes([turned[0] ^ constant]) + turned[1:]
            constant = _doubled(constant)
        words.append(_xor(words[i - 4], word))
    return [b"".join(words[i : i + 4]) for i in range(0, 44, 4)]


def _xor(a: bytes, b: bytes) -> bytes:
    return bytes(x ^ y for x, y in zip(a, b, strict=False))


class Aes128:
    """Encrypts blocks of 16 bytes under one key."""

    def __init__(self, key: bytes) -> None:
        self._keys = _round_keys(key)

    def block(self, plain: bytes) -> bytes:
        """One block encrypted."""
        state = _xor(plain, self._keys[0])
        for n, key in enumerate(self._keys[1:], 1):
            moved = [_SBOX[state[i]] for i in _SHIFTED]
            state = _xor(bytes(moved) if n == 10 else _mix_columns(moved), key)
        return state


def _mix_columns(state: list[int]) -> bytes:
    out = bytearray()
    for i in range(0, 16, 4):
        column = state[i : i + 4]
        every = column[0] ^ column[1] ^ column[2] ^ column[3]
        out += bytes(column[k] ^ every ^ _doubled(column[k] ^ column[(k + 1) % 4]) for k in range(4))
    return bytes(out)


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


def hkdf_extract(salt: bytes, secret: bytes) -> bytes:
    """HKDF's first half with SHA-256."""
    return hmac.digest(salt, secret, "sha256")


def hkdf_expand_label(secret: bytes, label: bytes, size: int) -> bytes:
    """TLS 1.3's HKDF-Expand-Label without a context, for at most 32 bytes."""
    name = b"tls13 " + label
    info = size.to_bytes(2, "big") + bytes([len(name)]) + name + b"\0"
    return hmac.digest(secret, info + b"\x01", "sha256")[:size]
