"""A ready container for per-key values: columns, found by key, that know what changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from penstock.errors import BadArgument
from penstock.topology.schema import SCALARS, Schema

if TYPE_CHECKING:
    import polars as pl

    from penstock.operators._keyed_blob import Content
    from penstock.operators._keyed_index import Index

    Keys: TypeAlias = pl.DataFrame | Sequence[pl.Series]

Numbers: TypeAlias = npt.NDArray[np.int64]
_KEYS = SCALARS
_FIXED = SCALARS - {"string", "binary"}
_AS_INTEGER = _FIXED - {"float32", "float64"}
_STORED = {"bool": "bool", "date": "int32", "time": "int64", "timestamp": "int64", "duration": "int64"}
_SPARSE = 1024  # fewer free rows than this are not worth renumbering


class KeyedTable:
    """Per-key values in columns; tracks what changed.

    `rows` gives the row number of each event's key; values are changed by row number, with `add` and the like
    or through `table["name"]`. A row number is good until the next export.
    A table that was rebuilt by `apply` has the same row numbers as the exported one, so both go on alike.

    >>> import polars as pl
    >>> table = KeyedTable({"user": str}, {"clicks": int})
    >>> events = pl.DataFrame({"user": ["ann", "bob", "ann"]})
    >>> table.count("clicks", table.rows(events))
    >>> table.frame().rows()
    [('ann', 2), ('bob', 1)]
    """

    def __init__(self, key: Mapping[str, Any], values: Mapping[str, Any]) -> None:
        kinds = {name: kind if isinstance(kind, tuple) else (kind, 0) for name, kind in values.items()}
        self._key = Schema.of(key)
        self._value = Schema.of({name: kind for name, (kind, _) in kinds.items()})
        self._schema = Schema(self._key.columns + self._value.columns)
        _check(self._key, self._value)
        self._defaults = {name: default for name, (_, default) in kinds.items()}
        self._clear()

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, name: str) -> npt.NDArray[Any]:
        """A writable view of a value by row number, good until keys are added.

        Rows that `rows` gave are marked as changed already; `touch` others after writing to them.
        """
        return self._values[name][: self._rows.top]

    @property
    def nbytes(self) -> int:
        """Bytes of memory held."""
        return self._rows.nbytes + self._index.nbytes + sum(column.nbytes for column in self._values.values())

    def rows(self, keys: Keys) -> Numbers:
        """The row of each key, to be changed: adds unknown keys with defaults, marks all as changed."""
        prepared = self._index.prepare(self._columns(keys))
        out = np.empty(len(prepared[0]), np.int64)
        done = self._index.assign(prepared, self._rows, 0, out)
        while done < len(out):
            self._reserve(2 * self._rows.top if self._rows.is_full else 0, len(self) + 1)
            done = self._index.assign(prepared, self._rows, done, out)
        return out

    def find(self, keys: Keys) -> Numbers:
        """The row of each key, to be read: -1 where it is unknown; adds and marks nothing."""
        return self._index.find(self._index.prepare(self._columns(keys)), self._rows)

    def count(self, name: str, rows: Numbers) -> None:
        """Add 1 to a value for each occurrence of a row. Raises OverflowError like ``add``."""
        from penstock.operators import _keyed_changes as changes

        values, numbers = self._values[name], self._checked(rows)
        if values.dtype.kind not in "iu":
            self.add(name, rows, np.ones((), values.dtype))
            return
        most = values.dtype.type(np.iinfo(values.dtype).max)
        done = changes.count(values, numbers, most, *self._rows.marks)
        if done < len(numbers):
            raise self._overflow(name, int(numbers[done]), 1)

    def add(self, name: str, rows: Numbers, amounts: Any) -> None:
        """Add amounts to a value; a row may occur many times.

        Raises OverflowError, which names the key, instead of going beyond what the value's type holds.
        """
        from penstock.operators import _keyed_changes as changes

        values, numbers = self._values[name], self._checked(rows)
        given = self._given(name, numbers, amounts)
        if values.dtype.kind in "iu" and values.dtype.itemsize < 8:
            limits = np.iinfo(values.dtype)
            columns: list[Any] = [values, numbers, given, int(limits.min), int(limits.max)]
            done = changes.add_narrow(*[*columns, *self._rows.marks])
        else:
            ways = {"int64": changes.add_int64, "uint64": changes.add_uint64}
            done = ways.get(str(values.dtype), changes.add)(values, numbers, given, *self._rows.marks)
        if done < len(numbers):
            raise self._overflow(name, int(numbers[done]), given[done])

    def _overflow(self, name: str, row: int, amount: Any) -> OverflowError:
        key = self.frame(np.array([row])).row(0, named=True)
        told = ", ".join(f"{column} {key[column]!r}" for column in self._key)
        return OverflowError(
            f"value '{name}' of {told} is {self._values[name][row]}, and {amount} more do not fit "
            f"{self._value[name]}; declare it as a wider type, or as float64"
        )

    def maximum(self, name: str, rows: Numbers, amounts: Any) -> None:
        """Raise a value to the greatest of its amounts."""
        self._change("maximum", name, rows, amounts)

    def minimum(self, name: str, rows: Numbers, amounts: Any) -> None:
        """Lower a value to the least of its amounts."""
        self._change("minimum", name, rows, amounts)

    def last(self, name: str, rows: Numbers, amounts: Any) -> None:
        """Set a value; of several amounts for a row the last one wins."""
        self._change("last", name, rows, amounts)

    def touch(self, rows: Numbers) -> None:
        """Mark rows as changed."""
        from penstock.operators import _keyed_changes as changes

        changes.touch(self._checked(rows), *self._rows.marks)

    def changed(self) -> Numbers:
        """The rows changed or added since the last export, ascending, without those removed."""
        return self._rows.changed_numbers()

    @property
    def is_changed(self) -> bool:
        """Whether there is anything to export since the last export."""
        return bool(len(self.changed()) or len(self._removed_numbers()))

    @classmethod
    def restored(cls, base: bytes) -> KeyedTable:
        """A table made from an exported base alone, with the columns that it had."""
        from penstock.operators._keyed_blob import columns_of

        key, value = columns_of(base)
        table = cls(dict(key.columns), dict(value.columns))
        table.apply(base)
        return table

    def remove(self, rows: Numbers) -> None:
        """Forget the keys of these rows; the numbers are used again after the next export."""
        gone = np.unique(self._checked(rows))
        gone = gone[self._rows.live[gone] == 1]
        self._drop(gone)
        self._removed.append(gone)

    def frame(self, rows: Numbers | None = None) -> pl.DataFrame:
        """Keys and values of these rows, or of all, ascending by row number."""
        import polars as pl

        numbers = self._rows.numbers() if rows is None else self._checked(rows)
        columns = self._index.keys(numbers, self._rows)
        return pl.DataFrame([*columns, *(self._series(name, numbers) for name in self._value)])

    def export_delta(self) -> bytes:
        """What changed since the last export. Costs what changed, not what is held."""
        from penstock.operators._keyed_blob import Content, pack

        changed, removed = self.changed(), self._removed_numbers()
        content = Content("delta", self._rows.top, self._rows.popped, removed, changed, self.frame(changed))
        self._settle(removed)
        return pack(content, self._key, self._value)

    def export_base(self) -> bytes:
        """Everything. Rows are renumbered if most of them are free."""
        from penstock.operators._keyed_blob import Content, pack

        self._settle(self._removed_numbers())
        numbers, free, frame = self._rows.numbers(), self._rows.free_numbers(), self.frame()
        if len(free) <= max(_SPARSE, len(numbers)):
            return pack(Content("base", self._rows.top, 0, free, numbers, frame), self._key, self._value)
        numbers = np.arange(len(numbers))
        packed = pack(Content("base", len(numbers), 0, free[:0], numbers, frame), self._key, self._value)
        self.apply(packed)
        return packed

    def apply(self, blob: bytes) -> None:
        """Take over an export: a base replaces everything, a delta continues the export before it."""
        from penstock.operators._keyed_blob import unpack

        content = unpack(blob, self._key, self._value)
        if content.kind == "base":
            self._clear()
            self._place(content)
            self._rows.release(content.listed)
        else:
            known = content.listed[content.listed < self._rows.top]
            self._drop(known[self._rows.live[known] == 1])
            self._place(content)
            self._settle(content.listed)

    def _clear(self) -> None:
        from penstock.operators._keyed_index import index_of
        from penstock.operators._keyed_rows import Rows

        self._rows = Rows()
        self._index: Index = index_of(self._key, as_integer=_AS_INTEGER)
        self._removed: list[Numbers] = []
        self._values: dict[str, npt.NDArray[Any]] = {
            name: np.full(self._rows.capacity, self._defaults[name], _STORED.get(kind, kind))
            for name, kind in self._value.columns
        }

    def _columns(self, keys: Keys) -> list[pl.Series]:
        """The key columns in the table's order, of the table's types."""
        import polars as pl

        from penstock.frames.types import conform

        # Column by column: `select` and `filter` start a query, which costs more than a small batch.
        given = [keys[name] for name in self._key] if isinstance(keys, pl.DataFrame) else keys
        named = [column.alias(name) for name, column in zip(self._key, given, strict=True)]
        return conform(pl.DataFrame(named), self._key).rechunk().get_columns()

    def _checked(self, rows: Numbers) -> Numbers:
        numbers = np.ascontiguousarray(rows, np.int64)
        if len(numbers) and (numbers.min() < 0 or numbers.max() >= self._rows.top):
            got = f"{numbers.min()} … {numbers.max()}"
            raise IndexError(f"row numbers are 0 … {self._rows.top - 1}: got {got}")
        return numbers

    def _change(self, how: str, name: str, rows: Numbers, amounts: Any) -> None:
        from penstock.operators import _keyed_changes as changes

        values, numbers = self._values[name], self._checked(rows)
        getattr(changes, how)(values, numbers, self._given(name, numbers, amounts), *self._rows.marks)

    def _given(self, name: str, numbers: Numbers, amounts: Any) -> npt.NDArray[Any]:
        """Return an amount per row, of the value's type; raises OverflowError for one that does not fit."""
        from penstock.frames._jit import readonly

        wanted, given = self._values[name].dtype, np.asarray(amounts)
        if given.dtype.kind in "mM":
            given = given.astype(f"{given.dtype.kind}8[us]").view(np.int64)
        is_narrowed = (
            wanted.kind in "iu" and given.dtype.kind in "iu" and not np.can_cast(given.dtype, wanted)
        )
        if is_narrowed and given.size:
            limits, low, high = np.iinfo(wanted), int(given.min()), int(given.max())
            if low < limits.min or high > limits.max:
                got = low if low < limits.min else high
                raise OverflowError(f"an amount for the value '{name}' is {got}: {wanted} does not hold it")
        casting: Any = "unsafe" if is_narrowed else "same_kind"
        return readonly(np.broadcast_to(given.astype(wanted, casting=casting, copy=False), numbers.shape))

    def _reserve(self, top: int, live: int) -> None:
        """Make room for rows up to `top` and for `live` keys."""
        from penstock.operators._keyed_rows import resized

        if top > self._rows.capacity:
            top = max(top, self._rows.capacity * 3 // 2)  # few copies, however small the steps are
            self._rows.grow(top)
            for name, values in self._values.items():
                self._values[name] = resized(values, top, self._defaults[name])
        self._index.reserve(live, self._rows)

    def _place(self, content: Content) -> None:
        """Enter the rows of an export."""
        self._reserve(content.top, 0)
        new = np.flatnonzero(self._rows.live[content.numbers] == 0)
        if len(new):
            self._reserve(0, len(self) + len(new))
            keys = [content.frame[name].gather(new) for name in self._key]
            self._index.place(self._index.prepare(keys), content.numbers[new], self._rows)
        self._rows.restore(content.numbers[new], content.top, content.popped)
        for name, values in self._values.items():
            column = content.frame[name]
            values[content.numbers] = (
                column if column.dtype.is_numeric() else column.to_physical()
            ).to_numpy()

    def _drop(self, numbers: Numbers) -> None:
        self._index.discard(numbers, self._rows)
        self._rows.drop(numbers)

    def _removed_numbers(self) -> Numbers:
        return np.sort(np.concatenate([np.empty(0, np.int64), *self._removed]))

    def _settle(self, removed: Numbers) -> None:
        """Close the books of an export: nothing is changed any more, removed rows are free."""
        for name, values in self._values.items():
            values[removed] = self._defaults[name]
        self._rows.release(removed)
        self._rows.unmark()
        self._removed = []

    def _series(self, name: str, numbers: Numbers) -> pl.Series:
        import polars as pl

        from penstock.frames.types import polars_type

        series, kind = pl.Series(name, self._values[name][numbers]), polars_type(self._value[name])
        return series if series.dtype == kind else series.cast(kind)


def _check(key: Schema, value: Schema) -> None:
    """Refuse what cannot be a key or a value."""
    names = key.names + value.names
    for role, schema, kinds in (("key", key, _KEYS), ("value", value, _FIXED)):
        for name, kind in schema.columns:
            if kind not in kinds:
                raise BadArgument(
                    where="KeyedTable", what=f"{role} '{name}'", got=kind, allowed=", ".join(sorted(kinds))
                )
    if not key.names or len(set(names)) != len(names):
        raise BadArgument(
            where="KeyedTable", what="columns", got=names, allowed="at least one key, each name only once"
        )
