"""`python -m tests.engine.cache_worker LEDGER BUDGET`: a process that keeps states as its input says.

Each line is a request as JSON: `["put", slice, epoch, bytes]` or `["has", slice]`. Each answer is a line.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from penstock.engine.cache_ledger import Ledger
from penstock.engine.saving import Pickled
from penstock.engine.slice_state import Held, StateCache
from penstock.engine.state_log import Head


def held(nbytes: int) -> Held:
    """A state that really takes this memory."""
    head = Head(1, 1, 1, 1, 0, 1, nbytes, 0, 0, 1)
    return Held(head, "logic", Pickled(None), np.ones(nbytes, np.uint8))  # type: ignore[arg-type]


def main(ledger: str, budget: str) -> None:
    cache = StateCache(int(budget), Ledger(Path(ledger)))
    for line in sys.stdin:
        request = json.loads(line)
        key = ("run/1", "node", request[1])
        answer: Any = key in cache
        if request[0] == "put":
            cache.put(key, held(request[3]), request[2])
            answer = [cache.nbytes, psutil.Process().memory_info().rss]
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:3])
