"""Names of the places and numbers that the kernels of defragmentation use."""

from __future__ import annotations

# What a fragment is, as rows of an array with one column per fragment.
(
    AT,  # where its IP header lies in the packet
    HEAD,  # bytes of IP header before the fragment's data, without IPv6's fragment header
    DATA,  # where its data lies in the packet
    BEGIN,  # the part of the datagram that it holds
    END,
    IS_LAST,
    VERSION,
    IS_SOUND,
    PATCH,  # where IPv6 announces the fragment header, and what that announces
    FOLLOWING,
    CHARGE,  # bytes of memory it counts for
) = range(11)
SPAN = 11

# What becomes of a fragment, likewise.
LIFE, NEXT, OLDER, YOUNGER, DATAGRAM, SINCE = range(6)
FATE = 6
GONE, HELD, TOMB = range(3)
"""A tomb keeps the place of a datagram that was discarded until its time is over."""

# What is known of a datagram that waits.
HEAD_OF, FIRST, TOTAL, FURTHEST, MEMORY, COUNT = range(6)
WAITING = 6

# A datagram that was given up: its first fragment, how many, the bytes of their data, and why.
G_ROW, G_COUNT, G_BYTES, G_REASON = range(4)
GIVEN_UP = 4

INCOMPLETE = (
    "fragments missing",
    "no memory",
    "too many fragments",
    "overlap",
    "contradicting lengths",
    "too long",
    "malformed fragment",
    "belongs to a discarded datagram",
)
"""Why fragments did not become a packet. Missing: not seen in time, or before the end of the input."""
MISSING, NO_MEMORY, TOO_MANY, OVERLAP, CONTRADICTION, TOO_LONG, MALFORMED, DISCARDED = range(len(INCOMPLETE))

OVERHEAD = 256
"""What a fragment costs besides its bytes."""
LONGEST = 65535
