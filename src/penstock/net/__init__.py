"""Network analytics: captures, decoded packets and flows, as ordinary sources and operators."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from penstock.net._layout import REASONS, TUNNELS
    from penstock.net.addresses import ip_halves, ip_text
    from penstock.net.defragment import FRAGMENT_KEY, Defragment
    from penstock.net.flows import FLOW_KEY, Flows, flow_key
    from penstock.net.pcap import Pcap
    from penstock.net.tcp_streams import TcpStreams, tcp_segments

__all__ = [
    "FLOW_KEY",
    "FRAGMENT_KEY",
    "REASONS",
    "TUNNELS",
    "Defragment",
    "Flows",
    "Pcap",
    "TcpStreams",
    "flow_key",
    "ip_halves",
    "ip_text",
    "tcp_segments",
]
# Loaded when first used, as in `penstock` itself.
_LAZY = {
    "Defragment": "penstock.net.defragment:Defragment",
    "FLOW_KEY": "penstock.net.flows:FLOW_KEY",
    "FRAGMENT_KEY": "penstock.net.defragment:FRAGMENT_KEY",
    "REASONS": "penstock.net._layout:REASONS",
    "TUNNELS": "penstock.net._layout:TUNNELS",
    "Flows": "penstock.net.flows:Flows",
    "Pcap": "penstock.net.pcap:Pcap",
    "TcpStreams": "penstock.net.tcp_streams:TcpStreams",
    "flow_key": "penstock.net.flows:flow_key",
    "ip_halves": "penstock.net.addresses:ip_halves",
    "ip_text": "penstock.net.addresses:ip_text",
    "tcp_segments": "penstock.net.tcp_streams:tcp_segments",
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'penstock.net' has no attribute {name!r}")
    module, _, attribute = _LAZY[name].partition(":")
    return getattr(importlib.import_module(module), attribute)
