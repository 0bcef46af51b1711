"""Containers for what a flow has beside its numbers: bytes by flow, and words that many flows share."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Sequence
from typing import Any

import polars as pl

from penstock.net.dpi.verdict import UNKNOWN, Label


class Blobs:
    """Bytes by number; tracks which numbers changed. A number without bytes is not there."""

    def __init__(self) -> None:
        self._content: dict[int, bytes] = {}
        self._changed: set[int] = set()

    def __len__(self) -> int:
        return len(self._content)

    def get(self, numbers: Iterable[int]) -> list[bytes | None]:
        """The bytes of each number, None where there are none."""
        return list(map(self._content.get, numbers))

    def put(self, numbers: Sequence[int], contents: Iterable[bytes]) -> None:
        """Set the bytes of each number."""
        self._content.update(zip(numbers, contents, strict=True))
        self._changed.update(numbers)

    def drop(self, numbers: Iterable[int]) -> None:
        """Forget numbers, whether they are there or not."""
        known = self._content.keys() & numbers
        self._changed.update(known)
        for number in known:
            del self._content[number]

    @property
    def is_changed(self) -> bool:
        """Whether there is anything to export since the last export."""
        return bool(self._changed)

    @property
    def nbytes(self) -> int:
        """Bytes of memory held, about."""
        return sum(map(len, self._content.values())) + 150 * len(self._content)

    def frame(self) -> pl.DataFrame:
        """Everything, by number."""
        numbers = sorted(self._content)
        columns = {"number": numbers, "content": [self._content[number] for number in numbers]}
        return pl.DataFrame(columns, schema={"number": pl.UInt64, "content": pl.Binary})

    def export_base(self) -> bytes:
        """Everything."""
        self._changed.clear()
        return pickle.dumps((True, self._content), protocol=5)

    def export_delta(self) -> bytes:
        """What changed since the last export."""
        changed = {number: self._content.get(number) for number in sorted(self._changed)}
        self._changed.clear()
        return pickle.dumps((False, changed), protocol=5)

    def apply(self, blob: bytes) -> None:
        """Take over an export: a base replaces everything."""
        is_base, content = pickle.loads(blob)
        if is_base:
            self._content = {}
        for number, part in content.items():
            if part is None:
                self._content.pop(number, None)
            else:
                self._content[number] = part
        self._changed.clear()


class Labels:
    """Words for flows, by number; each is noted once and stays, so there are as many as applications.

    0 stands for flows that are not decided.
    """

    def __init__(self) -> None:
        self._labels: list[Label] = [UNKNOWN]
        self._numbers: dict[Label, int] = {}
        self._saved = 1

    def numbers(self, labels: Sequence[Label]) -> list[int]:
        """The number of each label; new ones get the next."""
        return [self._number(label) for label in labels]

    def _number(self, label: Label) -> int:
        number = self._numbers.setdefault(label, len(self._labels))
        if number == len(self._labels):
            self._labels.append(label)
        return number

    @property
    def is_changed(self) -> bool:
        """Whether there is anything to export since the last export."""
        return len(self._labels) > self._saved

    @property
    def nbytes(self) -> int:
        """Bytes of memory held, about."""
        return 300 * len(self._labels)

    def frame(self) -> pl.DataFrame:
        """All labels; the place in it is the number."""
        schema = dict.fromkeys(Label._fields, pl.String)
        return pl.DataFrame([tuple(label) for label in self._labels], schema=schema, orient="row")

    def export_base(self) -> bytes:
        """Everything."""
        self._saved = 1
        return self.export_delta()

    def export_delta(self) -> bytes:
        """The labels since the last export."""
        first, self._saved = self._saved, len(self._labels)
        return pickle.dumps((first, [tuple(label) for label in self._labels[first:]]), protocol=5)

    def apply(self, blob: bytes) -> None:
        """Take over an export."""
        content: tuple[int, list[Any]] = pickle.loads(blob)
        first, labels = content
        self._labels[first:] = [Label(*label) for label in labels]
        self._numbers = {label: number for number, label in enumerate(self._labels) if number}
        self._saved = len(self._labels)
