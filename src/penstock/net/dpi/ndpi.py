"""nDPI, through the engine inside of the ``nfstream`` package (extra ``dpi``).

The engine is a private module, so the version is pinned, the layout of its structures is read from the module
itself, and a known DNS query is asked at the start. nDPI's caches over flows are switched off: with them
a verdict would depend on which other flows this process has seen, and change after a recovery.
"""

from __future__ import annotations

import ctypes
import importlib
import threading
from typing import Any, ClassVar

import numpy as np

from penstock.frames._jit import readonly
from penstock.net.dpi import _ndpi_kernels as k
from penstock.net.dpi.records import Record, pack
from penstock.net.dpi.verdict import UNKNOWN, FirstPackets, Label, Verdicts

NFSTREAM = "6.6.0"
"""The version whose private engine this is written for; `pyproject.toml` pins the same."""
UNREAD = {
    "tls": ("metadata.sha1_fingerprint", "metadata.ja3s_fingerprint", "metadata.ja4c_fingerprint"),
    None: ("metadata.tcp_fingerprint", "metadata.ndpi_fingerprint", "flow_risk.all"),
}
"""What nDPI also works out and nobody here reads. Without it verdicts are the same, in half of the time:
0.41 instead of 0.83 s for 45,922 flows, with no difference there nor in 3,909 of nDPI's own captures."""
CACHES = ("ookla", "bittorrent", "stun", "tls_cert", "mining", "msteams", "fpc_dns", "signal")
_CONFIDENCES = (
    "Unknown", "Match by port", "Match by nBPF", "DPI (partial)", "DPI (partial cache)", "DPI (cache)", "DPI",
    "Match by IP", "DPI (aggressive)", "Match by custom rule",
)  # fmt: skip
_PACKET = {
    "time": k.P_TIME, "src_ip": k.P_SRC_IP, "dst_ip": k.P_DST_IP, "src_port": k.P_SRC_PORT,
    "dst_port": k.P_DST_PORT, "ip_version": k.P_VERSION, "protocol": k.P_PROTOCOL, "raw_size": k.P_RAW,
    "ip_size": k.P_IP, "transport_size": k.P_TRANSPORT, "payload_size": k.P_PAYLOAD,
    "ip_content_len": k.P_LENGTH, "ip_content": k.P_CONTENT,
}  # fmt: skip
_FLOW = {
    "application_name": k.F_NAME, "category_name": k.F_CATEGORY, "requested_server_name": k.F_HOST,
    "ndpi_flow": k.F_NDPI, "confidence": k.F_CONFIDENCE,
}  # fmt: skip
_QUERY = bytes.fromhex("abcd01000001000000000000") + b"\x03www\x07netflix\x03com\0\0\x01\0\x01"


class NdpiUnusable(ImportError):
    """nfstream's engine is missing, or is not the one that this was written for."""


class Ndpi:
    """The engine of nDPI. Raises NdpiUnusable where it is missing or does not answer as it should."""

    _lock: ClassVar[threading.Lock] = threading.Lock()

    def __init__(self) -> None:
        try:
            self._open()
        except (AttributeError, KeyError, ValueError, TypeError) as error:
            raise NdpiUnusable(f"nfstream's engine has changed: {type(error).__name__}: {error}") from error
        self._content = np.zeros(1 << 17, np.uint8)
        self._nf = np.zeros(self._packet_bytes, np.uint8)
        self._check()

    @property
    def name(self) -> str:
        return f"nDPI {self._version} (nfstream {NFSTREAM})"

    def judge(self, flows: FirstPackets) -> Verdicts:
        n = len(flows)
        answers = np.zeros((k.ANSWERS, n), np.int64)
        names, categories = (np.zeros((n, k.NAME), np.uint8) for _ in range(2))
        hosts = np.zeros((n, k.HOST), np.uint8)
        with self._lock:  # nDPI keeps scratch space for one packet at a time
            judge: Any = k.judge
            failed = judge(
                readonly(flows.data), readonly(flows.ends), *map(readonly, flows.ends_of_flows),
                readonly(flows.is_last), self._addresses, self._places, self._nf, self._content,
                answers, names, categories, hosts,
            )  # fmt: skip
        if failed:
            raise MemoryError(f"nDPI had no memory for {failed} flows")
        label, labels = _labels(answers, names, categories)
        return Verdicts(answers[k.DECIDED] == 1, label, labels, _hosts(hosts))

    def _open(self) -> None:
        try:
            engine = importlib.import_module("_lib_engine")
        except ImportError as error:
            raise NdpiUnusable(
                f"nfstream is not installed: pip install 'penstock[dpi]' ({NFSTREAM})"
            ) from error
        ffi, lib = engine.ffi, engine.lib
        version = ffi.string(lib.engine_lib_version()).decode()
        if version != NFSTREAM:
            raise NdpiUnusable(f"nfstream {version} is installed, its engine was tried with {NFSTREAM}")
        self._version = ffi.string(lib.engine_lib_ndpi_version()).decode()
        checker = ffi.new("struct dissector_checker *")
        checker.flow_size = ffi.sizeof("struct ndpi_flow_struct")
        module = lib.dissector_init(checker)
        if module == ffi.NULL:
            raise NdpiUnusable("nfstream's engine and the nDPI inside of it do not fit")
        self._addresses = np.zeros(5, np.int64)
        for place, name in (
            (k.INITIALIZE, "meter_initialize_flow"),
            (k.UPDATE, "meter_update_flow"),
            (k.EXPIRE, "meter_expire_flow"),
            (k.FREE, "meter_free_flow"),
        ):
            self._addresses[place] = int(ffi.cast("intptr_t", ffi.addressof(lib, name)))
        self._addresses[k.DISSECTOR] = int(ffi.cast("intptr_t", module))
        self._settle(str(engine.__file__))
        lib.dissector_configure(module)
        self._packet_bytes = ffi.sizeof("struct nf_packet")
        self._places = _places(ffi)

    def _settle(self, path: str) -> None:
        """Switch off what makes verdicts depend on other flows, and what costs time for nothing."""
        configure = ctypes.CDLL(path).ndpi_set_config
        configure.argtypes = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_char_p)
        configure.restype = ctypes.c_int
        module = int(self._addresses[k.DISSECTOR])
        unread = [(group, name) for group, names in UNREAD.items() for name in names]
        for group, name in (*((None, f"lru.{cache}.size") for cache in CACHES), *unread):
            if configure(module, group and group.encode(), name.encode(), b"0") != 0:
                raise NdpiUnusable(f"nDPI has no setting '{name}' that could be switched off")

    def _check(self) -> None:
        """Ask what is known; a module that changed in silence must not judge."""
        verdicts = self.judge(one_flow([Record(_QUERY)], protocol=17, src_port=40000, dst_port=53))
        found = (verdicts.of(0).application, verdicts.hosts.get(0))
        if found != ("DNS.NetFlix", "www.netflix.com"):
            raise NdpiUnusable(f"nDPI should see a DNS query for www.netflix.com, and sees {found}")


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


def _places(ffi: Any) -> Any:
    """Where things lie, as the module itself tells."""
    places = np.zeros(k.PLACES, np.int64)
    for struct, names in (("struct nf_packet", _PACKET), ("struct nf_flow", _FLOW)):
        for name, place in names.items():
            places[place] = ffi.offsetof(struct, name)
    proto = ffi.offsetof("struct nf_flow", "detected_protocol")
    places[k.F_MASTER] = proto + ffi.offsetof("struct ndpi_proto", "proto")
    places[k.F_APPLICATION] = places[k.F_MASTER] + 2
    places[k.F_CATEGORY_ID] = proto + ffi.offsetof("struct ndpi_proto", "category")
    places[k.N_STATE] = ffi.offsetof("struct ndpi_flow_struct", "state")
    places[k.FLOW_BYTES] = ffi.sizeof("struct nf_flow")
    return places


def _labels(answers: Any, names: Any, categories: Any) -> tuple[Any, tuple[Label, ...]]:
    """Each distinct answer is put into words once."""
    code = np.zeros(answers.shape[1], np.int64)
    for row in (k.MASTER, k.APPLICATION, k.CATEGORY_ID, k.CONFIDENCE, k.DECIDED):
        code = code * (1 << 12) + answers[row]
    _, first, label = np.unique(code, return_index=True, return_inverse=True)
    return label, tuple(_label(answers[:, f], names[f], categories[f]) for f in first.tolist())


def _label(answer: Any, name: Any, category: Any) -> Label:
    application = _text(name)
    if not answer[k.DECIDED] or not application:
        return UNKNOWN
    confidence = int(answer[k.CONFIDENCE])
    words = _CONFIDENCES[confidence] if confidence < len(_CONFIDENCES) else "DPI"
    return Label(application, _text(category) or UNKNOWN.category, words)


def _text(content: Any) -> str:
    return bytes(content).partition(b"\0")[0].decode("utf-8", "replace")


def _hosts(hosts: Any) -> dict[int, str]:
    named = np.flatnonzero(hosts[:, 0])
    texts = hosts[named].view(f"S{k.HOST}")[:, 0].tolist()
    return {
        flow: text.partition(b"\0")[0].decode("utf-8", "replace")
        for flow, text in zip(named.tolist(), texts, strict=True)
    }
