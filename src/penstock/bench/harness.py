"""Run a benchmark several times, each in a process of its own, and report the median of each figure.

A benchmark is a module of this package with ``def run(settings: Settings) -> dict[str, float]``. Register it
in ``BENCHES``; it is imported only in the process that runs it.
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from penstock.bench.memory import PeakMemory
from penstock.errors import InternalError

PEAK = "peak_rss_bytes"
_GONE_WITHIN_S = 10.0


@dataclass(frozen=True, slots=True)
class Bench:
    """A benchmark by the name of its module."""

    name: str
    about: str
    module: str


@dataclass(frozen=True, slots=True)
class Settings:
    """What a benchmark is told: a folder of its own, which run this is, and the cores it may use."""

    directory: Path
    number: int
    cores: int


def _bench(name: str, about: str) -> Bench:
    return Bench(name, about, f"penstock.bench.{name.replace('-', '_')}")


BENCHES: dict[str, Bench] = {
    bench.name: bench
    for bench in (
        _bench("keyed", "count and sum over 100,000 keys through one exchange, against Spark's own way"),
        _bench("broadcast", "what one sender pays for six receivers instead of one"),
        _bench("state-growth", "epoch time with 10 million keys held against 100,000"),
        _bench("latency", "event creation to committed result at 100,000 events/s"),
        _bench("scale", "throughput on two cores against one"),
        _bench("window", "count and sum in 10-second windows over 100,000 keys, against Spark SQL"),
        _bench("skew", "the same windows with Zipf distributed keys against even ones"),
        _bench("join", "pairs of two streams of a million subscribers within 15 minutes"),
        _bench("join-hot", "pairs of one key that has 40,000 rows on each side in an epoch"),
        _bench("sliding", "windows of an hour, one a second, over 10,800 events of three groups an epoch"),
        _bench("recovery", "from the death of an executor or a driver to the next committed epoch"),
        _bench("checkpoint-overhead", "throughput with epochs of one second against ten"),
        _bench("packet-counter", "packets of a header trace counted, against the bare kernel and nfstream"),
        _bench("decode-flows", "packets decoded to rows, exchanged by flow, flow table kept"),
        _bench("app-tracker", "packets in GTP to applications; a million flows against 10,000"),
        _bench("smart-pcc", "EDRs and streaming events of a million subscribers to signals, exactly once"),
        _bench("flow-control", "voice messages of a radio network to notices for its controllers"),
        _bench("slow-paths", "pings joined with the load of their targets to what made them slow"),
        _bench("click-stream", "log lines from raw text files to the most frequent patterns"),
    )
}


def listing() -> str:
    """The benchmarks and what each measures, one per line."""
    width = max(map(len, BENCHES))
    return "\n".join(f"{bench.name:<{width}}  {bench.about}" for bench in BENCHES.values())


def measure(bench: Bench, *, runs: int = 3, quiet: bool = False) -> dict[str, Any]:
    """Run it, print the figures for people and, as the last line, one JSON object; return that object.

    ``quiet`` leaves only the JSON line on standard output; the rest goes to standard error.
    """
    people = sys.stderr if quiet else sys.stdout
    print(f"{bench.name}: {bench.about}", file=people, flush=True)
    samples = []
    for number in range(runs):
        samples.append(run_once(bench, number))
        print(f"  run {number + 1} of {runs}: {_told(samples[-1])}", file=people, flush=True)
    report = summarise(bench.name, samples)
    print(f"  median: {_told({key: report[key] for key in samples[0]})}", file=people, flush=True)
    print(json.dumps(report), flush=True)
    return report


def run_once(bench: Bench, number: int = 0) -> dict[str, float]:
    """One run in a fresh process; its figures and the peak memory of its whole process tree."""
    with tempfile.TemporaryDirectory(prefix=f"penstock-{bench.name}-") as folder:
        answer = Path(folder) / "figures.json"
        command = [
            sys.executable,
            "-m",
            "penstock.bench.once",
            bench.module,
            folder,
            str(number),
            str(answer),
        ]
        # Its chatter goes to our standard error. A session of its own: nothing that it started outlives it.
        process = subprocess.Popen(command, stdout=2, start_new_session=True)
        try:
            with PeakMemory(process.pid) as memory, _asked_to_end():
                code = process.wait()
        finally:
            _end_group(process)
        if code != 0 or not answer.exists():
            raise InternalError(
                what=f"benchmark '{bench.name}' ended with code {code} and no figures (see above)"
            )
        figures: dict[str, float] = json.loads(answer.read_text())
    return {PEAK: float(memory.bytes), **figures}


@contextlib.contextmanager
def _asked_to_end() -> Iterator[None]:
    """Let SIGTERM end us by an exception, so that what was started is ended too."""
    before = signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _end_group(process: subprocess.Popen[bytes]) -> None:
    """End what a run has left, and wait until it is gone: the next run needs the memory."""
    deadline = time.monotonic() + _GONE_WITHIN_S
    with contextlib.suppress(ProcessLookupError):  # all of them have ended, as they should
        while time.monotonic() < deadline:
            os.killpg(process.pid, signal.SIGKILL)
            process.poll()
            time.sleep(0.01)
    process.wait()


def summarise(name: str, samples: Sequence[Mapping[str, float]]) -> dict[str, Any]:
    """The median of each figure, and what it was measured on."""
    medians = {key: statistics.median(sample[key] for sample in samples) for key in samples[0]}
    return {
        "bench": name,
        **medians,
        "runs": len(samples),
        "cores": cores(),
        "python": platform.python_version(),
        "spark": metadata.version("pyspark"),
        "cpu": cpu(),
    }


def cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def cpu() -> str:
    """The processor's name."""
    information = Path("/proc/cpuinfo")
    if information.exists():
        for text in information.read_text().splitlines():
            if text.startswith("model name"):
                return text.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _told(figures: Mapping[str, float]) -> str:
    def told(key: str, value: float) -> str:
        if key.endswith("_bytes"):
            return f"{key} {value / 2**20:,.0f} MiB"
        return f"{key} {value:,.0f}" if abs(value) >= 1000 else f"{key} {value:.3g}"

    return ", ".join(told(key, value) for key, value in figures.items())
