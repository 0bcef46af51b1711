"""`python -m penstock.apps.warm`: compile the kernels of the network part once, at installation.

Otherwise the first packets of the first run wait for it: half a minute in each of several processes.
"""

from __future__ import annotations

from penstock import testing
from penstock.apps import demo


def main() -> None:
    """Run the demo in miniature on the reference engine; numba keeps what it compiles."""
    testing.run(demo.topology(seconds=1, rate=1_000))


if __name__ == "__main__":
    main()
