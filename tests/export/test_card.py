"""The card's code lays a context out as training does, and no text of a run becomes markup or
code.
"""

from __future__ import annotations

import ast
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer

from dialog.data.store.layout import LAYOUTS
from dialog.export.card import card, literal, source_code
from dialog.export.formats.ctranslate2 import CTranslate2
from dialog.runs.run import Run

CONTEXTS = st.lists(st.text("a e.?\n \u00e9</s>", max_size=12), min_size=1, max_size=6)


@pytest.fixture(scope="module")
def run(trained_run: Callable[[str], Run]) -> Run:
    return trained_run("transformer")


def with_data(run: Run, **data: object) -> Run:
    return replace(run, recipe=replace(run.recipe, data=replace(run.recipe.data, **data)))


@settings(max_examples=60)
@given(
    context=CONTEXTS,
    layout=st.sampled_from(LAYOUTS),
    context_turns=st.sampled_from([None, 0, 1, 2, 3]),
    max_source=st.integers(1, 30),
    normalise=st.booleans(),
    silence=st.sampled_from([None, "", "__SILENCE__ `\\", " a "]),
)
def test_the_source_is_that_of_training(run: Run, context: list[str], **data: object) -> None:
    changed = with_data(run, **data)
    tokenizer = Tokenizer.from_str(run.tokenizer.json)
    tokenizer.encode_special_tokens = True
    names: dict[str, Any] = {"tokenizer": tokenizer}
    exec(source_code(changed), names)  # the code that a user copies from the card
    responder = changed.responder
    assert names["source_ids"](context) == responder.encode(responder.example(context))[0]


@given(st.text())
def test_a_literal_is_the_text_and_ends_no_code_block(text: str) -> None:
    assert ast.literal_eval(literal(text)) == text
    assert "`" not in literal(text)
    assert literal(text).isascii()


def test_texts_of_a_run_are_text(run: Run) -> None:
    hostile = "<script>x</script> [a](http://b) `c`"
    changed = replace(with_data(run, corpus={"name": hostile}), name=hostile)
    text = card(changed, CTranslate2(), "equal")
    assert "<script>" not in text
    assert "[a](http" not in text
    assert "http://b" not in text


def test_results_of_the_test_split_are_shown(run: Run, tmp_path: Path) -> None:
    assert "| Bits per byte |" in card(run, CTranslate2(), "equal")
    assert "Bits per byte" not in card(replace(run, folder=tmp_path), CTranslate2(), "equal")


def test_results_of_other_weights_or_searches_are_left_out(run: Run, tmp_path: Path) -> None:
    generation = replace(run.recipe.generation, max_length=3)
    assert "## Results" not in card(
        replace(run, recipe=replace(run.recipe, generation=generation)), CTranslate2(), ""
    )
    folder = Path(shutil.copytree(run.folder, tmp_path / "run"))
    assert "## Results" in card(replace(run, folder=folder), CTranslate2(), "equal")
    with (folder / "model.safetensors").open("ab") as weights:
        weights.write(b" ")
    assert "## Results" not in card(replace(run, folder=folder), CTranslate2(), "equal")
