"""How a CSV file is written."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from penstock.errors import BadArgument


@dataclass(frozen=True, slots=True)
class Csv:
    """The dialect of CSV files.

    With ``header="first-line"`` columns are found by name, in any order, and further ones are left
    out; with ``"none"`` the fields are the schema's columns. ``nulls`` are texts that mean null in
    any column; an empty field is null in all but string columns. ``multiline="quoted"`` allows line
    breaks between quotes. Such files are cut at the ends of records, which costs one more pass over them.
    """

    separator: str = ","
    quote: str = '"'
    header: Literal["first-line", "none"] = "first-line"
    multiline: Literal["never", "quoted"] = "never"
    nulls: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "nulls", tuple(self.nulls))
        for what in ("separator", "quote"):
            value = getattr(self, what)
            if not isinstance(value, str) or len(value.encode()) != 1 or value in "\r\n":
                raise BadArgument(where="Csv", what=what, got=repr(value), allowed="one ASCII character")
        for what, allowed in (("header", ("first-line", "none")), ("multiline", ("never", "quoted"))):
            if getattr(self, what) not in allowed:
                raise BadArgument(
                    where="Csv",
                    what=what,
                    got=repr(getattr(self, what)),
                    allowed=" or ".join(map(repr, allowed)),
                )
