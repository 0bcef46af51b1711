"""Find the source of code objects and classes, as syntax trees that do not depend on the Python release.

Byte code differs from one Python minor to the next; the syntax tree of the same source does not. A source is
used only if it compiles to the very code that runs: a file that was edited after it was imported is unknown.
"""

from __future__ import annotations

import ast
import types
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file of the user's, parsed and compiled."""

    content: bytes
    functions: dict[tuple[str, int], list[ast.AST]]
    """Functions by name and first line, as code objects tell them."""
    classes: dict[str, list[ast.ClassDef]]
    """Classes by their name: of one that travelled as code, the qualified name is lost."""
    compiled: dict[tuple[str, int], list[types.CodeType]]


def source_file(path: str) -> SourceFile | None:
    """Parse and compile a file as it is now. Return None if it holds no Python."""
    try:
        status = Path(path).stat()
        return _parsed(path, status.st_mtime_ns, status.st_size)
    except (OSError, SyntaxError, ValueError):  # "<stdin>", a file that is gone, no Python
        return None


def tree_of(code: types.CodeType) -> ast.AST | None:
    """Return the syntax tree of a function's code; None if its file is gone or was edited since."""
    file = source_file(code.co_filename)
    if file is None:
        return None
    key = (code.co_name, code.co_firstlineno)
    if code not in file.compiled.get(key, ()):
        return None
    found = [tree for tree in file.functions.get(key, ()) if _encloses(tree, code)]
    return min(found, key=_extent, default=None)


def class_tree_of(path: str, name: str, line: int | None) -> ast.ClassDef | None:
    """Return the class statement of this name around a line; without a line, the last one."""
    file = source_file(path)
    found = file.classes.get(name, []) if file else []
    if line is not None:
        found = [tree for tree in found if tree.lineno <= line <= (tree.end_lineno or line)]
    return max(found, key=lambda tree: tree.lineno, default=None)


def canonical(tree: ast.AST) -> Iterator[bytes]:
    """Yield a syntax tree as bytes that are equal in all Python releases: no places, no empty fields."""
    yield type(tree).__name__.encode()
    for name, value in ast.iter_fields(tree):
        if value is None or value == [] or name == "kind":
            continue
        yield b"." + name.encode()
        for item in value if isinstance(value, list) else [value]:
            # Python 3.12 puts an empty text into formats such as {x:<{width}}.
            if isinstance(tree, ast.JoinedStr) and _is_empty_text(item):
                continue
            if isinstance(item, ast.AST):
                yield from canonical(item)
            else:
                yield repr((type(item).__name__, item)).encode()
    yield b"end"


def _is_empty_text(item: object) -> bool:
    return isinstance(item, ast.Constant) and item.value == ""


@lru_cache(maxsize=256)
def _parsed(path: str, _mtime_ns: int, _size: int) -> SourceFile:
    content = Path(path).read_bytes()
    module = ast.parse(content)
    functions: dict[tuple[str, int], list[ast.AST]] = {}
    classes: dict[str, list[ast.ClassDef]] = {}
    for tree in ast.walk(module):
        if isinstance(tree, ast.ClassDef):
            classes.setdefault(tree.name, []).append(tree)
        elif isinstance(tree, _FUNCTIONS):
            functions.setdefault((_name(tree), _first_line(tree)), []).append(tree)
    compiled: dict[tuple[str, int], list[types.CodeType]] = {}
    for code in _inner(compile(content, path, "exec", dont_inherit=True)):
        compiled.setdefault((code.co_name, code.co_firstlineno), []).append(code)
    return SourceFile(content, functions, classes, compiled)


def _inner(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _inner(constant)


def _name(tree: ast.AST) -> str:
    return getattr(tree, "name", "<lambda>")


def _first_line(tree: ast.AST) -> int:
    decorators = getattr(tree, "decorator_list", [])
    return min(int(node.lineno) for node in (tree, *decorators))


def _encloses(tree: ast.AST, code: types.CodeType) -> bool:
    """Return whether the code lies within the tree: a line may hold several lambdas."""
    begin, end = (_first_line(tree), 0), (tree.end_lineno, tree.end_col_offset)  # type: ignore[attr-defined]
    if isinstance(tree, ast.Lambda):
        begin = (tree.lineno, tree.col_offset)
    for line, end_line, column, end_column in code.co_positions():
        if None in (line, end_line, column, end_column) or (line, end_column) == (code.co_firstlineno, 0):
            continue  # an instruction that no source stands for
        if (line, column) < begin or (end_line, end_column) > end:
            return False
    return True


def _extent(tree: ast.AST) -> tuple[int, int]:
    return (tree.end_lineno - tree.lineno, tree.end_col_offset - tree.col_offset)  # type: ignore[attr-defined]
