"""The public surface: what `import penstock` gives, and what it costs."""

from __future__ import annotations

import subprocess
import sys

import pytest

import penstock as ps

HEAVY = ("polars", "pyarrow", "pyspark", "numba", "pandas", "deltalake", "numpy")


def test_importing_penstock_and_building_a_topology_takes_nothing_heavy() -> None:
    script = (
        "import sys, penstock as ps\n"
        "top = ps.Topology('t')\n"
        "rows = top.source('rows', ps.Generator(lambda first, count: None, schema={'a': int}, rows=1))\n"
        "rows.key_by('a').process('p', object(), returns={'a': int}).sink('out', ps.Collect())\n"
        "top.describe(), top.mermaid(), top == top, top.to_json()\n"
        f"found = [name for name in {HEAVY} if name in sys.modules]\n"
        "assert not found, found\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr


def test_public_names_are_sorted_and_each_is_there() -> None:
    constants_first = sorted(ps.__all__, key=lambda name: (name.islower(), name))
    assert ps.__all__ == constants_first
    assert set(ps.__all__) <= set(dir(ps)) | set(ps._LAZY)


@pytest.mark.parametrize("name", ps.__all__)
def test_every_public_name_is_documented(name: str) -> None:
    public = getattr(ps, name)
    assert (public.__doc__ or "").strip()
    own = (
        [m for m in vars(public).values() if callable(m) and getattr(m, "__name__", "_")[0] != "_"]
        if isinstance(public, type)
        else []
    )
    inherited = {
        n
        for base in getattr(public, "__mro__", ())[1:]
        for n, m in vars(base).items()
        if getattr(m, "__doc__", None)
    }
    missing = [m.__name__ for m in own if not m.__doc__ and m.__name__ not in inherited]
    assert not missing


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError):
        ps.Nothing  # noqa: B018
