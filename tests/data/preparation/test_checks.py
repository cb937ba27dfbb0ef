"""Checks of prepared data: ids, dropped records, remarks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dialog.data.dialogue import WARNING, Dialogue, Malformed, Turn
from dialog.data.examples import ExampleRules
from dialog.data.preparation.job import Job
from dialog.data.preparation.merge import ambiguous
from dialog.data.preparation.prepare import prepare
from dialog.data.store.store import Store
from dialog.errors import UserError

Jobs = Callable[..., Job]
Dialogues = Callable[..., Dialogue]
Corpora = Callable[..., object]


def test_an_id_has_one_text(
    tmp_path: Path, job: Jobs, in_memory: Corpora, dialogue: Dialogues
) -> None:
    same = [dialogue("x", "a", "b"), dialogue("y", "c", "d"), dialogue("x", "a", "b")]
    assert len(Store(prepare(job(in_memory(*same)), tmp_path), "train")) == 3
    first, other = dialogue("x", "a", "b", place="f:1"), dialogue("x", "a", "e", place="f:3")
    persona = replace(dialogue("x", "a", "b", place="f:3"), facts=(Turn("A", "I knit ."),))
    for entries in ((first, dialogue("y", "c", "d"), other), (first, persona)):
        with pytest.raises(
            UserError, match=r"f:3: the id 'x' occurs twice in train, with other text at f:1"
        ):
            prepare(job(in_memory(*entries)), tmp_path)


marks = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 2)), min_size=1, max_size=20)


@given(marks, st.integers(1, 8))
def test_an_ambiguous_id_is_found_in_any_chunks(marks: list[tuple[int, int]], at_once: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("dialog.data.preparation.merge.MARKS_AT_ONCE", at_once)
        found = ambiguous(np.array(marks, dtype=np.uint64).reshape(-1, 2))
    expected = {
        id for id, text in marks for other, others in marks if id == other and text != others
    }
    assert found in expected if expected else found is None


def test_too_many_dropped_records_are_an_error_with_place(
    tmp_path: Path, job: Jobs, in_memory: Corpora, dialogue: Dialogues
) -> None:
    entries = [
        *(dialogue(f"{n}", "a", "b") for n in range(97)),
        Malformed("f:98: broken"),
        Malformed("f:99: too"),
    ]
    corpus = in_memory(*entries, dialogue("empty"))
    for fraction in (1.0, 0.03):
        prepare(job(corpus, max_dropped=fraction), tmp_path)
    with pytest.raises(
        UserError,
        match=r"train: 3 of 100 dialogues are malformed or empty, .*=0\.02 .*f:98: broken",
    ):
        prepare(job(corpus, max_dropped=0.02), tmp_path)
    odd = dialogue("odd", "a", "b", meta={WARNING: "f:1: odd"})
    gaps = in_memory(odd, dialogue("gaps", *(["a", "b"] * 8), "a", " ", "b", place="f:7"))
    with pytest.raises(
        UserError, match=r"train: 1 of 21 turns are empty.*; first: f:7: 1 of 19 turns are empty"
    ):
        prepare(job(gaps, max_dropped=0.04), tmp_path)


def test_an_unknown_responder_is_an_error_with_the_speakers(
    tmp_path: Path, job: Jobs, in_memory: Corpora, dialogue: Dialogues
) -> None:
    unknown = job(in_memory(Malformed("f:1: broken"), dialogue("x", "a", "b")))
    unknown = replace(unknown, rules=ExampleRules(3, False, responder="Bot", malformed="drop"))
    with pytest.raises(
        UserError, match=r"train gives no example .* data\.responder to .* speakers: 'A', 'B'$"
    ):
        prepare(unknown, tmp_path)


def test_the_first_remarks_are_kept(
    tmp_path: Path, job: Jobs, in_memory: Corpora, dialogue: Dialogues
) -> None:
    odd = dialogue("odd", "a", "b", meta={WARNING: "f:1: odd"})
    corpus = in_memory(odd, *(Malformed(f"f:{n}: broken") for n in range(2, 20)))
    store = Store(prepare(job(corpus), tmp_path), "train")
    assert store.manifest["remarks"]["train"] == {
        "warnings": ["f:1: odd"],
        "malformed": [f"f:{n}: broken" for n in range(2, 7)],
    }
    assert store.counts["dropped dialogues: malformed"] == 18
    assert store.counts["warnings"] == 1
