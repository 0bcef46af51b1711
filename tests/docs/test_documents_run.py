"""The code in the README and the guide runs, top to bottom, and prints what the page says.

A block after the comment ``<!-- spark -->`` runs only in the tier with a JVM. A block marked
``text output`` holds what the Python block before it prints.
"""

from __future__ import annotations

import contextlib
import io
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from types import ModuleType

import cloudpickle
import pytest

pytestmark = pytest.mark.long

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs" / "guide").glob("*.md"))]
_FENCE = re.compile(
    r"(?P<spark><!-- spark -->\s*\n)?^```(?P<kind>[^\n]*)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL
)


@dataclass(frozen=True)
class Block:
    """A piece of code, its line in the page, and what it prints if the page says so."""

    line: int
    code: str
    needs_spark: bool
    prints: str | None


def blocks(page: Path) -> list[Block]:
    text = page.read_text()
    fences = list(_FENCE.finditer(text))
    found = []
    for fence, following in zip_longest(fences, fences[1:]):
        if fence["kind"].strip() != "python":
            continue
        is_output = following is not None and following["kind"].strip() == "text output"
        prints = following["body"] if following is not None and is_output else None
        line = text.count("\n", 0, fence.start("body"))
        found.append(Block(line, fence["body"], fence["spark"] is not None, prints))
    return found


@pytest.fixture
def namespace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, object]]:
    """A module of its own in an empty folder; its classes travel to workers by value, as an app's do."""
    monkeypatch.chdir(tmp_path)
    module = ModuleType("page_under_test")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    cloudpickle.register_pickle_by_value(module)
    yield vars(module)
    cloudpickle.unregister_pickle_by_value(module)


def execute(page: Path, chosen: list[Block], namespace: dict[str, object]) -> None:
    for block in chosen:
        # Empty lines in front make the line numbers of a traceback those of the page.
        code = compile("\n" * block.line + block.code, str(page), "exec")
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(code, namespace)
        if block.prints is not None:
            assert printed.getvalue().strip() == block.prints.strip(), f"{page.name}:{block.line}"


def by_name(page: Path) -> str:
    return page.stem


@pytest.mark.parametrize("page", PAGES, ids=by_name)
def test_a_page_runs_without_a_jvm(page: Path, namespace: dict[str, object]) -> None:
    execute(page, [block for block in blocks(page) if not block.needs_spark], namespace)


@pytest.mark.spark
@pytest.mark.parametrize("page", [p for p in PAGES if any(b.needs_spark for b in blocks(p))], ids=by_name)
def test_a_page_runs_on_spark(page: Path, namespace: dict[str, object]) -> None:
    execute(page, blocks(page), namespace)


@pytest.mark.parametrize("page", [ROOT / "README.md", *sorted(ROOT.glob("docs/**/*.md"))], ids=by_name)
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\((?!https?:|#)([^)#]+)", page.read_text()):
        assert (page.parent / target).exists(), f"{page.name} links to {target}"
