"""What is declared by hand of nDPI: it is what the library has, and anything else is refused in words."""

from __future__ import annotations

import ctypes
import platform
from importlib.util import find_spec
from typing import Any

import pytest
from tests.net import making as m

from penstock.errors import NdpiUnusable
from penstock.net.dpi import abi
from penstock.net.dpi.ndpi import Ndpi

needs_ndpi = pytest.mark.skipif(
    find_spec("_lib_engine") is None, reason="nfstream is not here (extra dpi)"
)  # where it is, a wrong declaration must fail and not skip
needs_x86 = pytest.mark.skipif(
    platform.machine() != "x86_64", reason="passes the result's place as x86-64 does"
)
_ROOM = 256


def refusal() -> dict[str, Any]:
    with pytest.raises(NdpiUnusable) as error:
        abi.loaded()
    assert error.value.condition == "NDPI_UNUSABLE"
    assert error.value.parameters["next_step"]
    return {name: error.value.parameters[name] for name in ("what", "got", "allowed")}


def with_size(name: str, size: int) -> dict[str, Any]:
    return {**abi.STRUCTS, name: (size, abi.STRUCTS[name][1])}


@needs_ndpi
@needs_x86
@pytest.mark.parametrize("function", ["ndpi_detection_process_packet", "ndpi_detection_giveup"])
def test_ndpi_writes_as_many_bytes_by_value_as_its_result_is_declared_to_have(function: str) -> None:
    # Two patterns: what is the same under both was written, what follows the pattern was not.
    first, second = result_of(function, 0x5A), result_of(function, 0xC3)
    written = [a == b for a, b in zip(first, second, strict=True)]
    extent = max(place for place, is_written in enumerate(written) if is_written) + 1
    state, size = abi.STRUCTS["struct ndpi_proto"][1]["state"]
    assert state + size <= extent <= abi.RESULT_BYTES  # the last bytes are padding


def result_of(function: str, pattern: int) -> bytes:
    """What a function leaves in a buffer of this pattern that is larger than any result."""
    engine, library = abi.loaded()
    checker = engine.ffi.new("struct dissector_checker *")
    checker.flow_size = abi.STRUCTS["struct ndpi_flow_struct"][0]
    module = int(engine.ffi.cast("intptr_t", engine.lib.dissector_init(checker)))
    engine.lib.dissector_configure(engine.ffi.cast("void *", module))
    room, flow = ctypes.create_string_buffer(_ROOM), ctypes.create_string_buffer(checker.flow_size)
    ctypes.memset(room, pattern, _ROOM)
    packet = m.ipv4(m.tcp(b"?", src=40000, dst=22), 6)
    call = getattr(library, function)
    call.restype = ctypes.c_void_p
    pointer = ctypes.c_void_p
    if function == "ndpi_detection_giveup":
        call(room, pointer(module), flow)
    else:
        long = ctypes.c_uint64
        call(room, pointer(module), flow, packet, ctypes.c_uint16(len(packet)), long(1), pointer(None))
    library.ndpi_free_flow_data(flow)
    return room.raw


@needs_ndpi
@pytest.mark.parametrize(
    ("name", "size"),
    [("struct ndpi_proto", 24), ("struct ndpi_proto", 64), ("struct ndpi_flow_struct", 1200)],
)
def test_a_struct_of_another_size_is_refused(name: str, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    actual = abi.STRUCTS[name][0]
    monkeypatch.setattr(abi, "STRUCTS", with_size(name, size))
    assert refusal() == {"what": name, "got": f"{actual} bytes", "allowed": f"{size} bytes"}


@needs_ndpi
def test_a_field_in_another_place_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    size, fields = abi.STRUCTS["struct ndpi_proto"]
    moved = {**abi.STRUCTS, "struct ndpi_proto": (size, {**fields, "category": (8, 4)})}
    monkeypatch.setattr(abi, "STRUCTS", moved)
    assert refusal() == {
        "what": "struct ndpi_proto.category",
        "got": "4 bytes at 24",
        "allowed": "4 bytes at 8",
    }


@needs_ndpi
@pytest.mark.parametrize(
    ("constant", "value", "what"),
    [
        ("NFSTREAM", "6.5.4", "the version of nfstream"),
        ("NDPI", "4.14.0", "the revision of nDPI"),
        ("API_VERSION", 14, "the version of nDPI's interface"),
        ("FUNCTIONS", ("ndpi_no_such_function",), "a function of nDPI"),
        ("WORD_BYTES", 4, "the word of this Python"),
        ("MACHINES", ("s390x",), "the processor"),
    ],
)
def test_another_version_machine_or_library_is_refused(
    constant: str, value: object, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(abi, constant, value)
    assert refusal()["what"] == what
    with pytest.raises(NdpiUnusable):
        Ndpi()


def test_an_unknown_processor_is_refused_before_anything_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "riscv32")
    monkeypatch.setattr(abi, "importlib", None)
    assert refusal()["got"] == "riscv32"


def test_bytes_written_behind_the_result_are_told_with_their_number() -> None:
    behind = bytearray([abi.GUARD]) * abi.GUARD_BYTES
    abi.check_guard(behind)
    behind[7] = 0
    with pytest.raises(NdpiUnusable) as error:
        abi.check_guard(behind)
    assert error.value.parameters["got"] == f"{abi.RESULT_BYTES + 8} bytes"
