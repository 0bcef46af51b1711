"""Windows over keys of which one is every third event, against windows over even keys."""

from __future__ import annotations

from penstock.bench.harness import Settings
from penstock.bench.window import windows_per_second

EXPONENT = 1.5


def run(settings: Settings) -> dict[str, float]:
    """The bench ``window`` twice in the same session, even keys first."""
    even, skewed = settings.directory / "even", settings.directory / "zipf"
    even.mkdir()
    skewed.mkdir()
    uniform = windows_per_second(even, exponent=0.0)
    zipf = windows_per_second(skewed, exponent=EXPONENT)
    return {
        "uniform_events_per_s": uniform,
        "zipf_events_per_s": zipf,
        "ratio_zipf_to_uniform": zipf / uniform,
    }
