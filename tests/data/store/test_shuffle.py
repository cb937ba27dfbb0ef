"""Permutations computed element by element are permutations, and uniform."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from dialog.data.store.plan import Shuffle

Integers = NDArray[np.int64]


def permutations(size: int, *, count: int) -> Integers:
    """Return the permutations of a range in `count` epochs [count, size]."""
    nothing, places = np.zeros(size, dtype=np.int64), np.arange(size)
    return np.stack(
        [Shuffle(np.array([size]), seed=7, epoch=epoch)(nothing, places) for epoch in range(count)]
    )


@given(
    st.lists(st.integers(1, 300), min_size=1, max_size=4), st.integers(0, 2**63), st.integers(0, 99)
)
def test_each_range_is_permuted(sizes: list[int], seed: int, epoch: int) -> None:
    shuffle = Shuffle(np.array(sizes), seed=seed, epoch=epoch)
    for which, size in enumerate(sizes):
        order = shuffle(np.full(size, which), np.arange(size))
        assert sorted(order.tolist()) == list(range(size))


@given(st.lists(st.integers(1, 2**40), min_size=1, max_size=5), st.integers(0, 9), st.data())
def test_elements_are_independent_of_each_other(
    sizes: list[int], epoch: int, data: st.DataObject
) -> None:
    shuffle = Shuffle(np.array(sizes), seed=1, epoch=epoch)
    which = np.array(data.draw(st.lists(st.integers(0, len(sizes) - 1), min_size=1, max_size=9)))
    places = np.array([data.draw(st.integers(0, sizes[index] - 1)) for index in which])
    together = shuffle(which, places)
    alone = [int(shuffle(which[[k]], places[[k]])[0]) for k in range(len(which))]
    assert together.tolist() == alone
    assert (together >= 0).all()
    assert (together < np.array(sizes)[which]).all()


@pytest.mark.parametrize("size", [2, 3, 8, 24, 97])
def test_positions_are_uniform(size: int) -> None:
    count = 2000
    found = permutations(size, count=count)
    tables = [np.bincount(found[:, place], minlength=size) for place in range(size)]
    expected = count / size
    chi_square = float(((np.stack(tables) - expected) ** 2 / expected).sum())
    freedom = (size - 1) ** 2
    assert chi_square < freedom + 5 * np.sqrt(2 * freedom)


@pytest.mark.parametrize("size", [128, 1000])
def test_neighbours_are_separated(size: int) -> None:
    """No distance of neighbours is more frequent than in drawn permutations."""

    def most_frequent(found: Integers) -> float:
        steps = np.diff(found, axis=1) % size
        return float(np.mean([np.bincount(row).max() for row in steps]))

    random = np.random.default_rng(0)
    drawn = np.stack([random.permutation(size) for _ in range(200)])
    assert most_frequent(permutations(size, count=200)) < 1.1 * most_frequent(drawn)


def test_seeds_epochs_and_ranges_differ() -> None:
    places, nothing = np.arange(50), np.zeros(50, dtype=np.int64)
    found = {
        tuple(Shuffle(np.array([50, 50]), seed=seed, epoch=epoch)(nothing + which, places).tolist())
        for seed in range(3)
        for epoch in range(3)
        for which in range(2)
    }
    assert len(found) == 18
