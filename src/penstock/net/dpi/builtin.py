"""The engine that needs nothing: first bytes, host names and ports."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt
import polars as pl

from penstock.frames._jit import readonly
from penstock.net.dpi import _recognise as kernels
from penstock.net.dpi._hellos import MORE
from penstock.net.dpi._protocols import CODE, NAMES, PORTS, PROTOCOLS, SERVICES
from penstock.net.dpi.quic import quic_hosts
from penstock.net.dpi.verdict import UNKNOWN, FirstPackets, Label, Verdicts

_STREAM = 8192
_NAMED_BY_WIRE = ("DNS", "MDNS", "LLMNR")
_WIRE_CODES = [CODE[name] for name in _NAMED_BY_WIRE]


class Builtin:
    """Knows some seventy protocols, and services by the hosts that clients name (TLS, QUIC, HTTP, DNS)."""

    @property
    def name(self) -> str:
        return "built-in"

    def judge(self, flows: FirstPackets) -> Verdicts:
        n = len(flows)
        codes, sizes = (np.zeros(n, np.int64) for _ in range(2))
        is_said = np.zeros(n, np.bool_)
        hosts = np.zeros((n, kernels.HOST), np.uint8)
        client, server = (np.zeros(_STREAM, np.uint8) for _ in range(2))
        kernels.recognise(
            readonly(flows.data), readonly(flows.ends), readonly(flows.src_port), readonly(flows.dst_port),
            readonly(flows.protocol), codes, is_said, hosts, sizes, client, server,
        )  # fmt: skip
        quic = np.flatnonzero(codes == CODE["QUIC"])
        if len(quic):
            states, hosts[quic], sizes[quic] = quic_hosts(flows, quic)
            is_said[quic] = states != MORE
        guessed, is_sure = _guessed(flows)
        is_plain = codes == 0
        is_decided = is_said | flows.is_last | is_sure
        return _put_together(
            is_decided, np.where(is_plain, guessed, codes), is_plain & ~is_sure, hosts, sizes
        )


def _put_together(
    is_decided: npt.NDArray[np.bool_], codes: npt.NDArray[np.int64], is_guess: npt.NDArray[np.bool_],
    hosts: npt.NDArray[np.uint8], sizes: npt.NDArray[np.int64],
) -> Verdicts:  # fmt: skip
    named = np.flatnonzero(sizes)
    wire = np.isin(codes[named], _WIRE_CODES).tolist()
    names = [
        host_text(bytes(hosts[f, :size]), from_wire=is_wire)
        for f, size, is_wire in zip(named.tolist(), sizes[named].tolist(), wire, strict=True)
    ]
    numbers: dict[Label, int] = {}
    plain = codes * 2 + is_guess
    kinds, label = np.unique(plain, return_inverse=True)
    of_kind = [numbers.setdefault(_label(int(kind)), len(numbers)) for kind in kinds]
    label = np.array(of_kind, np.int64)[label] if len(of_kind) else label
    for f, host in zip(named.tolist(), names, strict=True):
        label[f] = numbers.setdefault(_with_service(int(plain[f]), host), len(numbers))
    found: list[str | None] = [None] * len(codes)
    for f, host in zip(named.tolist(), names, strict=True):
        found[f] = host or None
    return Verdicts(is_decided, label, tuple(numbers), pl.Series(found, dtype=pl.String))


@lru_cache(maxsize=1 << 16)
def host_text(content: bytes, *, from_wire: bool) -> str:
    """A host as people write it; DNS writes lengths in the place of dots.

    >>> host_text(b"\\x03www\\x07example\\x03com", from_wire=True)
    'www.example.com'
    """
    if from_wire:
        labels = []
        while content:
            labels.append(content[1 : 1 + content[0]])
            content = content[1 + content[0] :]
        content = b".".join(labels)
    else:
        head, _, port = content.rpartition(b":")
        content = head if head and port.isdigit() and not head.endswith(b":") else content
    return content.decode("ascii", "replace").lower()


@lru_cache(maxsize=1 << 16)
def service_of(host: str) -> tuple[str, str] | None:
    """The service that a host belongs to, and its category.

    >>> service_of("www.youtube.com")
    ('YouTube', 'Media')
    """
    if host.startswith("ocsp."):  # whoever signs certificates runs one
        return "OCSP", "Network"
    while host:
        if host in SERVICES:
            return SERVICES[host]
        host = host.partition(".")[2]
    return None


def _guessed(flows: FirstPackets) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """What ports and protocol numbers say; and where that is no guess."""
    codes = np.zeros(len(flows), np.int64)
    is_sure = np.zeros(len(flows), np.bool_)
    for protocol in np.unique(flows.protocol).tolist():
        here = flows.protocol == protocol
        if protocol in PROTOCOLS:
            codes[here], is_sure[here] = CODE[PROTOCOLS[protocol]], True
        elif protocol in PORTS:
            known = np.zeros(1 << 16, np.int64)
            for port, name in PORTS[protocol].items():
                known[port] = CODE[name]
            to, of = known[flows.dst_port[here]], known[flows.src_port[here]]
            codes[here] = np.where(to > 0, to, of)
    return codes, is_sure


@lru_cache(maxsize=1 << 12)
def _label(kind: int) -> Label:
    code, is_guess = divmod(kind, 2)
    if code == 0:
        return UNKNOWN
    return Label(*NAMES[code], "Match by port" if is_guess else "DPI")


def _with_service(kind: int, host: str) -> Label:
    label, service = _label(kind), service_of(host)
    if service is None:
        return label
    is_name = label.application in _NAMED_BY_WIRE
    return Label(
        f"{label.application}.{service[0]}", label.category if is_name else service[1], label.confidence
    )
