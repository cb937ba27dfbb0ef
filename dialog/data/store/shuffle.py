"""Pseudo-random permutations that are computed element by element, so that none is held in
memory.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]
Words = NDArray[np.uint64]
ROUNDS = 6


class Shuffle:
    """A pseudo-random permutation of range(n) for each of several sizes n: a pure function of its
    arguments.

    Each of six rounds is a bijection of the numbers of b binary digits, with b the digits of n - 1:

        x <- (x * odd + added) mod 2^b;   x <- x xor (x >> ceil(b / 2))

    with words `odd` and `added` drawn for each size and round. A result of n or more passes the
    rounds again until it is below n (cycle walking; Black and Rogaway 2002, section 3): less than
    two passes on average. The arithmetic is integer, hence equal on every machine.

    Args:
        sizes: The n of each permutation [C], at least 1.
        seed: Seeds the permutations, together with `epoch`.
        epoch: See `seed`.
    """

    def __init__(self, sizes: Integers, *, seed: int, epoch: int) -> None:
        self._sizes = sizes.astype(np.uint64)
        digits = np.array([int(size - 1).bit_length() for size in sizes.tolist()], dtype=np.uint64)
        one = np.uint64(1)
        self._masks = (one << digits) - one
        self._shifts = (digits + one) >> one
        words = (
            np.random.PCG64([seed, epoch])
            .random_raw(2 * ROUNDS * len(sizes))
            .reshape(ROUNDS, 2, -1)
        )
        words[:, 0] |= one
        self._words: Words = words

    def __call__(self, which: Integers, places: Integers) -> Integers:
        """Return element `places` [K] of the permutations `which` [K]."""
        numbers = self._apply_rounds(which, places.astype(np.uint64))
        outside = np.flatnonzero(numbers >= self._sizes[which])
        while len(outside):
            numbers[outside] = again = self._apply_rounds(which[outside], numbers[outside])
            outside = outside[again >= self._sizes[which[outside]]]
        return numbers.astype(np.int64)

    def _apply_rounds(self, which: Integers, numbers: Words) -> Words:
        masks = self._masks[which]
        shifts = self._shifts[which]
        odd_added: NDArray[Any]
        for odd_added in self._words:
            odd, added = odd_added[:, which]
            numbers = (numbers * odd + added) & masks
            numbers ^= numbers >> shifts
        return numbers
