"""What goes on beside a run in the runner's process, for sources that need it: standard input, captures."""

from __future__ import annotations

from contextlib import AbstractContextManager

from penstock.control.run_directory import RunDirectory
from penstock.plan.program import Program


class Attendance:
    """Attends the sources of the current version, each generation of a source in its own folder."""

    def __init__(self, directory: RunDirectory) -> None:
        self._directory = directory
        self._open: dict[tuple[str, str], AbstractContextManager[object]] = {}

    def follow(self, program: Program) -> None:
        """Attend the sources of a program. Those of an earlier one end first: two would share one input."""
        wanted = {(program.source_key(name), program.graph[name].logic): name for name in program.sources}
        for key in [key for key in self._open if key not in wanted]:
            self._open.pop(key).__exit__(None, None, None)
        for key, name in wanted.items():
            if key not in self._open:
                place = self._directory.planners / key[0]
                attending = program.sources[name].source.attend(place)
                attending.__enter__()
                self._open[key] = attending

    def close(self) -> None:
        """Attend nothing any more."""
        while self._open:
            self._open.popitem()[1].__exit__(None, None, None)
