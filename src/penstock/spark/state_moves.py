"""Files that carry a slice's state from the hop that it leaves to the hop that hosts its node from then on.

The last epoch of the old version exports; the first epoch of the new version imports. Both may be repeated,
so a file stays until the offset log no longer holds the epoch that imports it.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

from penstock.connect.sink import atomic_file, write_atomically
from penstock.control.moves import Step, moves_between
from penstock.control.rebuilding import is_loadable, stored_program
from penstock.control.run_directory import RunDirectory
from penstock.control.way_back import way_back
from penstock.engine.log_transfer import clear_log, read_log, write_log
from penstock.engine.state_log import BrokenLog, Shelf
from penstock.errors import RunDirectoryBroken, StateDamaged

_IMPORTED = "imported"
"""A file with the number of the epoch that imported the others."""

STEPS = get_args(Step)
"""The kinds of the frames that tell a slice to carry out a step."""
Steps = dict[str, tuple[str, int, int]]
"""For each node: the step, the number of its slices, and the version that the state moves to."""


def steps_of(run: RunDirectory, start: dict[str, Any], end: dict[str, Any]) -> Steps:
    """Return what the slices of moving nodes do in the epoch between two offsets."""
    steps: Steps = {}
    program = run.load(end["version"])
    if (target := end.get("exports")) is not None:
        moves = moves_between(program, run.load(target))
        steps |= {name: (*step, target) for name, step in moves.before(program).items()}
    if start.get("exports") == end["version"]:
        moves = moves_between(stored_program(run, start["version"], program), program)
        steps |= {name: (*step, end["version"]) for name, step in moves.after(program).items()}
    return steps


def next_version(run: RunDirectory, start: dict[str, Any]) -> tuple[int, int | None]:
    """Return the version of the epoch that begins at an offset, and the version that it exports state for."""
    awaited: int | None = start.get("exports")
    if awaited is not None:  # what was exported waits for this version, whatever became current since
        return awaited, None
    before, current = start["version"], run.current()
    if before in (0, current):
        return current, None
    present = run.load(current)
    moves = moves_between(stored_program(run, before, present), present)
    if moves.moved or (moves and is_loadable(run, before)):
        return before, current
    return current, None  # what a version of another Python has left behind stays there


@dataclass(frozen=True, slots=True)
class StateMove:
    """One step of one slice: its state leaves its hop, or comes to it."""

    run: RunDirectory
    step: str
    version: int
    """The version that the state moves to."""
    node: str
    slice: int

    def carry_out(self, shelf: Shelf, copies: Shelf) -> None:
        """Export, import or discard the state on the shelf. ``copies`` is the same shelf with shared copies.

        An export reads the store itself: copies may be of another history.
        """
        if self.step == "import":
            self._import(copies)
            return
        if self.step == "export":
            self._export(shelf)
        clear_log(copies)

    def _export(self, shelf: Shelf) -> None:
        """Write the file. A slice without state gets a file too, so that a missing file is a loss."""
        try:
            with atomic_file(self._file) as file:
                write_log(shelf, file)
        except BrokenLog as error:
            raise StateDamaged(node=self.node, slice=self.slice, what=error) from error

    def _import(self, shelf: Shelf) -> None:
        step = way_back(self.run.path)
        try:
            with self._file.open("rb") as file:
                read_log(file, shelf)
        except FileNotFoundError:
            raise RunDirectoryBroken(path=self._file, what="is missing", next_step=step) from None
        except BrokenLog as error:
            raise RunDirectoryBroken(path=self._file, what=f"is damaged: {error}", next_step=step) from error

    @property
    def _file(self) -> Path:
        return _folder(self.run, self.version) / self.node / f"{self.slice:05d}.log"


def note_import(run: RunDirectory, epoch: int, steps: Steps) -> None:
    """Note which epoch imported the files of a version, and free those that no epoch can need again."""
    for version in {version for step, _, version in steps.values() if step == "import"}:
        write_atomically(_folder(run, version) / _IMPORTED, str(epoch).encode())
    if not run.moving.exists():
        return
    oldest = min((int(path.name) for path in (run.checkpoint / "offsets").glob("[0-9]*")), default=0)
    for folder in run.moving.iterdir():
        imported = _read_number(folder / _IMPORTED)
        if imported is not None and imported < oldest:
            shutil.rmtree(folder, ignore_errors=True)


def _folder(run: RunDirectory, version: int) -> Path:
    return run.moving / f"{version:06d}"


def _read_number(path: Path) -> int | None:
    try:
        return int(path.read_text())
    except (FileNotFoundError, ValueError):
        return None
