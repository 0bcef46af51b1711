"""nDPI, through the engine inside of the ``nfstream`` package (extra ``dpi``).

The engine is a private module, so the version is pinned, `abi` compares all that is declared of it with the
loaded library, and what is known is asked at the start. nDPI's caches over flows are switched off: with them
a verdict would depend on which other flows this process has seen, and change after a recovery.
"""

from __future__ import annotations

import ctypes
import threading
from typing import Any, ClassVar

import numpy as np

from penstock.frames._jit import readonly
from penstock.net.dpi import _ndpi_kernels as k
from penstock.net.dpi import abi
from penstock.net.dpi.records import Record, pack
from penstock.net.dpi.verdict import UNKNOWN, FirstPackets, Label, Verdicts, texts

UNREAD = {
    "tls": ("metadata.sha1_fingerprint", "metadata.ja3s_fingerprint", "metadata.ja4c_fingerprint"),
    None: ("metadata.tcp_fingerprint", "metadata.ndpi_fingerprint", "flow_risk.all", "dpi.compute_entropy"),
}
"""What nDPI also works out and nobody here reads. Without it verdicts are the same, in half of the time:
0.41 instead of 0.83 s for 45,922 flows, with no difference there nor in 3,909 of nDPI's own captures. Entropy
alone is a seventh of what is left."""
CACHES = ("ookla", "bittorrent", "stun", "tls_cert", "mining", "msteams", "fpc_dns", "signal")
_CONFIDENCES = (
    "Unknown", "Match by port", "Match by nBPF", "DPI (partial)", "DPI (partial cache)", "DPI (cache)", "DPI",
    "Match by IP", "DPI (aggressive)", "Match by custom rule",
)  # fmt: skip
_FUNCTIONS = {
    "ndpi_detection_process_packet": k.PROCESS,
    "ndpi_detection_giveup": k.GIVE_UP,
    "ndpi_free_flow_data": k.RELEASE,
}
_NAME = 64
_QUERY = bytes.fromhex("abcd01000001000000000000") + b"\x03www\x07netflix\x03com\0\0\x01\0\x01"


class Ndpi:
    """The engine of nDPI. Raises NdpiUnusable where it is missing or does not answer as it should."""

    _lock: ClassVar[threading.Lock] = threading.Lock()

    def __init__(self) -> None:
        try:
            self._open()
        except (AttributeError, KeyError, ValueError, TypeError) as error:
            got = f"not as expected ({type(error).__name__}: {error})"
            raise abi.unusable("nfstream's engine", got, f"that of {abi.NFSTREAM}") from error
        self._content = np.zeros(1 << 17, np.uint8)
        self._check()
        abi.check_guard(self._room[abi.RESULT_BYTES :])

    @property
    def name(self) -> str:
        return f"nDPI {abi.NDPI} (nfstream {abi.NFSTREAM})"

    def judge(self, flows: FirstPackets) -> Verdicts:
        n = len(flows)
        answers = np.zeros((k.ANSWERS, n), np.int64)
        hosts = np.empty(n * abi.HOST_BYTES, np.uint8)
        with self._lock:  # nDPI keeps scratch space for one packet at a time
            judge: Any = k.judge
            size = judge(
                readonly(flows.data), readonly(flows.ends), *map(readonly, flows.ends_of_flows),
                readonly(flows.is_last), self._addresses, self._places, self._flow, self._proto,
                self._content, answers, hosts,
            )  # fmt: skip
        label, labels = self._labels(answers)
        return Verdicts(answers[k.DECIDED] == 1, label, labels, texts(hosts[:size], answers[k.HOST_SIZE]))

    def _open(self) -> None:
        engine, self._library = abi.loaded()
        ffi, lib = engine.ffi, engine.lib
        checker = ffi.new("struct dissector_checker *")
        checker.flow_size = ffi.sizeof("struct ndpi_flow_struct")
        module = lib.dissector_init(checker)
        if module == ffi.NULL:
            raise abi.unusable("the nDPI inside of nfstream's engine", "not the one that fits", abi.NDPI)
        self._addresses = np.zeros(k.ADDRESSES, np.int64)
        self._addresses[k.MODULE] = int(ffi.cast("intptr_t", module))
        for name, place in _FUNCTIONS.items():
            function = getattr(self._library, name)
            self._addresses[place] = ctypes.cast(function, ctypes.c_void_p).value or 0
        self._settle()
        lib.dissector_configure(module)
        self._flow = np.zeros(ffi.sizeof("struct ndpi_flow_struct"), np.uint8)
        self._room = np.full(abi.RESULT_BYTES + abi.GUARD_BYTES, abi.GUARD, np.uint8)
        self._proto = self._room[: abi.RESULT_BYTES]
        self._places = _places()
        self._names = _Names(self._library, int(self._addresses[k.MODULE]))

    def _settle(self) -> None:
        """Switch off what makes verdicts depend on other flows, and what costs time for nothing."""
        configure = self._library.ndpi_set_config
        configure.argtypes = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_char_p)
        configure.restype = ctypes.c_int
        module = int(self._addresses[k.MODULE])
        unread = [(group, name) for group, names in UNREAD.items() for name in names]
        for group, name in (*((None, f"lru.{cache}.size") for cache in CACHES), *unread):
            if configure(module, group and group.encode(), name.encode(), b"0") != 0:
                raise abi.unusable(f"nDPI's setting '{name}'", "missing", "one that can be switched off")

    def _check(self) -> None:
        """Ask what is known; a module that changed in silence must not judge."""
        seen = self.judge(one_flow([Record(_QUERY)], protocol=17, src_port=40000, dst_port=53))
        found = (seen.of(0).application, seen.hosts[0])
        if found != ("DNS.NetFlix", "www.netflix.com"):
            raise abi.unusable("nDPI's answer to a DNS query for www.netflix.com", found, "DNS.NetFlix")
        guessed = self.judge(one_flow([Record(b"?")], protocol=6, src_port=40000, dst_port=22)).of(0)
        if (guessed.application, guessed.confidence) != ("SSH", "Match by port"):
            raise abi.unusable("nDPI's guess for port 22", guessed, "SSH, Match by port")

    def _labels(self, answers: Any) -> tuple[Any, tuple[Label, ...]]:
        """Each distinct answer is put into words once."""
        code = np.zeros(answers.shape[1], np.int64)
        for row in (k.MASTER, k.APPLICATION, k.CATEGORY, k.CONFIDENCE, k.DECIDED):
            code = code * (1 << 12) + answers[row]
        _, first, label = np.unique(code, return_index=True, return_inverse=True)
        return label, tuple(self._label(answers[:, f].tolist()) for f in first.tolist())

    def _label(self, answer: list[int]) -> Label:
        application = self._names.application(answer[k.MASTER], answer[k.APPLICATION])
        if not (answer[k.DECIDED] and application):
            return UNKNOWN
        confidence = answer[k.CONFIDENCE]
        words = _CONFIDENCES[confidence] if confidence < len(_CONFIDENCES) else "DPI"
        return Label(application, self._names.category(answer[k.CATEGORY]) or UNKNOWN.category, words)


class _Names:
    """What nDPI calls its numbers."""

    def __init__(self, library: ctypes.CDLL, module: int) -> None:
        self._module = module
        self._of_application = library.ndpi_protocol2name
        self._of_application.argtypes = (ctypes.c_void_p, _Pair, ctypes.c_char_p, ctypes.c_uint)
        self._of_application.restype = ctypes.c_void_p
        self._of_category = library.ndpi_category_get_name
        self._of_category.argtypes = (ctypes.c_void_p, ctypes.c_int)
        self._of_category.restype = ctypes.c_char_p

    def application(self, master: int, application: int) -> str:
        buffer = ctypes.create_string_buffer(_NAME)
        self._of_application(self._module, _Pair(master, application), buffer, _NAME)
        return buffer.value.decode("utf-8", "replace")

    def category(self, number: int) -> str:
        return (self._of_category(self._module, number) or b"").decode("utf-8", "replace")


class _Pair(ctypes.Structure):
    """A protocol and the application inside of it."""

    _fields_ = (("master", ctypes.c_uint16), ("application", ctypes.c_uint16))


def one_flow(
    packets: list[Record], *, protocol: int, src_port: int = 0, dst_port: int = 0, is_last: bool = True
) -> FirstPackets:
    """One flow between 10.0.0.1 and 10.0.0.2, for self-tests and for trying things out."""
    data = np.frombuffer(pack(packets), np.uint8)
    address = 0xFFFF << 32 | 10 << 24
    return FirstPackets(
        data, np.array([0, len(data)]), np.zeros(1, np.uint64), np.array([address + 1], np.uint64),
        np.zeros(1, np.uint64), np.array([address + 2], np.uint64), np.array([src_port], np.uint16),
        np.array([dst_port], np.uint16), np.array([protocol], np.uint8), np.array([is_last]),
    )  # fmt: skip


def _places() -> Any:
    """Where things lie in nDPI's structs."""
    (_, proto), (_, flow) = (abi.STRUCTS[name] for name in ("struct ndpi_proto", "struct ndpi_flow_struct"))
    places = np.zeros(k.PLACES, np.int64)
    places[k.P_MASTER] = proto["proto"][0]
    places[k.P_APPLICATION] = places[k.P_MASTER] + 2
    places[k.P_CATEGORY] = proto["category"][0]
    for name, place in (
        ("state", k.F_STATE), ("confidence", k.F_CONFIDENCE), ("host_server_name", k.F_HOST),
    ):  # fmt: skip
        places[place] = flow[name][0]
    return places
