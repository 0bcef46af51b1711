"""From requests of an access log to visits of pages: who, when, which page."""

from __future__ import annotations

import re
from dataclasses import dataclass

import polars as pl

from penstock.errors import BadArgument
from penstock.frames.hashing import stable_hash
from penstock.operators.integer_sums import may_exceed

ASSETS = r"(?i)\.(gif|jpe?g|png|ico|bmp|svg|webp|css|js|map|woff2?|ttf)$"
"""Files that belong to pages: their requests say nothing about where a user goes."""
NEEDED = {
    "time": "timestamp", "status": "int32", "bytes": "int64",
    "method": "string", "path": "string", "visitor": "uint64",
}  # fmt: skip
WITH_COOKIE = {**NEEDED, "cookie": "string"}


@dataclass(frozen=True)
class Visits:
    """Requests → visits: pages that were got, by users told apart by a cookie, or by address and agent.

    ``user`` is a hash of 64 bits: of the value of the cookie that is named, and of the host and the agent
    where there is no such cookie.
    """

    cookie: str | None
    skip: str

    def __post_init__(self) -> None:
        try:
            re.compile(self.skip)
        except re.error as error:
            allowed = f"a regular expression of paths that are no pages ({error})"
            raise BadArgument(
                where="click-stream", what="skip", got=repr(self.skip), allowed=allowed
            ) from None

    def __call__(self, requests: pl.DataFrame) -> pl.DataFrame:
        is_page = (pl.col("method") == "GET") & pl.col("status").is_between(200, 399)
        if self.skip:
            is_page &= ~pl.col("path").str.contains(self.skip)
        taken = ["time", "path", "visitor", *(["cookie"] if self.cookie is not None else [])]
        pages = requests.select(taken).filter(requests.select(is_page).to_series())
        user = pages["visitor"].alias("user")
        if self.cookie is not None:
            told = pages["cookie"].str.extract(rf"(?:^|;\s*){re.escape(self.cookie)}=([^;]*)")
            by_cookie = pl.Series(stable_hash([told]))
            user = user.zip_with(told.is_null(), by_cookie)
        return pages.select(user, "time", page="path")


def by_method(requests: pl.DataFrame) -> pl.DataFrame:
    """Requests → what to add to the totals of each method.

    Requests that claim so many bytes that their sum may not fit are added one by one: the first that does not
    fit its total becomes a dead letter.
    """
    answered = pl.col("status")
    if may_exceed(requests["bytes"]):
        return requests.select(
            method=pl.col("method").fill_null("-"),
            requests=pl.lit(1, pl.Int64),
            bytes=pl.col("bytes").fill_null(0),
            errors=(answered >= 400).fill_null(value=False).cast(pl.Int64),
            invalid=(answered == 400).fill_null(value=False).cast(pl.Int64),
        )
    return requests.group_by(method=pl.col("method").fill_null("-"), maintain_order=True).agg(
        requests=pl.len().cast(pl.Int64),
        bytes=pl.col("bytes").sum(),
        errors=(answered >= 400).sum().cast(pl.Int64),
        invalid=(answered == 400).sum().cast(pl.Int64),
    )
