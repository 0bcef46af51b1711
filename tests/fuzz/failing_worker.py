"""A worker that dies of some inputs and hangs at another: what `mass` must find out."""

from __future__ import annotations

import json
import os
import signal
import sys

CRASHES, RAISES, HANGS = 37, 61, 90


def main(_corpus: str, _seed: str, _mode: str, *ranges: str) -> None:
    """Tell as a worker does."""
    for batch in ranges:
        first, _, stop = batch.partition(":")
        print(json.dumps({"begun": batch}), flush=True)
        numbers = range(int(first), int(stop))
        if CRASHES in numbers:
            os.kill(os.getpid(), signal.SIGSEGV)
        if RAISES in numbers:
            raise IndexError("behind the end")
        while HANGS in numbers:
            pass
        told = {"done": batch, "seconds": 0, "processor_s": 0, "rss_bytes": 1, "packets": 1, "flows": 1}
        print(json.dumps(told), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
