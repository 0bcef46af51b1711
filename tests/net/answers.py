"""Where other people's captures and answers lie, and a capture's packets with addresses as text."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from penstock.net import ip_text
from penstock.net.compare import packets_of

DATA = Path(__file__).parents[2].parent / "shared" / "data"
MISSING = "the folder of real data is not here"


def read(path: Path) -> pl.DataFrame:
    """All packets of a capture, with addresses as text."""
    rows = packets_of(path)
    return rows.with_columns(
        src=ip_text(rows["src_ip_high"], rows["src_ip_low"]),
        dst=ip_text(rows["dst_ip_high"], rows["dst_ip_low"]),
    )
