"""`python -m penstock.apps.warm`: compile the kernels of the ready applications once, at installation.

Otherwise the first events of the first run wait for it: half a minute in each of several processes.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from penstock import testing
from penstock.apps import app_tracker, click_stream, demo
from penstock.net import synth


def main() -> None:
    """Run applications in miniature on the reference engine; numba keeps what it compiles."""
    testing.run(demo.topology(seconds=1, rate=1_000))
    with tempfile.TemporaryDirectory(prefix="penstock-warm-") as name:
        folder = Path(name)
        synth.write(
            folder / "a.pcap", synth.Traffic(subscribers=20, rate=1_000, duration="1s", fragments=0.1)
        )
        testing.run(app_tracker.topology(folder / "a.pcap", defragment=True, engine="builtin", parallelism=2))
        click_stream.Site(rate=200.0).write_log(folder / "a.log", 0, 1_000)
        testing.run(click_stream.topology(folder / "a.log"))


if __name__ == "__main__":
    main()
