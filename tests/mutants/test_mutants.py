"""The mutants fit the code that they are to spoil; ``python tests/mutants/mutants.py`` shows that
each is found.
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from mutant import Mutant
from mutants import MUTANTS

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda each: each.name)
def test_a_mutant_is_one_place_and_one_test(mutant: Mutant) -> None:
    for edit in mutant.edits:
        text = (ROOT / edit.file).read_text(encoding="utf-8")
        assert text.count(edit.old) == 1, edit.old
        ast.parse(text.replace(edit.old, edit.new))
    file, _, name = mutant.test.partition("::")
    functions = {
        node.name
        for node in ast.parse((ROOT / file).read_text(encoding="utf-8")).body
        if hasattr(node, "name")
    }
    assert name in functions


def test_the_classic_mistakes_are_all_there() -> None:
    names = {each.name for each in MUTANTS}
    groups = {"loss": 6, "attention": 8, "positions": 3, "LSTM": 4, "beam": 7, "sampling": 3}
    assert names >= {
        f"{group}-{number}" for group, count in groups.items() for number in range(1, count + 1)
    }
