"""``python -m tests.fuzz``: look for inputs that crash, hang, or make memory grow.

Three phases, as each finds what the others cannot. A guided one: numba is off, libFuzzer sees every branch of
the kernels and keeps inputs that reach new ones, about twenty inputs a second. Then a mass one: the corpus
that it left is mutated and led through the compiled kernels and nDPI, a thousand inputs a second. Then a
heavy one: captures that fill the state of operators, and end with a few packets that resolve all of it.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from tests.fuzz import mass
from tests.fuzz.seeds import seeds
from tests.fuzz.worker import inputs_of

_MOST_GROWTH_BYTES = 128 << 20
_WARM_BATCHES = 8  # allocators reach their level in the first ones
_MOST_FINDINGS = 20


def main() -> int:
    """Run both phases; 1 if anything was found."""
    asked = _arguments()
    home = asked.home
    corpus, findings = home / "corpus", home / "findings"
    for folder in (corpus, findings):
        folder.mkdir(parents=True, exist_ok=True)
    for capture in seeds():
        (corpus / hashlib.sha1(capture).hexdigest()).write_bytes(capture)
    ok = _guided(corpus, findings, asked.guided_seconds, home)
    lab = mass.Lab(corpus, asked.seed, home)
    ok = _search(lab, mass.batches(asked.inputs), asked.seconds, findings) and ok
    lab, few = replace(lab, mode="heavy"), mass.batches(asked.heavy_inputs, mass.HEAVY_BATCH)
    ok = _search(lab, few, asked.seconds, findings) and ok
    return 0 if ok else 1


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--inputs", type=int, default=1_000_000, help="inputs of the mass phase")
    parser.add_argument("--heavy-inputs", type=int, default=20_000, help="inputs of the heavy phase")
    parser.add_argument("--seconds", type=float, help="end the mass and the heavy phase after this time each")
    parser.add_argument("--guided-seconds", type=int, default=60, help="length of the guided phase")
    parser.add_argument("--seed", type=int, default=1, help="another seed, other inputs")
    parser.add_argument("--home", type=Path, default=Path("out/fuzz"), help="corpus and findings")
    return parser.parse_args()


def _guided(corpus: Path, findings: Path, seconds: int, home: Path) -> bool:
    if not seconds:
        return True
    command = [
        sys.executable, "-m", "tests.fuzz.guided", str(corpus), f"-max_total_time={seconds}", "-max_len=4096",
        "-timeout=20", "-rss_limit_mb=2048", f"-artifact_prefix={findings}/guided-", "-print_final_stats=1",
    ]  # fmt: skip
    log = home / "guided.log"
    with open(log, "wb") as out:
        environment = {**os.environ, "NUMBA_DISABLE_JIT": "1"}
        code = subprocess.run(command, stdout=out, stderr=subprocess.STDOUT, env=environment, check=False)
    text = log.read_text(errors="replace")
    states = re.findall(
        r"#(\d+)\s+\w+\s+cov: (\d+) ft: (\d+) corp: (\d+)\S* .*?exec/s: (\d+) rss: (\d+)Mb", text
    )
    first, last = states[0], states[-1]
    print(
        f"guided: {last[0]} inputs, {last[4]} executions/s, {last[1]} branches reached, "
        f"corpus {last[3]}, memory {first[5]} MB at start, {last[5]} MB at end"
    )
    if code.returncode:
        print(f"guided: FOUND something, see {log} and {findings}")
    return code.returncode == 0


def _search(lab: mass.Lab, wanted: Sequence[range], seconds: float | None, findings: Path) -> bool:
    """Run a phase of compiled kernels; False if it found anything."""
    name = "mass" if lab.mode == "mutated" else lab.mode
    started = time.monotonic()
    told_at = started

    def goes_on(ran: mass.Ran) -> bool:
        nonlocal told_at
        now = time.monotonic()
        if now - told_at > 30:
            told_at = now
            rate, memory = ran.inputs / (now - started), (ran.rss_bytes or [0])[-1] >> 20
            print(f"{name}: {ran.inputs} inputs, {rate:.0f}/s, memory {memory} MB", flush=True)
        is_over = seconds is not None and now - started > seconds
        return not is_over and len(ran.failed) < _MOST_FINDINGS

    ran = mass.search(lab, wanted, goes_on)
    took = time.monotonic() - started
    levels = ran.rss_bytes[_WARM_BATCHES:] or ran.rss_bytes or [0]
    growth = levels[-1] - levels[0]
    print(
        f"{name}: {ran.inputs} inputs, {ran.inputs / took:.0f} executions/s, "
        f"{ran.inputs / max(ran.processor_s, 1e-9):.0f} per second of processor time, {ran.packets} packets, "
        f"{ran.flows} flows, slowest batch {ran.slowest_s:.1f} s, "
        f"memory {levels[0] >> 20} MB at start, {max(levels) >> 20} MB at most, {levels[-1] >> 20} MB at end"
    )
    inputs = inputs_of(lab.mode, lab.corpus, lab.seed)
    for batch, why in ran.failed:
        numbers = mass.shrunk(lab, batch)
        for number in numbers[:4]:
            (findings / f"{name}-{lab.seed}-{number}.pcap").write_bytes(inputs.made(number))
        print(f"FOUND: inputs {numbers[:4]} of seed {lab.seed} ({len(numbers)}), in {findings}: {why}")
    if growth > _MOST_GROWTH_BYTES:
        print(f"FOUND: memory grew by {growth >> 20} MB")
    is_clean = not ran.failed and growth <= _MOST_GROWTH_BYTES
    print(
        f"{ran.inputs} inputs: {'no crash, no hang, no growth of memory' if is_clean else 'see FOUND above'}"
    )
    return is_clean


if __name__ == "__main__":
    sys.exit(main())
