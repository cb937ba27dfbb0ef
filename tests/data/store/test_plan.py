"""Laws of a plan, for any lengths, budget and world size."""

from __future__ import annotations

import tracemalloc
from collections import Counter
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from numpy.typing import NDArray

from dialog.data.store.length_classes import (
    GROUPINGS,
    STATIC_SOURCE,
    STATIC_TARGET,
    LengthClasses,
    by_length,
    grouped,
    static_classes,
    static_length,
)
from dialog.data.store.plan import Plan
from dialog.errors import UserError

Integers = NDArray[np.int64]


class Case(NamedTuple):
    sources: Integers
    targets: Integers
    budget: int
    seed: int
    shuffle: bool
    world: int
    accumulate: int = 1
    static: bool = False

    def ranks(self, epoch: int) -> list[list[Integers]]:
        """Return the batches of every rank."""
        return [list(self.plan(epoch, rank).batches()) for rank in range(self.world)]

    def plan(self, epoch: int, rank: int) -> Plan:
        """Return the plan of a rank."""
        return Plan(
            self.classes(),
            budget=self.budget,
            seed=self.seed,
            epoch=epoch,
            shuffle=self.shuffle,
            rank=rank,
            world=self.world,
            accumulate=self.accumulate,
        )

    def classes(self) -> LengthClasses:
        """Return the rows by length."""
        classes = by_length(self.sources, self.targets)
        return static_classes(classes) if self.static else classes

    def cost(self, rows: Integers) -> int:
        """Return the tokens of a batch, with padding."""
        return len(rows) * sum(self.lengths(rows))

    def lengths(self, rows: Integers) -> tuple[int, int]:
        """Return source and target length of a batch, with padding."""
        source, target = int(self.sources[rows].max()), int(self.targets[rows].max())
        if self.static:
            return static_length(source, STATIC_SOURCE), static_length(target, STATIC_TARGET)
        return source, target


lengths = st.lists(st.tuples(st.integers(1, 90), st.integers(1, 30)), min_size=1, max_size=80)
cases = st.builds(
    lambda pairs, *rest: Case(*(np.array(column) for column in zip(*pairs, strict=True)), *rest),
    lengths,
    st.integers(121, 600),
    st.integers(0, 2**32),
    st.booleans(),
    st.integers(1, 4),
    st.integers(1, 3),
    st.booleans(),
)


@example(Case(np.array([1, 1, 29, 65, 65]), np.array([17, 23, 1, 1, 2]), 162, 0, True, 1), 0)
@given(cases, st.integers(0, 3))
def test_each_example_once_in_equal_numbers_of_full_batches(case: Case, epoch: int) -> None:
    try:
        ranks = case.ranks(epoch)
    except UserError:
        whole, group = (
            case._replace(world=1, accumulate=1).ranks(epoch)[0],
            case.world * case.accumulate,
        )
        assert -(-len(whole) // group) * group > len(case.sources), "a division exists"
        return
    rows = np.concatenate([rows for batches in ranks for rows in batches])
    assert sorted(rows.tolist()) == list(range(len(case.sources)))
    assert len({len(batches) for batches in ranks}) == 1
    assert len(ranks[0]) % case.accumulate == 0
    assert all(
        len(rows) == 1 or case.cost(rows) <= case.budget for batches in ranks for rows in batches
    )
    assert {len(batches) for later in range(4) for batches in case.ranks(later)} == {len(ranks[0])}


@given(cases, st.integers(0, 3))
def test_a_step_depends_on_world_times_accumulate(case: Case, epoch: int) -> None:
    """Two ranks read in a step what one rank reads that accumulates two batches."""

    def steps(world: int, accumulate: int) -> list[list[list[int]]]:
        ranks = case._replace(world=world, accumulate=accumulate).ranks(epoch)
        flat = [[rows.tolist() for rows in batches] for batches in ranks]
        length = len(flat[0]) // accumulate
        parts = [
            [batches[step * accumulate : (step + 1) * accumulate] for batches in flat]
            for step in range(length)
        ]
        return [sorted(rows for batches in step for rows in batches) for step in parts]

    try:
        whole = steps(4, 1)
    except UserError:
        return
    assert steps(2, 2) == steps(1, 4) == whole


@given(cases, st.integers(0, 3), st.data())
def test_batches_from_any_position(case: Case, epoch: int, data: st.DataObject) -> None:
    case = case._replace(world=1, accumulate=1)
    plan = case.plan(epoch, 0)
    batches = [rows.tolist() for rows in plan.batches()]
    assert len(plan) == len(batches)
    position = data.draw(st.integers(0, len(plan) - 1))
    assert plan.rows(position).tolist() == batches[position]
    assert [rows.tolist() for rows in plan.batches(position)] == batches[position:]
    assert list(plan.batches(len(plan))) == []


@given(cases)
def test_padded_is_an_upper_bound(case: Case) -> None:
    case = case._replace(world=1, accumulate=1)
    padded, real = case.plan(0, 0).padded, int((case.sources + case.targets).sum())
    assert real <= sum(map(case.cost, case.ranks(0)[0])) <= padded


@given(cases)
def test_a_plan_is_deterministic(case: Case) -> None:
    case = case._replace(world=1, accumulate=1)
    (one,), (two,) = case.ranks(1), case.ranks(1)
    assert [rows.tolist() for rows in one] == [rows.tolist() for rows in two]
    if not case.shuffle:
        (other,) = case._replace(seed=case.seed + 1).ranks(2)
        assert [rows.tolist() for rows in one] == [rows.tolist() for rows in other]


@given(st.lists(st.integers(1, 900), min_size=1, max_size=20), st.integers(1, 100))
def test_rows_longer_than_the_budget_are_alone(sources: list[int], budget: int) -> None:
    case = Case(np.array(sources), np.full(len(sources), 5), budget, 0, True, 1)
    for rows in case.ranks(0)[0]:
        assert len(rows) == 1 or case.cost(rows) <= budget


def realistic(count: int) -> tuple[Integers, Integers]:
    """Return lengths like three turns and a reply of everyday conversation, with long tails."""
    random = np.random.default_rng(0)
    turns = np.minimum(
        np.maximum(1, random.lognormal(2.4, 0.7, size=(count, 4)).astype(np.int64)), 200
    )
    context = np.arange(count) % 8
    sources = sum(np.where(context > turn, turns[:, turn] + 1, 0) for turn in range(3)) + 1
    return np.minimum(sources, 256), turns[:, 3] + 1


@pytest.mark.parametrize("budget", [1024, 4096, 8192])
@pytest.mark.parametrize("world", [1, 8])
def test_batches_are_full_with_little_padding(budget: int, world: int) -> None:
    sources, targets = realistic(80_000)
    case = Case(sources, targets, budget, 0, True, world)
    batches = [rows for rank in case.ranks(0) for rows in rank]
    padded = sum(map(case.cost, batches))
    assert 1 - (sources.sum() + targets.sum()) / padded < 0.10
    assert padded / (len(batches) * budget) > 0.93


@pytest.mark.parametrize("world", [1, 8])
def test_static_batches_repeat_few_shapes(world: int) -> None:
    """Every source and target length has its own number of rows; classes end in few batches."""
    sources, targets = realistic(80_000)
    case = Case(sources, targets, 4096, 0, True, world, static=True)
    batches = [rows for rank in case.ranks(0) for rows in rank]
    shapes = Counter((len(rows), *case.lengths(rows)) for rows in batches)
    full = {shape for shape in shapes if shape[0] == max(1, 4096 // sum(shape[1:]))}
    lengths = {shape[1:] for shape in shapes}
    assert len(full) <= len(lengths) <= (256 // 16) * (208 // 8) / 4
    assert len(shapes) - len(full) <= 40
    assert sum(shapes[shape] for shape in full) > 0.97 * len(batches)
    padded = sum(map(case.cost, batches))
    assert 1 - (sources.sum() + targets.sum()) / padded < 0.25


def test_epochs_and_seeds_shuffle_differently() -> None:
    sources, targets = realistic(20_000)
    case = Case(sources, targets, 4096, 0, True, 1)

    def mates(rows: list[Integers]) -> set[tuple[int, int]]:
        pairs = (
            (min(pair), max(pair))
            for batch in rows
            for pair in zip(batch[1:].tolist(), batch.tolist(), strict=False)
        )
        return set(pairs)

    (first,), (second,), (other,) = case.ranks(0), case.ranks(1), case._replace(seed=1).ranks(0)
    for later in (second, other):
        assert len(mates(first) & mates(later)) < 0.2 * len(mates(first))
        batches = (
            [frozenset(rows.tolist()) for rows in first],
            {frozenset(rows.tolist()) for rows in later},
        )
        assert sum(batch in batches[1] for batch in batches[0]) < 0.2 * len(batches[0])
    by_length = [case.sources[rows].max() for rows in first]
    assert abs(np.corrcoef(by_length, np.arange(len(by_length)))[0, 1]) < 0.2, (
        "batches come in order of length"
    )


def test_ranks_get_batches_of_like_cost_at_a_step() -> None:
    sources, targets = realistic(20_000)
    case = Case(sources, targets, 2048, 0, True, 4)
    costs = np.array([[case.cost(rows) for rows in rank] for rank in case.ranks(0)])
    assert (costs.max(0) / costs.mean(0)).mean() < 1.02


def test_too_few_examples_are_an_error() -> None:
    ones = np.ones(3, dtype=np.int64)
    with pytest.raises(UserError, match=r"3 examples are too few for 4 processes"):
        Plan(by_length(ones, ones), budget=10, world=4)
    with pytest.raises(
        UserError,
        match=r"3 examples .* 2 x 2 batches per step; .* trainer\.accumulate_grad_batches",
    ):
        Plan(by_length(ones, ones), budget=10, world=2, accumulate=2)
    with pytest.raises(
        UserError, match=r"data\.batch_tokens: 3 examples in 3 batches .* steps of 2 batches each"
    ):
        Plan(by_length(ones, ones), budget=2, world=2)


def test_equal_lengths_fill_the_budget_exactly() -> None:
    case = Case(np.full(100, 8), np.full(100, 2), 200, 0, True, 1)
    assert Counter(len(rows) for rows in case.ranks(0)[0]) == {20: 5}


def test_memory_does_not_grow_with_the_rows() -> None:
    rows = 10**9
    order = np.broadcast_to(np.uint32(0), rows)  # no memory
    classes = LengthClasses(np.array([16, 32]), np.array([8, 8]), np.array([rows // 2] * 2), order)
    tracemalloc.start()
    plan = Plan(classes, budget=2**22, shuffle=True, world=2)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < rows / 100
    assert len(plan) * 2 * 2**22 > rows // 2 * (24 + 40)


@given(cases, st.sampled_from(GROUPINGS), st.integers(1, 9))
def test_batches_by_examples_have_equal_size(case: Case, grouping: str, examples: int) -> None:
    classes = grouped(case.classes(), grouping)
    plans = [
        Plan(classes, budget=1, examples=examples, seed=case.seed, epoch=epoch, shuffle=True)
        for epoch in range(2)
    ]
    for plan in plans:
        batches = list(plan.batches())
        assert sorted(np.concatenate(batches).tolist()) == list(range(len(case.sources)))
        assert sorted(map(len, batches), reverse=True)[: len(batches) - 1] == [examples] * (
            len(batches) - 1
        )
        assert plan.padded >= sum(map(case.cost, batches))


def test_grouping_decides_which_lengths_share_a_batch() -> None:
    sources, targets = (
        column.ravel() for column in np.meshgrid(np.arange(1, 9), np.tile(np.arange(1, 9), 8))
    )
    spreads = {}
    for grouping in GROUPINGS:
        plan = Plan(
            grouped(by_length(sources, targets), grouping),
            budget=1,
            examples=8,
            seed=1,
            shuffle=True,
        )
        batches = list(plan.batches())
        spreads[grouping] = [
            np.mean([np.ptp(lengths[rows]) for rows in batches]) for lengths in (sources, targets)
        ]
    assert spreads["both"] == [0, 0]
    assert spreads["source"][0] == 0
    assert min(spreads["source"][1], *spreads["none"]) > 4
