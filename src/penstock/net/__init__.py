"""Network analytics: captures, decoded packets and flows, as ordinary sources and operators."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from penstock.net._layout import REASONS, TUNNELS
    from penstock.net.addresses import ip_halves, ip_text
    from penstock.net.applications import Applications, application_key
    from penstock.net.defragment import FRAGMENT_KEY, Defragment
    from penstock.net.flows import FLOW_KEY, Flows, flow_key
    from penstock.net.gb import GB_FRAMES, gb_frames
    from penstock.net.gb_tunnels import GB_KEY, GB_NEEDS, GbTunnels, gb_sightings
    from penstock.net.gtp_control import CONTROL, CONTROL_NEEDS, CONTROL_REASONS, control_messages
    from penstock.net.interface import Interface
    from penstock.net.pcap import Pcap
    from penstock.net.sndcp import (
        SEGMENT_KEY,
        SEGMENT_NEEDS,
        JoinSegments,
        gb_segments,
        is_segment,
    )
    from penstock.net.subscribers import Subscribers
    from penstock.net.tcp_streams import TcpStreams, tcp_segments
    from penstock.net.tunnels import SUBSCRIBER, TUNNEL_KEY, GtpTunnels

__all__ = [
    "CONTROL",
    "CONTROL_NEEDS",
    "CONTROL_REASONS",
    "FLOW_KEY",
    "FRAGMENT_KEY",
    "GB_FRAMES",
    "GB_KEY",
    "GB_NEEDS",
    "REASONS",
    "SEGMENT_KEY",
    "SEGMENT_NEEDS",
    "SUBSCRIBER",
    "TUNNELS",
    "TUNNEL_KEY",
    "Applications",
    "Defragment",
    "Flows",
    "GbTunnels",
    "GtpTunnels",
    "Interface",
    "JoinSegments",
    "Pcap",
    "Subscribers",
    "TcpStreams",
    "application_key",
    "control_messages",
    "flow_key",
    "gb_frames",
    "gb_segments",
    "gb_sightings",
    "ip_halves",
    "ip_text",
    "is_segment",
    "tcp_segments",
]
# Loaded when first used, as in `penstock` itself.
_LAZY = {
    "Applications": "penstock.net.applications:Applications",
    "CONTROL": "penstock.net.gtp_control:CONTROL",
    "CONTROL_NEEDS": "penstock.net.gtp_control:CONTROL_NEEDS",
    "CONTROL_REASONS": "penstock.net.gtp_control:CONTROL_REASONS",
    "Defragment": "penstock.net.defragment:Defragment",
    "FLOW_KEY": "penstock.net.flows:FLOW_KEY",
    "FRAGMENT_KEY": "penstock.net.defragment:FRAGMENT_KEY",
    "Flows": "penstock.net.flows:Flows",
    "GB_FRAMES": "penstock.net.gb:GB_FRAMES",
    "GB_KEY": "penstock.net.gb_tunnels:GB_KEY",
    "GB_NEEDS": "penstock.net.gb_tunnels:GB_NEEDS",
    "GbTunnels": "penstock.net.gb_tunnels:GbTunnels",
    "GtpTunnels": "penstock.net.tunnels:GtpTunnels",
    "Interface": "penstock.net.interface:Interface",
    "JoinSegments": "penstock.net.sndcp:JoinSegments",
    "Pcap": "penstock.net.pcap:Pcap",
    "REASONS": "penstock.net._layout:REASONS",
    "SEGMENT_KEY": "penstock.net.sndcp:SEGMENT_KEY",
    "SEGMENT_NEEDS": "penstock.net.sndcp:SEGMENT_NEEDS",
    "SUBSCRIBER": "penstock.net.tunnels:SUBSCRIBER",
    "Subscribers": "penstock.net.subscribers:Subscribers",
    "TUNNELS": "penstock.net._layout:TUNNELS",
    "TUNNEL_KEY": "penstock.net.tunnels:TUNNEL_KEY",
    "TcpStreams": "penstock.net.tcp_streams:TcpStreams",
    "application_key": "penstock.net.applications:application_key",
    "flow_key": "penstock.net.flows:flow_key",
    "gb_frames": "penstock.net.gb:gb_frames",
    "gb_segments": "penstock.net.sndcp:gb_segments",
    "gb_sightings": "penstock.net.gb_tunnels:gb_sightings",
    "control_messages": "penstock.net.gtp_control:control_messages",
    "ip_halves": "penstock.net.addresses:ip_halves",
    "ip_text": "penstock.net.addresses:ip_text",
    "is_segment": "penstock.net.sndcp:is_segment",
    "tcp_segments": "penstock.net.tcp_streams:tcp_segments",
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'penstock.net' has no attribute {name!r}")
    module, _, attribute = _LAZY[name].partition(":")
    return getattr(importlib.import_module(module), attribute)
