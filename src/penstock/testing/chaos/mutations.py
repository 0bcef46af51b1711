"""Show that the harness finds what it is there to find: it must turn red on broken copies of Penstock.

`python -m penstock.testing.chaos.mutations` breaks one thing at a time, in a copy of the package in a folder
of its own, and lets the harness run on the copy.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import penstock
from penstock.errors import InternalError

_SECONDS = 120


@dataclass(frozen=True, slots=True)
class Mutation:
    """A protection that is taken out, and the scenario that must notice."""

    name: str
    file: str
    """Below the package."""
    before: str
    after: str
    scenario: str
    check: str = "keyed"

    def apply(self, package: Path) -> None:
        """Break a copy of the package."""
        path = package / self.file
        text = path.read_text()
        if text.count(self.before) != 1:
            raise InternalError(what=f"mutation '{self.name}' does not fit {self.file} any more")
        path.write_text(text.replace(self.before, self.after))


MUTATIONS = (
    Mutation(
        "the sink repeats an epoch that it has",
        "connect/delta.py",
        "if not adds or (done is not None and done >= context.epoch):",
        "if not adds:",
        scenario="commit-lost",
    ),
    Mutation(
        "a runner whose term is over goes on",
        "control/fencing.py",
        "if newest != token:",
        "if newest < token:",
        scenario="two-runners",
    ),
    Mutation(
        "decoded state is used whatever its stamp",
        "engine/slice_state.py",
        "if held.head.stamp == head.stamp:",
        "if head.stamp is not None:",
        scenario="before-sink",
    ),
)


def is_caught(mutation: Mutation, *, seconds: float = _SECONDS) -> bool:
    """Whether the table turns red on a copy with this mutation."""
    with tempfile.TemporaryDirectory(prefix="penstock-mutation-") as folder:
        package = Path(folder) / "penstock"
        shutil.copytree(Path(penstock.__file__).parent, package)
        mutation.apply(package)
        out = Path(folder) / "chaos.json"
        command = [
            sys.executable,
            "-m",
            "penstock.cli",
            "chaos",
            "--seconds",
            str(seconds),
            "--out",
            str(out),
        ]
        choice = ["--scenario", mutation.scenario, "--check", mutation.check, "--until-red"]
        # The copy comes before the installed package, in this process and in all that Spark starts.
        environment = {**os.environ, "PYTHONPATH": folder}
        done = subprocess.run(
            [*command, *choice], env=environment, cwd=folder, capture_output=True, text=True, check=False
        )
        if not out.exists():
            raise InternalError(what=f"the harness failed on '{mutation.name}': {done.stderr[-2000:]}")
        figures = json.loads(out.read_text())
    told = {name: figures[name] for name in ("schedules", "lost", "doubled", "wrong")}
    sys.stdout.write(f"{'caught' if figures['red'] else 'NOT CAUGHT'}: {mutation.name} ({told})\n")
    sys.stdout.flush()
    return bool(figures["red"])


def main() -> int:
    """Try all of them; exit code 1 unless each is caught."""
    caught = [is_caught(mutation) for mutation in MUTATIONS]
    sys.stdout.write(f"{sum(caught)} of {len(caught)} caught\n")
    return int(not all(caught))


if __name__ == "__main__":
    sys.exit(main())
