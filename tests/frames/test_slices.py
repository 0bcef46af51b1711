from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.frames import slices
from penstock.frames.hashing import stable_hash
from penstock.frames.slices import address, addresses, murmur3_long, partition_of, slice_of

DIVISORS = [p for p in range(1, 121) if 120 % p == 0]


def test_murmur3_gives_what_spark_gives() -> None:
    values = np.array([0, 1, -1, 42, 2**63 - 1, -(2**63)], np.int64)
    assert murmur3_long(values).tolist() == [
        -1670924195,
        -1712319331,
        -939490007,
        1316951768,
        -1604625029,
        -853646085,
    ]


@pytest.mark.parametrize("partitions", DIVISORS)
def test_slices_spread_evenly_over_any_divisor_of_120(partitions: int) -> None:
    homes = [partition_of(int(a), partitions) for a in addresses("dns", 120)]
    assert homes == [s % partitions for s in range(120)]


def test_a_thousand_slices_spread_too() -> None:
    homes = murmur3_long(addresses("dns", 1000)) % 8
    assert np.bincount(homes).tolist() == [125] * 8


def test_an_address_holds_its_slice_and_is_positive() -> None:
    all_ = addresses("dns", 300)
    assert ((all_ >> 16) & 0xFFFF).tolist() == list(range(300))
    assert (all_ > 0).all()


def test_an_address_does_not_depend_on_the_number_of_slices() -> None:
    assert addresses("dns", 120).tolist() == addresses("dns", 300)[:120].tolist()
    assert [address("dns", s) for s in (0, 7, 299)] == addresses("dns", 300)[[0, 7, 299]].tolist()


def test_a_thousand_addresses_asked_for_one_by_one_cost_one_computation(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    computed: list[int] = []
    salted = slices._salted

    def counting(node: str, first: int, last: int) -> np.ndarray:
        computed.append(last - first)
        return salted(node, first, last)

    monkeypatch.setattr(slices, "_salted", counting)
    found = [address("asked one by one", s) for s in range(1000)]
    assert sum(computed) <= 1024
    assert len(computed) <= 4
    assert found == addresses("asked one by one", 1000).tolist()


@given(st.text(min_size=1, max_size=9), st.integers(0, slices.MAX_SLICES - 1))
@settings(max_examples=30, deadline=None)
def test_the_address_of_a_slice_is_the_one_among_all(node: str, number: int) -> None:
    assert address(node, number) == slices._salted(node, number, number + 1)[0]


@pytest.mark.parametrize("number", [-1, slices.MAX_SLICES])
def test_a_slice_that_cannot_be_has_no_address(number: int) -> None:
    with pytest.raises(ValueError, match="slices"):
        address("dns", number)


def test_addresses_are_those_of_every_release() -> None:
    assert addresses("dns", 3).tolist() == [4013306871191437324, 4013306871191502859, 4013306871191568438]


def test_nodes_do_not_share_addresses() -> None:
    assert not set(addresses("a", 120).tolist()) & set(addresses("b", 120).tolist())


def test_shared_addresses_cannot_be_written() -> None:
    assert not addresses("dns", 120).flags.writeable


@pytest.mark.parametrize("number", [0, 65537])
def test_there_are_1_to_65536_slices(number: int) -> None:
    with pytest.raises(ValueError, match="slices"):
        addresses("dns", number)


@pytest.mark.parametrize("number", [1, 7, 120])
def test_keys_fill_slices_evenly(number: int) -> None:
    ids = slice_of(stable_hash([pl.Series(np.arange(120_000))]), number)
    counts = np.bincount(ids, minlength=number)
    assert ids.dtype == np.int32
    assert len(counts) == number
    assert counts.min() > 0.85 * 120_000 / number
