"""Words of the command line as arguments of a function."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import pytest

from penstock.cli.values import bind, explained, usage


def make(
    source: Path | str = "captures",
    *,
    top: int = 10,
    within: float | None = None,
    stdin: bool = False,
    by_key: Literal["cookie", "address"] = "cookie",
    folder: Path = Path("out"),
) -> dict[str, Any]:
    return dict(locals())


DEFAULTS = make()


@pytest.mark.parametrize(
    ("words", "changed"),
    [
        ([], {}),
        (["here"], {"source": "here"}),
        (["--top", "3", "here"], {"source": "here", "top": 3}),
        (["--top=1_000"], {"top": 1000}),
        (["--stdin", "here"], {"stdin": True, "source": "here"}),
        (["--stdin=no"], {}),
        (["--within", "2.5"], {"within": 2.5}),
        (["--by-key", "address", "--folder", "a/b"], {"by_key": "address", "folder": Path("a/b")}),
    ],
)
def test_words_become_arguments(words: list[str], changed: dict[str, Any]) -> None:
    assert bind(make, words)() == {**DEFAULTS, **changed}


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--tops", "3"], "there is no option --tops"),
        (["--top"], "--top TOP: the value is missing"),
        (["--top", "many"], "'many' is not a whole number"),
        (["--by-key", "name"], "'name' is not one of cookie, address"),
        (["--stdin=perhaps"], "'perhaps' is not yes or no"),
        (["here", "there"], "too many values: 'there'"),
    ],
)
def test_words_that_do_not_fit_are_named(words: list[str], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        bind(make, words)


def test_what_has_no_default_is_asked_for() -> None:
    def needs(path: str, *more: str, rate: int) -> tuple[Any, ...]:
        return (path, *more, rate)

    assert bind(needs, ["a", "b", "c", "--rate", "4"])() == ("a", "b", "c", 4)
    with pytest.raises(ValueError, match="missing: PATH, --rate RATE"):
        bind(needs, [])
    assert usage(needs) == "PATH [MORE…] --rate RATE"


def test_the_usage_names_every_option() -> None:
    assert usage(make) == (
        "[SOURCE] [--top TOP] [--within WITHIN] [--stdin] [--by-key BY_KEY] [--folder FOLDER]"
    )


def test_each_value_is_explained() -> None:
    def takes(
        path: str,
        *more: str,
        rate: int = 4,
        engine: Literal["a", "b"] = "a",
        host: str | None = None,
        fast: bool = False,
    ) -> None: ...

    assert explained(takes) == [
        ("PATH", "required"),
        ("MORE…", ""),
        ("--rate RATE", "default: 4"),
        ("--engine ENGINE", "one of a, b; default: a"),
        ("--host HOST", ""),
        ("--fast", ""),
    ]
