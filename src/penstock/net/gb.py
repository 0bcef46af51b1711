"""What the frames of a Gb interface say: their kind, the subscriber and the cell."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.topology.schema import Schema

if TYPE_CHECKING:
    import polars as pl

GB_FRAMES = Schema.of(
    {
        "ns_type": "uint8",
        "bvci": "uint16",
        "bssgp_type": "uint8",
        "tlli": "uint32",
        "imsi": "string",
        "mcc": "string",
        "mnc": "string",
        "lac": "uint16",
        "rac": "uint8",
        "cell": "uint16",
        "llc_sapi": "uint8",
        "is_ciphered": "bool",
        "pdu": "string",
    }
)
"""What `gb_frames` adds to packets; null where a frame does not say it. ``pdu`` names the innermost layer."""

_NS = {
    0: "NS-UNITDATA", 2: "NS-RESET", 3: "NS-RESET-ACK", 4: "NS-BLOCK", 5: "NS-BLOCK-ACK", 6: "NS-UNBLOCK",
    7: "NS-UNBLOCK-ACK", 8: "NS-STATUS", 10: "NS-ALIVE", 11: "NS-ALIVE-ACK", 12: "SNS-ACK", 13: "SNS-ADD",
    14: "SNS-CHANGEWEIGHT", 15: "SNS-CONFIG", 16: "SNS-CONFIG-ACK", 17: "SNS-DELETE", 18: "SNS-SIZE",
    19: "SNS-SIZE-ACK",
}  # fmt: skip
_BSSGP = {
    0: "DL-UNITDATA", 1: "UL-UNITDATA", 2: "RA-CAPABILITY", 4: "DL-MBMS-UNITDATA", 5: "UL-MBMS-UNITDATA",
    6: "PAGING-PS", 7: "PAGING-CS", 8: "RA-CAPABILITY-UPDATE", 9: "RA-CAPABILITY-UPDATE-ACK",
    10: "RADIO-STATUS", 11: "SUSPEND", 12: "SUSPEND-ACK", 13: "SUSPEND-NACK", 14: "RESUME", 15: "RESUME-ACK",
    16: "RESUME-NACK", 32: "BVC-BLOCK", 33: "BVC-BLOCK-ACK", 34: "BVC-RESET", 35: "BVC-RESET-ACK",
    36: "BVC-UNBLOCK", 37: "BVC-UNBLOCK-ACK", 38: "FLOW-CONTROL-BVC", 39: "FLOW-CONTROL-BVC-ACK",
    40: "FLOW-CONTROL-MS", 41: "FLOW-CONTROL-MS-ACK", 42: "FLUSH-LL", 43: "FLUSH-LL-ACK", 44: "LLC-DISCARDED",
    64: "SGSN-INVOKE-TRACE", 65: "STATUS", 80: "DOWNLOAD-BSS-PFC", 81: "CREATE-BSS-PFC",
}  # fmt: skip
_GMM = {
    1: "ATTACH REQUEST", 2: "ATTACH ACCEPT", 3: "ATTACH COMPLETE", 4: "ATTACH REJECT", 5: "DETACH REQUEST",
    6: "DETACH ACCEPT", 8: "RA UPDATE REQUEST", 9: "RA UPDATE ACCEPT", 10: "RA UPDATE COMPLETE",
    11: "RA UPDATE REJECT", 12: "SERVICE REQUEST", 13: "SERVICE ACCEPT", 14: "SERVICE REJECT",
    16: "P-TMSI REALLOCATION COMMAND", 17: "P-TMSI REALLOCATION COMPLETE",
    18: "AUTHENTICATION AND CIPHERING REQUEST", 19: "AUTHENTICATION AND CIPHERING RESPONSE",
    20: "AUTHENTICATION AND CIPHERING REJECT", 21: "IDENTITY REQUEST", 22: "IDENTITY RESPONSE",
    28: "AUTHENTICATION AND CIPHERING FAILURE", 32: "GMM STATUS", 33: "GMM INFORMATION",
}  # fmt: skip
_SM = {
    65: "ACTIVATE PDP CONTEXT REQUEST", 66: "ACTIVATE PDP CONTEXT ACCEPT", 67: "ACTIVATE PDP CONTEXT REJECT",
    68: "REQUEST PDP CONTEXT ACTIVATION", 70: "DEACTIVATE PDP CONTEXT REQUEST",
    71: "DEACTIVATE PDP CONTEXT ACCEPT", 72: "MODIFY PDP CONTEXT REQUEST", 73: "MODIFY PDP CONTEXT ACCEPT",
    85: "SM STATUS",
}  # fmt: skip
_LLC_U = {0: "LLC NULL", 1: "LLC DM", 4: "LLC DISC", 6: "LLC UA", 7: "LLC SABM", 8: "LLC FRMR", 11: "LLC XID"}
_LLC = {1: "LLC I", 2: "LLC S", 3: "LLC UI", 4: "LLC U"}


def gb_frames(packets: pl.DataFrame) -> pl.DataFrame:
    """Add to packets what they say as frames of NS over UDP (the columns `GB_FRAMES`), signalling included.

    Needs the columns ``packet``, ``length`` and ``link_type``. The inner packets of subscribers are decoded
    already by `Pcap`, with the TLLI in ``tunnel_id``; this adds the cell and, where it is told, the IMSI.
    """
    import numpy as np
    import polars as pl

    from penstock.frames._jit import readonly
    from penstock.net import _gb_frames as f
    from penstock.net._subscriber_codes import digits_text, network_texts

    bytes_of = packets["packet"].rechunk().to_arrow().cast("large_binary")
    ends, data = _buffers(bytes_of)
    found = np.full((f.OUT, packets.height), -1, np.int64)
    lengths, links = (packets[name].to_numpy() for name in ("length", "link_type"))
    f.frames(readonly(data), readonly(ends), readonly(lengths), readonly(links), found)
    names = (
        "ns_type", "bvci", "bssgp_type", "tlli", "plmn", "lac", "rac", "cell", "imsi", "llc_sapi", "llc",
        "command", "is_ciphered", "discriminator", "message",
    )  # fmt: skip
    told = pl.DataFrame({name: found[k] for k, name in enumerate(names)}).with_columns(
        pl.when(pl.all() >= 0).then(pl.all())
    )
    told = told.with_columns(digits_text("imsi"), *network_texts("plmn"), _pdu().alias("pdu"))
    return packets.with_columns(_typed(told))


def _buffers(column: Any) -> tuple[Any, Any]:
    """The places and the bytes of a binary column."""
    import numpy as np

    _, places, data = column.buffers()
    ends = np.frombuffer(places, np.int64)[column.offset : column.offset + len(column) + 1]
    return ends, np.frombuffer(data, np.uint8) if data is not None and data.size else np.zeros(1, np.uint8)


def _typed(told: pl.DataFrame) -> list[pl.Series]:
    from penstock.frames.types import polars_type

    return [told[name].cast(polars_type(kind)) for name, kind in GB_FRAMES.columns]


def _pdu() -> pl.Expr:
    """The name of the innermost layer that is known."""
    import polars as pl

    def named(column: str, names: dict[int, str], *conditions: pl.Expr) -> pl.Expr:
        text = pl.col(column).replace_strict(names, default=None, return_dtype=pl.String)
        return pl.when(*conditions).then(text) if conditions else text

    is_sndcp = pl.col("llc_sapi").is_in([3, 5, 9, 11]) & (pl.col("llc") == 3)
    return pl.coalesce(
        named("message", _GMM, pl.col("discriminator") == 8),
        named("message", _SM, pl.col("discriminator") == 10),
        pl.when(is_sndcp).then(pl.lit("SN-UNITDATA")),
        named("command", _LLC_U),
        named("llc", _LLC),
        named("bssgp_type", _BSSGP),
        named("ns_type", _NS),
    )
