"""One report of all that differs between us and other tools, for a folder of captures with their answers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.errors import BadArgument
from penstock.net.applications import Applications
from penstock.net.compare import Difference, captures_with_answers, compare_with_ndpi
from penstock.net.compare_applications import Agreement, compare_applications
from penstock.net.compare_sessions import SessionDifference, arkime, compare_sessions, zeek_inner
from penstock.net.dpi import engine

if TYPE_CHECKING:
    from penstock.net.dpi import Choice

_ARKIME = ".test"
_ALLOWED = "a folder with captures and NAME.out of nDPI or NAME.test of Arkime beside them"


@dataclass(frozen=True, slots=True)
class Report:
    """What differs. ``captures`` were compared with nDPI, ``sessions_compared`` with Zeek or Arkime."""

    engine: str
    captures: int
    totals: tuple[Difference, ...]
    applications: Agreement
    sessions_compared: int
    sessions: tuple[SessionDifference, ...]

    def lines(self) -> Iterator[str]:
        """The report as text: figures first, then every difference."""
        if self.captures:
            yield f"{self.captures} captures with answers of nDPI; flows are judged by {self.engine}"
            yield f"packets and bytes differ in {self._count('is_in_packets')} captures"
            yield f"flows differ in {self._count('is_in_flows')} captures"
            yield (
                f"applications: {self.applications.flows} flows that nDPI saw in the payload, the same for "
                f"{self.applications.ratio:.1%}, the same protocol for {self.applications.protocol_ratio:.1%}"
            )
        if self.sessions_compared:
            yield f"{self.sessions_compared} captures with sessions; {len(self.sessions)} sessions differ"
        for title, found in (
            ("packets, bytes, flows", self.totals),
            ("sessions", self.sessions),
            ("applications", self.applications.differences),
        ):
            if found:
                yield from ("", title, *(f"  {difference}" for difference in found))

    def to_json(self) -> dict[str, Any]:
        """The figures."""
        return {
            "engine": self.engine,
            "captures": self.captures,
            "captures_with_other_packets": self._count("is_in_packets"),
            "captures_with_other_flows": self._count("is_in_flows"),
            "judged_flows": self.applications.flows,
            "same_application_ratio": round(self.applications.ratio, 4) if self.applications.flows else None,
            "same_protocol_ratio": round(self.applications.protocol_ratio, 4)
            if self.applications.flows
            else None,
            "captures_with_sessions": self.sessions_compared,
            "sessions_that_differ": len(self.sessions),
        }

    def _count(self, what: str) -> int:
        return sum(bool(getattr(difference, what)) for difference in self.totals)


def difference_report(path: Path, *, choice: Choice = "best", zeek: Path | None = None) -> Report:
    """Compare the captures of a folder with the answers beside them, or one capture with Zeek's conn.log.

    Flows are not cut by time here, as nDPI's tests do not cut them either.
    """
    if zeek is not None:
        sessions = compare_sessions(path, zeek_inner(zeek), only_tunnelled=True)
        return Report("", 0, (), Agreement(0, ()), 1, tuple(sessions))
    captures = captures_with_answers(path)
    answered = [(test.with_suffix(".pcap"), test) for test in sorted(path.glob(f"*{_ARKIME}"))]
    answered = [(capture, test) for capture, test in answered if capture.is_file()]
    if not captures and not answered:
        raise BadArgument(where="net compare", what="path", got=str(path), allowed=_ALLOWED)
    operator = Applications(engine=choice, idle="1h", active="24h")
    return Report(
        engine(choice).name,
        len(captures),
        tuple(compare_with_ndpi(captures)),
        compare_applications(captures, operator),
        len(answered),
        tuple(
            difference
            for capture, test in answered
            for difference in compare_sessions(capture, arkime(test), only_tunnelled=False)
        ),
    )
