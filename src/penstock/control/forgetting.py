"""Drop the state of nodes once, for a run that cannot go on with it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from penstock.control.checkpoint import last_committed, last_planned, plan_again, read_offset
from penstock.control.run_directory import RunDirectory
from penstock.errors import RunDirectoryMismatch, UnknownNode
from penstock.plan.program import Program
from penstock.topology.specs import ProcessSpec


def forget_state(directory: RunDirectory, nodes: Sequence[str]) -> None:
    """Let these nodes begin with an empty state from the next epoch on. Nothing may run meanwhile.

    An epoch that was begun and not finished is repeated with the same input, but without their state too: it
    may be what keeps it from finishing.
    """
    _require_begun(directory)
    with directory.lock(), directory.changing():
        current = directory.current()
        _require_state(directory.load(current), nodes)
        born = directory.next_version()
        version = _forgotten(directory, current, nodes, born)
        begun, done = last_planned(directory.checkpoint), last_committed(directory.checkpoint)
        if begun is not None and (done is None or begun > done):
            planned = int(read_offset(directory.checkpoint, begun)["version"])
            again = version if planned == current else _forgotten(directory, planned, nodes, born)
            plan_again(directory.checkpoint, begun, again)
        directory.make_current(version, directory.origin())


def _forgotten(directory: RunDirectory, version: int, nodes: Sequence[str], born: int) -> int:
    """The number of a new version that is like another one, but for the birth of these states."""
    program = directory.load(version)
    number = directory.next_version()
    reborn = replace(program, born={**program.born, **dict.fromkeys(nodes, born)})
    directory.store(number, reborn, like=version)
    return number


def _require_begun(directory: RunDirectory) -> None:
    try:
        directory.read_card()
    except FileNotFoundError:
        step = "leave --ignore-state out, or name the run with --dir"
        raise RunDirectoryMismatch(directory=directory.path, what="holds no run", next_step=step) from None


def _require_state(program: Program, nodes: Sequence[str]) -> None:
    stateful = [name for name, node in program.hosted.items() if isinstance(node.spec, ProcessSpec)]
    for node in nodes:
        if node not in stateful:
            known = ", ".join(stateful) or "none with a state"
            raise UnknownNode(node=node, topology=program.graph.name, known=known)
