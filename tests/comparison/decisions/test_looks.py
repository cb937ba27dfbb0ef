"""Looks at new seeds: counted, recorded and paid for."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy.stats import ttest_ind

from dialog.comparison.decisions.family import NullHypothesis
from dialog.comparison.decisions.looks import LOOKS, Look, read_looks, spend, write_looks
from dialog.errors import UserError

TEST = NullHypothesis("a", "b", "f1")
OTHER = NullHypothesis("a", "c", "f1")


def look(number: int, p: float, test: NullHypothesis = TEST) -> Look:
    return Look("", {"a": range(number), "b": range(number), "c": range(number)}, {test: p})


def test_the_first_planned_looks_count() -> None:
    first = spend(look(3, 0.2), [], 1)
    assert (first.p_values[TEST], len(first.looks), first.late) == (0.2, 1, set())
    again = spend(look(3, 0.19), first.looks, 1)  # the same seeds, rounded in another order
    assert (again.p_values[TEST], again.looks) == (0.19, first.looks)
    second = spend(look(5, 0.001), first.looks, 1)
    assert (second.p_values[TEST], len(second.looks), second.late) == (0.2, 2, {("a", "b")})
    planned = spend(look(5, 0.001), first.looks, 3)
    assert planned.p_values[TEST] == pytest.approx(0.003)
    assert planned.late == set()
    assert spend(look(3, 0.2), second.looks, 1).late == set()
    assert spend(look(9, 0.9), planned.looks, 3).p_values[TEST] == pytest.approx(0.003)


def test_another_contender_is_no_look_of_a_pair() -> None:
    before = spend(look(3, 0.02), [], 1)
    both = Look("", look(3, 0).seeds, {TEST: 0.02, OTHER: 0.01})
    after = spend(both, before.looks, 1)
    assert after.p_values == {TEST: 0.02, OTHER: 0.01}
    assert [*after.looks[1].p_values] == [OTHER]


def test_one_run_is_another_hypothesis_than_its_architecture() -> None:
    run = spend(look(1, 0.001), [], 1)
    seeds = spend(look(3, 0.04), run.looks, 1)
    assert (seeds.p_values[TEST], seeds.late) == (0.04, set())


def test_looks_are_kept_in_a_file(tmp_path: Path) -> None:
    assert read_looks(tmp_path) == []
    looks = spend(look(5, 0.1), [look(3, 0.2)], 2).looks
    write_looks(tmp_path, [one.entry for one in looks])
    assert [one.entry for one in read_looks(tmp_path)] == [one.entry for one in looks]
    for line in ('{"date": ""}', "{", '{"date": "", "seeds": [], "tests": []}'):
        (tmp_path / LOOKS).write_text(line + "\n", encoding="utf-8")
        with pytest.raises(UserError, match=f"{LOOKS}:1"):
            read_looks(tmp_path)


@pytest.mark.parametrize("planned", [1, 3])
def test_seeds_are_added_until_something_is_decided(planned: int) -> None:
    """Equally good systems: wrong decisions stay at 5 %, however long seeds are added."""
    generator = np.random.default_rng(8)
    wrong = 0
    a, b = generator.normal(0, 1, (2, 400, 8))
    p_values = {n: ttest_ind(a[:, :n], b[:, :n], axis=1).pvalue for n in range(2, 8)}
    for place in range(400):
        looks: list[Look] = []
        for number, p in p_values.items():
            spent = spend(look(number, float(p[place])), looks, planned)
            looks = spent.looks
            if spent.p_values[TEST] <= 0.05:
                wrong += 1
                break
    assert wrong / 400 <= 0.07
