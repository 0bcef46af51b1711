"""Names of the numbers that all kernels of the generator share."""

from __future__ import annotations

# Places in the array of settings.
(
    SEED, SUBSCRIBERS, CELLS, IS_GTP, IPV6_RATIO, VERSION_1_RATIO, STAY_WINDOWS, WINDOW_US, USERS_BEGIN_US,
    LOSS, DISORDER, RETRANSMISSION, FRAGMENTS, START_US, SNAP_BYTES, FORMAT,
) = range(16)  # fmt: skip
SETTINGS = 16
WHOLE = 1 << 16
"""Ratios are written in parts of this."""

# How frames are wrapped.
BARE, PCAP, PCAPNG = range(3)

# A scheduled packet: its time in the window and its place before sorting, in one number.
PLACE_BITS = 28
PLACE_MASK = (1 << PLACE_BITS) - 1
MOST_WINDOW_US = 1 << 63 - PLACE_BITS

# What it points to: exchange, step and kind in one number.
STEP_BITS, KIND_BITS = 24, 2

# What is special about a scheduled packet.
USUAL, RETRANSMITTED, FIRST_FRAGMENT, LAST_FRAGMENT = range(4)

# Columns of what was seen of a flow.
FIRST_US, LAST_US, SERVER_BEGAN, UP_PACKETS, UP_BYTES, UP_FLAGS, DOWN_PACKETS, DOWN_BYTES, DOWN_FLAGS = range(
    9
)
SEEN = 9
