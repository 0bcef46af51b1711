"""Names of the places and numbers that the kernels of TCP reassembly use."""

from __future__ import annotations

# What is known of each direction of a flow; then what is known of the flow.
FLAGS, NEXT_SEQ, NEXT, FIRST_SEQ, FIN_AT, GAP, WHY = range(7)
SIDE_FIELDS = 7
LAST_TIME, CONNECTION, IS_OPEN = range(2 * SIDE_FIELDS, 2 * SIDE_FIELDS + 3)
KNOWN, SYN_SEEN, FINISHED, RESET = 1, 2, 4, 8
BEFORE_TIME = -(2**62)

_SIDE_NAMES = ("flags", "next_seq", "next_offset", "first_seq", "fin_offset", "gap_bytes", "gap_reason")
_SIDE_DEFAULTS = (0, 0, 0, 0, -1, 0, 0)
FLOW_VALUES: dict[str, tuple[type, int]] = {
    **{
        f"{side}_{name}": (int, default)
        for side in ("b2a", "a2b")
        for name, default in zip(_SIDE_NAMES, _SIDE_DEFAULTS, strict=True)
    },
    "last_time_us": (int, BEFORE_TIME),
    "connection": (int, 0),
    "is_open": (int, 0),
}
"""The columns of a flow, in the order in which the kernels take them."""

# A segment: the row of its flow, its direction (1: from a to b), and what its headers say.
ROW, SIDE, TIME, SEQ, TCP_FLAGS, LENGTH, PLACE, SIZE = range(8)
SEGMENT = 8
"""``LENGTH`` is that of the payload on the wire; ``SIZE`` bytes of it were captured and lie at ``PLACE``."""
FIN, SYN, RST = 1, 2, 4

# A piece of a stream that waits for bytes before it.
(
    P_OWNER, P_START, P_STOP, P_PLACE, P_SIZE, P_TIME, P_SINCE, P_NEXT, P_OLDER, P_YOUNGER, P_IS_HELD,
) = range(11)  # fmt: skip
PIECE = 11
"""The owner is a direction of a flow: twice its row, plus 1 if from a to b."""

# What is given out: the direction, where in the stream, the bytes, their time, and what is missing before.
O_OWNER, O_OFFSET, O_PLACE, O_SIZE, O_TIME, O_GAP, O_WHY, O_CONNECTION = range(8)
OUT = 8

OLDEST, YOUNGEST, MEMORY, PIECES, OUTS = range(5)
COUNTERS = 5

# Limits: how long bytes wait, how long a flow lives without packets, and bytes of memory.
WAIT, IDLE, DIRECTION_BYTES, SLICE_BYTES = range(4)
LIMITS = 4

GAP_REASONS = (None, "lost", "no memory", "closed", "not captured")
"""Why bytes of a stream are missing: not seen in time or before the end of the input; given up to save
memory; not seen when the connection ended; seen, but cut off by the capture."""
LOST, NO_MEMORY, CLOSED, NOT_CAPTURED = 1, 2, 3, 4

OVERHEAD = 128
"""What a piece costs besides its bytes."""
WINDOW = 1 << 30
"""The most that a receiver can announce: what is further ahead belongs to no stream."""
BEHIND_SYN = 1 << 16
"""Data that overtook its SYN begins less than this behind it."""


def most_pieces(held: int, segments: int) -> int:
    """Return how many pieces one call of the kernels can hold, those that waited before included.

    Call pieces that touch each other a run. A segment that overlaps k runs fills the k - 1 holes between them
    and adds at most one piece at each end: k + 1 pieces. The k runs become one, so it makes at most 2 pieces
    more than it removes runs. Only segments make runs, and each makes at most one. With ``held`` runs at the
    start, all segments together add at most 2 * segments + held pieces. Numbers of pieces are not used again.
    """
    return held + 2 * segments + held


def most_out(held: int, segments: int, flows: int) -> int:
    """Return how many rows one call of the kernels can give out, ending flows included.

    Each piece is given out once. A segment adds at most 4 rows: itself if it is next in its stream, what is
    missing at the end of both directions when it ends an old connection, and of its own when it has a FIN.
    Ending a flow afterwards adds what is missing at the end of both directions.
    """
    return most_pieces(held, segments) + 4 * segments + 2 * flows
