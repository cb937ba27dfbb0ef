"""Generic responses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from dialog.data.dialogue import SPLITS, Dialogue, Turn
from dialog.data.examples import ExampleRules
from dialog.data.filters import DropOpenPairs
from dialog.data.preparation.filtering import SurveyedFilter, UsableDialogues, filter_block
from dialog.inspection.findings import Finding
from dialog.inspection.inspect import inspect

SIDES = ("target", "source")
rules_with_any_values = st.builds(
    ExampleRules,
    st.none(),
    first_turns=st.booleans(),
    responder=st.sampled_from([None, "A", "B"]),
    merge_turns=st.booleans(),
    reverse=st.booleans(),
)
turns = st.tuples(st.sampled_from("AB"), st.sampled_from("abcd "))


def test_utterances_are_listed_with_their_entropy(find: Callable[..., dict[str, Finding]]) -> None:
    train = [["a", "I see .", "b", "I see ."], ["c", "I see ."], ["d", "e"], ["d", "f"], ["d", "g"]]
    data = find(train=train)["generic"].data
    for side, text in zip(SIDES, ("I see .", "d"), strict=True):
        assert data[side]["top"] == [{"text": text, "bits": round(np.log2(3), 4), "count": 3}]
        assert data[side]["pairs_above"] == 3


def test_a_corpus_without_generic_responses_has_no_empty_table(
    find: Callable[..., dict[str, Finding]],
) -> None:
    finding = find(train=[["a", "b"], ["c", "d"]])["generic"]
    assert finding.details == ()
    assert "dull" not in finding.summary


@settings(max_examples=60)
@given(st.lists(st.lists(turns, max_size=5), max_size=9), rules_with_any_values)
def test_counts_are_what_the_filter_drops(
    make_corpus: Callable[..., Any], dialogues: list[list[tuple[str, str]]], rules: ExampleRules
) -> None:
    corpus = make_corpus(
        train=[
            Dialogue(str(n), tuple(Turn(*turn) for turn in dialogue))
            for n, dialogue in enumerate(dialogues)
        ]
    )
    data = inspect(corpus, rules=rules, quiet=True).findings["generic"].data
    entries = list(corpus.dialogues("train"))

    def responses(filters: list[SurveyedFilter]) -> int:
        return sum(
            len(dialogue.windows) for dialogue in filter_block(0, entries, rules, filters).dialogues
        )

    assert data["pairs"] == responses([])
    for side in SIDES:
        entropy = DropOpenPairs(side=side)
        survey = entropy.survey(
            {split: UsableDialogues(corpus.dialogues, rules, split) for split in SPLITS}
        )
        kept = responses([SurveyedFilter("entropy", entropy, survey)])
        assert data[side]["pairs_above"] == data["pairs"] - kept


def test_an_entropy_at_the_threshold_is_not_above_it(
    find: Callable[..., dict[str, Finding]],
) -> None:
    finding = find(train=[[f"{n % 2} ?", "I see ."] for n in range(22)])["generic"]
    assert (finding.data["target"]["pairs_above"], finding.advice) == (0, "")
