"""Show that the tests and the chaos harness find what they are there to find: broken copies of Penstock.

`python -m tests.mutations [NAME …]` breaks one thing at a time, in a copy of the package in its own folder,
and runs on the copy what has to turn red. As a control, each command also runs on a copy that is not broken.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import penstock

_ROOT = Path(__file__).resolve().parents[1]
_LIMIT_S = 600


@dataclass(frozen=True, slots=True)
class Tests:
    """Tests by their names: red if one of them fails."""

    names: tuple[str, ...]

    def is_red(self, environment: dict[str, str], folder: Path) -> bool:
        """Run them on a copy."""
        command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-m", "not chaos"]
        done = _run([*command, f"--basetemp={folder / 'tmp'}", *self.names], environment, _ROOT)
        if done.returncode not in (0, 1):
            raise RuntimeError(
                f"pytest ended with {done.returncode}:\n{done.stdout[-3000:]}{done.stderr[-2000:]}"
            )
        return done.returncode == 1


@dataclass(frozen=True, slots=True)
class Chaos:
    """Schedules of the chaos harness: red if one of them is."""

    scenario: str
    check: str
    seconds: float = 90.0

    def is_red(self, environment: dict[str, str], folder: Path) -> bool:
        """Let them loose on a copy."""
        out = folder / "chaos.json"
        command = [
            sys.executable,
            "-m",
            "penstock.cli",
            "chaos",
            "--until-red",
            "--seconds",
            str(self.seconds),
        ]
        choice = ["--scenario", self.scenario, "--check", self.check, "--out", str(out)]
        done = _run([*command, *choice], environment, folder)
        if not out.exists():
            raise RuntimeError(f"the harness failed:\n{done.stderr[-3000:]}")
        return bool(json.loads(out.read_text())["red"])


@dataclass(frozen=True, slots=True)
class Mutation:
    """A protection that is taken out, and what must notice."""

    name: str
    file: str
    """Below the package."""
    before: str
    after: str
    seen_by: Tests | Chaos

    def apply(self, package: Path) -> None:
        """Break a copy of the package."""
        path = package / self.file
        text = path.read_text()
        if text.count(self.before) != 1:
            raise ValueError(f"mutation '{self.name}' does not fit {self.file} any more")
        path.write_text(text.replace(self.before, self.after))


MUTATIONS = (
    Mutation(
        "the sink repeats an epoch that it has",
        "connect/delta.py",
        "if not adds or (done is not None and done >= context.epoch):",
        "if not adds:",
        Chaos("commit-lost", "keyed"),
    ),
    Mutation(
        "Delta's epoch is compared by == instead of >=",
        "connect/delta.py",
        "done >= context.epoch",
        "done == context.epoch",
        Tests(("tests/connect/test_sinks.py",)),
    ),
    Mutation(
        "a runner whose token is old goes on",
        "control/fencing.py",
        "if newest != token:",
        "if newest < token:",
        Chaos("two-runners", "keyed"),
    ),
    Mutation(
        "the fencing token is not checked at planning",
        "spark/intake.py",
        "            self._directory.require_term(self._term)\n",
        "",
        Tests(("tests/spark/test_intake.py",)),
    ),
    Mutation(
        "decoded state is used whatever its stamp",
        "engine/slice_state.py",
        "if held.head.stamp == head.stamp:",
        "if head.stamp is not None:",
        Chaos("before-sink", "keyed"),
    ),
    Mutation(
        "a savepoint is taken without its checks",
        "control/savepoints.py",
        "                    require_whole(staging / name, run.checkpoint / inside, run.path)\n",
        "                    pass\n",
        Tests(("tests/control/test_savepoints.py",)),
    ),
    Mutation(
        "a rescale counts as done before its files are swapped",
        "control/rescale_swap.py",
        "        shape = read_sealed(_ready(run), next_step=way_back(run.path))\n",
        "        shape = read_sealed(_ready(run), next_step=way_back(run.path))\n"
        "        _ready(run).unlink()\n",
        Tests(("tests/control/test_rescale_swap.py",)),
    ),
    Mutation(
        "a sink's rows are written in the order of their arrival",
        "spark/frame_order.py",
        "for i in order.to_numpy().tolist():",
        "for i in range(len(owner)):",
        Tests(("tests/spark/test_frame_order.py",)),
    ),
    Mutation(
        "the checkpoint's logs keep one epoch",
        "spark/session.py",
        '"spark.sql.streaming.minBatchesToRetain": "20"',
        '"spark.sql.streaming.minBatchesToRetain": "1"',
        Chaos("slow-commit", "long", seconds=150.0),
    ),
    Mutation(
        "spilled payloads are cleared one epoch early",
        "spark/outlet.py",
        "clear(directory.handover, up_to=epoch - 1)",
        "clear(directory.handover, up_to=epoch + 1)",
        Tests(("tests/spark/test_handover.py",)),
    ),
    Mutation(
        "deltas are not dropped at compaction",
        "engine/state_log.py",
        "    for number in range(head.base, head.following):\n        shelf.drop(number)\n    following",
        "    following",
        Tests(("tests/engine/test_state_log.py",)),
    ),
    Mutation(
        "the watermark of two sources is the later one",
        "engine/punctuation.py",
        "return min(promised[name] for name in waiting)",
        "return max(promised[name] for name in waiting)",
        Tests(("tests/engine/test_punctuation.py",)),
    ),
    Mutation(
        "a change ignores that a node stands in another hop",
        "control/moves.py",
        "if stays and old.depth[name] == new.depth[name]:",
        "if stays:",
        Tests(("tests/testing/test_state_follows_its_node.py",)),
    ),
    Mutation(
        "exported state stays at its old place",
        "spark/state_moves.py",
        "        clear_log(copies)\n",
        "",
        Tests(("tests/spark/test_state_move_files.py",)),
    ),
    Mutation(
        "one row of a split is read twice, in both engines",
        "connect/generator.py",
        "            yield Batch(begin, self._make(begin, min(step, stop - begin)))\n",
        "            yield Batch(begin, self._make(begin, min(step, stop - begin)))\n"
        "            yield Batch(begin, self._make(begin, 1))\n",
        Tests(("tests/testing/test_closed_forms.py",)),
    ),
)


def main(names: Sequence[str]) -> int:
    """Try all of them, or those named; exit code 1 unless each is caught and each control is green."""
    chosen = [mutation for mutation in MUTATIONS if not names or mutation.name in names]
    if unknown := set(names) - {mutation.name for mutation in chosen}:
        sys.stderr.write(f"no mutation {', '.join(sorted(unknown))}\n")
        return 2
    green = [_tell("control green", "CONTROL RED", str(seen), not _red(seen)) for seen in _commands(chosen)]
    caught = [_tell("caught", "NOT CAUGHT", m.name, _red(m.seen_by, m)) for m in chosen]
    sys.stdout.write(f"{sum(caught)} of {len(caught)} caught, {sum(green)} of {len(green)} controls green\n")
    return int(not all([*green, *caught]))


def _commands(mutations: Sequence[Mutation]) -> list[Tests | Chaos]:
    return list(dict.fromkeys(mutation.seen_by for mutation in mutations))


def _red(seen_by: Tests | Chaos, mutation: Mutation | None = None) -> bool:
    """Whether a command turns red on a copy of the package, which may be broken."""
    with _copy() as (folder, environment):
        if mutation is not None:
            mutation.apply(folder / "penstock")
        return seen_by.is_red(environment, folder)


@contextmanager
def _copy() -> Iterator[tuple[Path, dict[str, str]]]:
    """Copy the package, and make it come before the installed one in all that is started."""
    with tempfile.TemporaryDirectory(prefix="penstock-mutation-") as name:
        folder = Path(name)
        shutil.copytree(Path(penstock.__file__).parent, folder / "penstock")
        yield folder, {**os.environ, "PYTHONPATH": name}


def _run(command: list[str], environment: dict[str, str], where: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, env=environment, cwd=where, capture_output=True, text=True, check=False, timeout=_LIMIT_S
    )


def _tell(good: str, bad: str, name: str, is_good: bool) -> bool:
    sys.stdout.write(f"{time.strftime('%H:%M:%S')} {good if is_good else bad}: {name}\n")
    sys.stdout.flush()
    return is_good


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
