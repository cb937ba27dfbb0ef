"""The mutants fit the code that they are to spoil; ``python tests/mutants/mutants.py`` shows that each is found."""

import ast
import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
spec = importlib.util.spec_from_file_location("mutants", Path(__file__).with_name("mutants.py"))
mutants = importlib.util.module_from_spec(spec)
spec.loader.exec_module(mutants)


@pytest.mark.parametrize("mutant", mutants.MUTANTS, ids=lambda each: each.name)
def test_a_mutant_is_one_place_and_one_test(mutant: "mutants.Mutant") -> None:
    for edit in mutant.edits:
        text = (ROOT / edit.file).read_text(encoding="utf-8")
        assert text.count(edit.old) == 1, edit.old
        ast.parse(text.replace(edit.old, edit.new))
    file, _, name = mutant.test.partition("::")
    functions = {
        node.name for node in ast.parse((ROOT / file).read_text(encoding="utf-8")).body if hasattr(node, "name")
    }
    assert name in functions


def test_the_classic_mistakes_are_all_there() -> None:
    names = {each.name for each in mutants.MUTANTS}
    groups = {"loss": 6, "attention": 8, "positions": 3, "LSTM": 4}
    assert names >= {f"{group}-{number}" for group, count in groups.items() for number in range(1, count + 1)}
