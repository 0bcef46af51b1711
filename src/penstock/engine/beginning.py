"""Let sources begin while a run goes on: without an old offset, an old promise, or an end of time.

A node whose sources have all ended has been told the end of time, and its windows are closed. When a source
begins to feed it after that, everything would be late for ever. So its time goes back, once, to the greatest
event time that the ended sources had given. Windows up to there have been emitted: earlier events of the new
source are late. Nodes learn their new time before any event of the new source: it gives nothing in the first
epoch.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import replace
from typing import Any

from penstock.connect.source import END_OF_TIME
from penstock.engine.punctuation import Punctuations
from penstock.plan.program import Program

BEFORE_ALL = -62_135_596_800_000_000
"""The first microsecond that Python's datetime can hold."""


def start_for(program: Program, start: Mapping[str, Any]) -> dict[str, Any]:
    """Return an offset without what belongs to earlier generations of the program's sources."""
    generations = start.get("generations", {})
    old = {name for name in program.sources if generations.get(name, 0) != program.generation(name)}
    sources = {name: offset for name, offset in start["sources"].items() if name not in old}
    punctuation = dict(start["punctuation"] or {})
    promises = punctuation.get("sources", {})
    punctuation["sources"] = {name: time for name, time in promises.items() if name not in old}
    quiet_since = punctuation.get("quiet_since", {})
    punctuation["quiet_since"] = {name: at for name, at in quiet_since.items() if name not in old}
    return {**start, "sources": sources, "punctuation": punctuation}


def generations_of(program: Program, start: Mapping[str, Any]) -> dict[str, int]:
    """Return the generation of each source that has an offset; those that never started anew are left out."""
    found = {**start.get("generations", {}), **{name: program.generation(name) for name in program.sources}}
    return {name: generation for name, generation in found.items() if generation}


def reopened(
    program: Program, before: Punctuations, begun: Set[str], observed: Mapping[str, int]
) -> Punctuations:
    """Return the punctuations with the end of time taken back at nodes that a new source leads to.

    ``begun`` are the sources that have an offset; ``observed`` holds the greatest event time by source and
    generation.
    """
    nodes = dict(before.nodes)
    for node, time in before.nodes.items():
        if time == END_OF_TIME and node in program.graph.nodes and not program.sources_of(node) <= begun:
            seen = [at for key, at in observed.items() if key.partition("@")[0] in program.sources_of(node)]
            nodes[node] = max(seen, default=BEFORE_ALL)
    return replace(before, nodes=nodes)


def must_wait(program: Program, before: Punctuations, after: Punctuations, begun: Set[str]) -> set[str]:
    """Return the new sources that give nothing yet: a node that they lead to goes back in time first."""
    back = {node for node, time in before.nodes.items() if after.nodes.get(node) != time}
    return {
        name
        for name in program.sources.keys() - begun
        if any(name in program.sources_of(node) for node in back)
    }
