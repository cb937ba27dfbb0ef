"""The mutants fit the code that they are to spoil; ``python tests/mutants/mutants.py`` shows that
each is found.
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from mutant import Edit, Mutant
from mutants import MUTANTS

ROOT = Path(__file__).parents[2]


def test_an_edit_fits_however_its_lines_are_broken() -> None:
    edit = Edit("", "    f(a, b)[c]\n", "    g(a)\n")
    for text in ("if d:\n    f(a, b)[c]\n", "if d:\n    f(\n        a,\n        b,\n    )[c]\n"):
        assert edit.places(text) == 1
        assert edit.apply(text) == "if d:\n    g(a)\n"
    assert edit.places("f(a, bc)[c] + f(a, b, c)[c] + f(a, b)c") == 0


@pytest.mark.endurance
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda each: each.name)
def test_a_mutant_is_one_place_and_one_test(mutant: Mutant) -> None:
    for edit in mutant.edits:
        text = (ROOT / edit.file).read_text(encoding="utf-8")
        assert edit.places(text) == 1, edit.old
        ast.parse(edit.apply(text))
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
