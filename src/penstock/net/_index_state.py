"""What the index kernels share with their caller: places in the state, answers, reasons."""

from __future__ import annotations

import numpy as np

# The state of a walk through a capture: one array of int64, changed in place.
AT = 0  # where the next record begins, in the buffer
ROWS = 1  # records found by this call
LAST_S = 2  # the second of the last good record; -1 before the first
DAMAGE = 3  # where the damage began that is being passed over, in the file; -1 when there is none
REASON = 4  # of that damage
SECTION = 5  # where the pcapng section began, in the file
LAST_INTERFACE = 6  # where the last interface of the section was described, in the file
INTERFACES = 7  # how many interfaces the section has
IS_BIG = 8  # byte order of the file or section
FAULTS = 9  # damaged stretches found by this call
STATE = 10

# What a kernel answers.
DONE, FULL, MORE, GROW = 0, 1, 2, 3

# Columns of a damaged stretch: from, to (in the file), reason.
FAULT_COLUMNS = 3
MOST_FAULTS = 4096

# Of an interface: link type, snap length, ticks per second (0: powers of two), shift, offset in s; and where
# one multiplication is enough: ns per tick, up to how many ticks.
LINK, SNAP, TICKS, SHIFT, OFFSET_S, NS_PER_TICK, FAST_TICKS = 0, 1, 2, 3, 4, 5, 6
INTERFACE_COLUMNS = 7

NO_TIME = np.iinfo(np.int64).min
MAX_NS = np.iinfo(np.int64).max
MAX_RECORD = 262_144  # what libpcap allows as well, unless the file says more
MAX_BLOCK = 16 << 20
MOST_INTERFACES = 1 << 16
"""Of one section: a packet of any further one belongs to an interface that was not described."""
SEARCH = 1 << 20  # a search for the next good record goes on in steps of this
WINDOW = 4 << 20  # what must be in the buffer to judge a step, unless the file ends before

BAD_LENGTH, CUT_OFF, BAD_BLOCK, BAD_SECTION, NO_INTERFACE, BAD_PACKET = 1, 2, 3, 4, 5, 6
REASONS = {
    BAD_LENGTH: "a record's length is not possible",
    CUT_OFF: "the capture ends in the middle of a record",
    BAD_BLOCK: "a block's length is not possible, or its two lengths differ",
    BAD_SECTION: "a section has an unknown byte order or version",
    NO_INTERFACE: "a packet belongs to an interface that was not described",
    BAD_PACKET: "a packet is longer than its block",
}
"""Why a stretch of a capture could not be read."""

BLOCK_KINDS = ("SHB", "IDB", "PB", "SPB", "NRB", "ISB", "EPB", "SJE", "DSB", "CB", "DCB", "other")
"""Blocks of pcapng in the order in which they are counted; `SJE` is the
systemd journal, `CB` and `DCB` are custom."""
