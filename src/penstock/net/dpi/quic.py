"""The host that a client of QUIC names: everybody can derive the keys of its first packets."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from penstock.frames._jit import readonly
from penstock.net.dpi import _quic as k
from penstock.net.dpi.verdict import FirstPackets
from penstock.net.quic_keys import initial_keys

Numbers = npt.NDArray[np.int64]


def quic_hosts(flows: FirstPackets, which: Numbers) -> tuple[Numbers, npt.NDArray[np.uint8], Numbers]:
    """For some flows: a state of `_hellos` (may the host still come?), the host's bytes, their number."""
    n = len(which)
    first = np.zeros((k.FIRST, n), np.int64)
    data, ends = readonly(flows.data), readonly(flows.ends)
    k.first_initials(data, ends, which, first)
    secrets = np.zeros((n, k.SECRET), np.uint8)
    for i in np.flatnonzero(first[k.ID_PLACE] >= 0).tolist():
        place, size = first[k.ID_PLACE, i], first[k.ID_SIZE, i]
        keys = initial_keys(flows.data[place : place + size].tobytes(), "client", int(first[k.VERSION, i]))
        if keys is None:
            first[k.ID_PLACE, i] = -1
        else:
            secrets[i] = np.frombuffer(keys.key + keys.iv + keys.header, np.uint8)
    states, sizes = (np.zeros(n, np.int64) for _ in range(2))
    hosts = np.zeros((n, k.HOST), np.uint8)
    k.hosts_of(data, ends, which, first, secrets, states, hosts, sizes)
    return states, hosts, sizes
