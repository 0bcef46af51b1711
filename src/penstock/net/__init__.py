"""Network analytics: captures, decoded packets and flows, as ordinary sources and operators."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from penstock.net._layout import REASONS, TUNNELS
    from penstock.net.addresses import ip_halves, ip_text
    from penstock.net.flows import FLOW_KEY, Flows, flow_key
    from penstock.net.pcap import Pcap

__all__ = ["FLOW_KEY", "REASONS", "TUNNELS", "Flows", "Pcap", "flow_key", "ip_halves", "ip_text"]
# Loaded when first used, as in `penstock` itself.
_LAZY = {
    "FLOW_KEY": "penstock.net.flows:FLOW_KEY",
    "REASONS": "penstock.net._layout:REASONS",
    "TUNNELS": "penstock.net._layout:TUNNELS",
    "Flows": "penstock.net.flows:Flows",
    "Pcap": "penstock.net.pcap:Pcap",
    "flow_key": "penstock.net.flows:flow_key",
    "ip_halves": "penstock.net.addresses:ip_halves",
    "ip_text": "penstock.net.addresses:ip_text",
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'penstock.net' has no attribute {name!r}")
    module, _, attribute = _LAZY[name].partition(":")
    return getattr(importlib.import_module(module), attribute)
