"""Patterns that a user of the application gives: sequences of pages, with wildcards."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from penstock.errors import BadArgument

_STEPS = 64
_ANY_NUMBER = ("...", "…")
_FORM = "pages with ' > ' between, e.g. '/ > /shop/* > ... > /paid'; '*' is any text, '...' any pages"


@dataclass(frozen=True, slots=True)
class Wanted:
    """Patterns as numbered steps: which path each takes, and whether other pages may come before the next."""

    names: tuple[str, ...]
    paths: tuple[tuple[str, ...], ...]
    waits: tuple[tuple[bool, ...], ...]

    @classmethod
    def of(cls, text: str) -> Wanted:
        """Patterns with ';' between them."""
        names = tuple(part.strip() for part in text.split(";") if part.strip())
        parsed = [_parse(name) for name in names]
        if not parsed or len(set(names)) < len(names) or sum(len(paths) for paths, _ in parsed) > _STEPS:
            allowed = f"different patterns with ';' between, of {_STEPS} pages in all"
            raise BadArgument(where="click-stream", what="patterns", got=repr(text), allowed=allowed)
        return cls(names, tuple(paths for paths, _ in parsed), tuple(waits for _, waits in parsed))

    def bits(self) -> npt.NDArray[np.uint64]:
        """The first step of each pattern, and the steps after which other pages may come."""
        firsts = sum(1 << first for first, _ in self._places())
        waits = sum(1 << i for i, wait in enumerate(w for pattern in self.waits for w in pattern) if wait)
        return np.array([firsts, waits], np.uint64)

    def lasts(self) -> list[np.uint64]:
        """The last step of each pattern as a bit."""
        return [np.uint64(1 << last) for _, last in self._places()]

    def steps(self, pages: pl.Series) -> npt.NDArray[np.uint64]:
        """The steps that each page can be, as bits."""
        bits = np.zeros(len(pages), np.uint64)
        for i, path in enumerate(path for pattern in self.paths for path in pattern):
            bits |= pages.str.contains(path).to_numpy().astype(np.uint64) << np.uint64(i)
        return bits

    def _places(self) -> Iterator[tuple[int, int]]:
        first = 0
        for paths in self.paths:
            yield first, first + len(paths) - 1
            first += len(paths)


def _parse(name: str) -> tuple[tuple[str, ...], tuple[bool, ...]]:
    paths: list[str] = []
    waits: list[bool] = []
    for word in name.split(">"):
        page = word.strip()
        if page in _ANY_NUMBER and paths and not waits[-1]:
            waits[-1] = True
        elif page.startswith(("/", "*")):
            paths.append(f"^{re.escape(page).replace(re.escape('*'), '.*')}$")
            waits.append(False)
        else:
            raise BadArgument(where="click-stream", what="a pattern", got=repr(name), allowed=_FORM)
    if waits[-1]:
        raise BadArgument(where="click-stream", what="a pattern", got=repr(name), allowed=_FORM)
    return tuple(paths), tuple(waits)
