"""What this package declares by hand of nDPI's binary interface, and the checks that it is so.

nDPI is called by address, with structs that no compiler of ours has seen. A wrong size or calling
convention damages memory, so every declaration is compared with the loaded library before the first call.
The layouts are those of nDPI 5.0 on 64-bit machines, as nfstream's debug information has them
(``gdb -ex 'ptype /o struct ndpi_proto' _lib_engine.abi3.so``).
"""

from __future__ import annotations

import ctypes
import importlib
import platform
import sys
from typing import Any

from penstock.errors import NdpiUnusable

NFSTREAM = "6.6.0"
"""The version whose private engine this is written for; `pyproject.toml` pins the same."""
NDPI = "5.0.0-1-375f99e"
"""The revision of nDPI inside of it."""
API_VERSION = 15
MACHINES = ("x86_64", "amd64", "aarch64", "arm64")
"""Where a struct of more than two words is returned in memory that the caller gives, as `_native` does it."""
WORD_BYTES = 8

RESULT_BYTES = 56
"""``struct ndpi_proto``, which nDPI returns by value."""
HOST_BYTES = 80
STRUCTS: dict[str, tuple[int, dict[str, tuple[int, int]]]] = {
    "struct ndpi_proto": (
        RESULT_BYTES,
        {
            "proto": (0, 4),
            "protocol_stack": (4, 18),
            "protocol_by_ip": (22, 2),
            "category": (24, 4),
            "breed": (28, 4),
            "fpc": (32, 8),
            "custom_category_userdata": (40, 8),
            "state": (48, 4),
        },
    ),
    "struct ndpi_flow_struct": (
        1208,
        {"state": (24, 4), "confidence": (52, 4), "host_server_name": (276, HOST_BYTES)},
    ),
}
"""Structs, their sizes, and place and size of the fields that are read."""
FUNCTIONS = (
    "ndpi_detection_process_packet", "ndpi_detection_giveup", "ndpi_free_flow_data", "ndpi_set_config",
    "ndpi_protocol2name", "ndpi_category_get_name", "ndpi_get_api_version",
    "ndpi_detection_get_sizeof_ndpi_flow_struct",
)  # fmt: skip
GUARD_BYTES, GUARD = 256, 0xA5
"""What lies behind the room for a result, to show whether nDPI writes more than it."""

_BUILTIN = "or let the built-in engine judge: engine='builtin'"
_REINSTALL = f"pip install --force-reinstall 'nfstream=={NFSTREAM}', {_BUILTIN}"


def loaded() -> tuple[Any, ctypes.CDLL]:
    """Return nfstream's engine and the library that it is; raise NdpiUnusable if it is not the one declared.

    Calls nothing that takes or returns a struct.
    """
    _check_machine()
    try:
        engine = importlib.import_module("_lib_engine")
    except ImportError as error:
        raise unusable(
            "nfstream's engine",
            f"missing ({error})",
            f"nfstream {NFSTREAM}",
            f"pip install 'penstock[dpi]', {_BUILTIN}",
        ) from error
    library = ctypes.CDLL(str(engine.__file__))
    _check_revision(engine, library)
    _check_structs(engine.ffi, library)
    return engine, library


def check_guard(behind: Any) -> None:
    """Raise NdpiUnusable if nDPI has written behind the room for its result."""
    changed = [place for place, byte in enumerate(bytes(behind)) if byte != GUARD]
    if changed:
        raise unusable(
            "the result that nDPI writes", f"{RESULT_BYTES + changed[-1] + 1} bytes", f"{RESULT_BYTES} bytes"
        )


def unusable(what: str, got: object, allowed: object, next_step: str = _REINSTALL) -> NdpiUnusable:
    """Make the error that says why nDPI is not called."""
    return NdpiUnusable(what=what, got=got, allowed=allowed, next_step=next_step)


def _check_machine() -> None:
    machine, word = platform.machine().lower(), ctypes.sizeof(ctypes.c_void_p)
    step = f"use a 64-bit machine of one of these kinds, {_BUILTIN}"
    if machine not in MACHINES:
        raise unusable("the processor", machine, ", ".join(MACHINES), step)
    if word != WORD_BYTES or sys.byteorder != "little":
        got = f"{8 * word} bits, {sys.byteorder}-endian"
        raise unusable("the word of this Python", got, f"{8 * WORD_BYTES} bits, little-endian", step)


def _check_revision(engine: Any, library: ctypes.CDLL) -> None:
    text = engine.ffi.string
    for what, got, allowed in (
        ("the version of nfstream", text(engine.lib.engine_lib_version()).decode(), NFSTREAM),
        ("the revision of nDPI", text(engine.lib.engine_lib_ndpi_version()).decode(), NDPI),
    ):
        if got != allowed:
            raise unusable(what, got, allowed)
    if missing := [name for name in FUNCTIONS if not hasattr(library, name)]:
        raise unusable("a function of nDPI", f"missing ({', '.join(missing)})", "all that are called")
    if (found := library.ndpi_get_api_version()) != API_VERSION:
        raise unusable("the version of nDPI's interface", found, API_VERSION)


def _check_structs(ffi: Any, library: ctypes.CDLL) -> None:
    """Compare with what the compiler of the engine saw, and with what nDPI says itself."""
    for name, (size, fields) in STRUCTS.items():
        kind = ffi.typeof(name)
        if (found := ffi.sizeof(kind)) != size:
            raise unusable(name, f"{found} bytes", f"{size} bytes")
        known = dict(kind.fields)
        for field, place in fields.items():
            got = (known[field].offset, ffi.sizeof(known[field].type)) if field in known else None
            if got != place:
                raise unusable(f"{name}.{field}", _told(got), _told(place))
    flow = STRUCTS["struct ndpi_flow_struct"][0]
    if (found := library.ndpi_detection_get_sizeof_ndpi_flow_struct()) != flow:
        raise unusable("struct ndpi_flow_struct inside of nDPI", f"{found} bytes", f"{flow} bytes")


def _told(place: tuple[int, int] | None) -> str:
    return f"{place[1]} bytes at {place[0]}" if place else "missing"
