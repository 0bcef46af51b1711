"""Kernels with bounds checks: ``python -m tests.bounds``, which is part of ``make test``.

``NUMBA_BOUNDSCHECK=1`` makes numba raise IndexError for an index behind the end of an array. Like NumPy it
counts an index from -len to -1 from the end, and so takes a "-1: there is none" that is used as an index for
the last element. No kernel counts from the end on purpose, so here such an index is an error as well.

The tests of all code that has kernels run once more, and it is an error if they leave a kernel out.
"""

from __future__ import annotations

import ast
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import penstock

SOURCES = Path(penstock.__file__).parent
HOME = Path("out/bounds")
TESTS = (
    "tests/frames", "tests/operators", "tests/net", "tests/fuzz/test_findings.py",
    "tests/connect/test_access_log.py", "tests/apps/test_click_stream.py", "tests/apps/test_flow_control.py",
    "tests/apps/test_smart_pcc.py",
)  # fmt: skip
_RECORD = "PENSTOCK_KERNELS_RUN"
_BENCHES = SOURCES / "bench"  # what they compare with is no part of a run


def is_wanted() -> bool:
    """Return whether this process compiles kernels with bounds checks."""
    return os.environ.get("NUMBA_BOUNDSCHECK") == "1"


def environment(home: Path) -> dict[str, str]:
    """Return the environment of a process with bounds checks, whose compiled kernels stay in ``home``."""
    for other in home.glob("*"):
        if other.name != _version():
            shutil.rmtree(other, ignore_errors=True)
    return {**os.environ, "NUMBA_BOUNDSCHECK": "1", "NUMBA_CACHE_DIR": str((home / _version()).absolute())}


def refuse_negative_indices() -> None:
    """Have numba compile all kernels so that an index below 0 raises IndexError."""
    from numba.core import types
    from numba.np import arrayobj

    def unchanged(context: Any, builder: Any, kind: Any, index: Any, _size: Any) -> Any:
        return context.cast(builder, index, kind, types.intp if kind.signed else types.uintp)

    arrayobj.fix_integer_index = unchanged


def kernels() -> Iterator[tuple[str, ast.FunctionDef]]:
    """Yield the qualified name and the code of every kernel."""
    for path in sorted(SOURCES.rglob("*.py")):
        if path.is_relative_to(_BENCHES):
            continue
        module = ".".join(("penstock", *path.relative_to(SOURCES).with_suffix("").parts))
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.FunctionDef) and "kernel" in map(ast.unparse, node.decorator_list):
                yield f"{module}.{node.name}", node


def record() -> None:
    """Note which kernels this process has run, if `main` asks for it."""
    if folder := os.environ.get(_RECORD):
        Path(folder, str(os.getpid())).write_text("\n".join(sorted(_run_here())))


def _run_here() -> Iterator[str]:
    for name, module in list(sys.modules.items()):
        if name.startswith("penstock."):
            for value in list(vars(module).values()):
                for compiled in (value, getattr(value, "__wrapped__", None)):
                    if getattr(compiled, "overloads", None) and (plain := getattr(compiled, "py_func", None)):
                        yield f"{plain.__module__}.{plain.__qualname__}"


def main() -> int:
    """Run the tests with bounds checks; 1 if one fails or a kernel was not run."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "pytest", "-q", "-n", "2", "--dist", "worksteal", "-m", "not spark"]
        environ = {**environment(HOME), _RECORD: folder}
        code = subprocess.run([*command, "-r", "fE", *TESTS], env=environ, check=False).returncode
        run = {name for path in Path(folder).iterdir() for name in path.read_text().split()}
    missing = [name for name, _ in kernels() if name not in run]
    for name in missing:
        print(f"no test has run the kernel {name} with bounds checks")
    print(f"bounds checks: {len(list(kernels())) - len(missing)} kernels have run with them")
    return 1 if code or missing else 0


@cache
def _version() -> str:
    """Return the code as a number: numba does not notice when a step that a kernel calls has changed."""
    paths = [*sorted(SOURCES.rglob("*.py")), Path(__file__)]
    sources = b"".join(path.read_bytes() for path in paths)
    return hashlib.sha1(sources).hexdigest()[:12]


if __name__ == "__main__":
    sys.exit(main())
