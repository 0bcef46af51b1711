"""`python -m penstock.bench.once MODULE FOLDER NUMBER ANSWER`: one run of one benchmark in this process."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path

from penstock.bench.harness import Settings, cores


def main(module: str, folder: str, number: str, answer: str) -> None:
    """Run the module's ``run`` and write its figures as JSON."""
    run = importlib.import_module(module).run
    figures = run(Settings(Path(folder), int(number), cores()))
    Path(answer).write_text(json.dumps({name: float(value) for name, value in figures.items()}))


if __name__ == "__main__":
    main(*sys.argv[1:5])
