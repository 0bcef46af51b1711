"""Writes `docs/reference` from signatures and docstrings: `make reference`. A test holds the pages to it."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from penstock import errors

FOLDER = Path(__file__).parents[2] / "docs" / "reference"
MODULES = ("penstock", "penstock.net", "penstock.testing", "penstock.testing.chaos")
_MADE = "<!-- made by `make reference`; change the docstrings -->"
_WHO = {
    errors.TopologyError: "The author of the topology must act; nothing was started",
    errors.UserCodeError: "The author of an operator must act",
    errors.EnvironmentError_: "Whoever runs it must act",
    errors.InternalError: "We must act: please report it",
}
_LONGEST_VALUE, _LONGEST_LINE = 60, 100


class _Bare(str):
    """An annotation as it was written, without quotes."""

    __slots__ = ()
    __repr__ = str.__str__


def pages() -> dict[str, str]:
    """The text of each page by its name."""
    return {**{f"{module}.md": _module_page(module) for module in MODULES}, "errors.md": _errors_page()}


def _module_page(name: str) -> str:
    module = importlib.import_module(name)
    entries = [_entry(exported, getattr(module, exported)) for exported in module.__all__]
    return "\n\n".join([f"# {name}", _MADE, inspect.getdoc(module) or "", *filter(None, entries)]) + "\n"


def _entry(name: str, value: Any) -> str:
    if isinstance(value, ModuleType):
        return f"## {name}\n\nA module: see [errors](errors.md)." if value is errors else ""
    if not callable(value):
        text = repr(value)
        is_long = len(text) > _LONGEST_VALUE or " at 0x" in text
        return f"## {name}\n\nA `{type(value).__name__}`" + ("." if is_long else f": `{text}`.")
    called = f"{name}{_signature(value, in_lines=True)}"
    parts = [f"## {name}", f"```text\n{called}\n```", inspect.getdoc(value) or ""]
    if inspect.isclass(value):
        parts += ["\n".join(_methods(value))]
    return "\n\n".join(filter(None, parts))


def _methods(cls: type) -> Iterator[str]:
    """Those that a user calls: what a base class asks of it is called by the engine."""
    asked = {name for base in cls.__mro__[1:] for name in vars(base)}
    for name, member in inspect.getmembers(cls):
        doc = inspect.getdoc(member)
        is_method = isinstance(member, property) or inspect.isroutine(member)
        if name.startswith("_") or name in asked or not is_method or not doc:
            continue
        called = "" if isinstance(member, property) else _signature(member)
        yield f"- `.{name}{called}`: {doc.splitlines()[0]}"


def _signature(value: Callable[..., Any], *, in_lines: bool = False) -> str:
    """As it was written; if it is long and may be, with a line for each parameter."""
    signature = inspect.signature(value)
    parameters = [
        parameter.replace(annotation=_written(parameter.annotation))
        for parameter in signature.parameters.values()
        if parameter.name != "self"
    ]
    returns = inspect.Signature.empty if inspect.isclass(value) else _written(signature.return_annotation)
    shown = str(signature.replace(parameters=parameters, return_annotation=returns))
    if not in_lines or len(shown) <= _LONGEST_LINE:
        return shown
    marked = [str(signature.replace(parameters=[p], return_annotation=signature.empty)) for p in parameters]
    lines = [text.removeprefix("(").removesuffix(")").removeprefix("*, ") for text in marked]
    by_name = [p.kind is p.KEYWORD_ONLY for p in parameters]
    if True in by_name and not any(p.kind is p.VAR_POSITIONAL for p in parameters):
        lines.insert(by_name.index(True), "*")
    result = "" if returns is inspect.Signature.empty else f" -> {returns}"
    return "(\n" + "".join(f"    {line},\n" for line in lines) + f"){result}"


def _written(annotation: Any) -> Any:
    return _Bare(annotation) if isinstance(annotation, str) else annotation


def _errors_page() -> str:
    """Conditions by who must act, with the message that each has."""
    text = [
        "# Errors",
        _MADE,
        "Every error has a condition that stays, the first word of its message, and `parameters` that the "
        "message is made from. All are in `penstock.errors`.",
    ]
    for root, who in _WHO.items():
        rows = [f"| `{e.condition}` | `{e.__name__}` | {_cell(e)} |" for e in _below(root)]
        text.append(
            "\n".join([f"## {who}", "", "| condition | class | means, and says |", "|---|---|---|", *rows])
        )
    return "\n\n".join(text) + "\n"


def _below(root: type[errors.PenstockError]) -> list[type[errors.PenstockError]]:
    found = [root] if "condition" in vars(root) else []
    for cls in root.__subclasses__():
        found += _below(cls)
    return sorted(found, key=lambda cls: cls.condition)


def _cell(error: type[errors.PenstockError]) -> str:
    meaning = (error.__doc__ or "").splitlines()[0]
    says = error.template.replace("|", "\\|").replace("\n", " ")
    return f"{meaning} `{says}`" if "`" not in says else f"{meaning} ``{says}``"


def main() -> None:
    """Write all pages."""
    FOLDER.mkdir(exist_ok=True)
    for name, text in pages().items():
        (FOLDER / name).write_text(text)


if __name__ == "__main__":
    main()
