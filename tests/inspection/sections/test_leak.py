"""Leaks between splits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import starmap
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from dialog.data.dialogue import SPLITS, Dialogue, Turn
from dialog.data.examples import ExampleRules
from dialog.data.filters import DropLeakingDialogues
from dialog.data.preparation.filtering import UsableDialogues
from dialog.data.text_matching.leaks import LeakDetector, hash_long_pairs
from dialog.inspection.findings import Finding
from dialog.inspection.inspect import inspect

SHARED = ["Where is the hat ?", "On the big table ."]
utterances = st.sampled_from(
    ["Hi .", "Where is the hat ?", "where is  the hat ?", "On the big table !", " "]
)
dialogues = st.lists(st.tuples(st.sampled_from("AB"), utterances), max_size=4)
corpora = st.fixed_dictionaries({split: st.lists(dialogues, max_size=5) for split in SPLITS})


def _dialogue(number: int, turns: list[tuple[str, str]]) -> Dialogue:
    return Dialogue(str(number), tuple(starmap(Turn, turns)))


@settings(max_examples=50)
@given(corpora, st.booleans(), st.booleans())
def test_leaks_are_those_of_filter_and_evaluation(
    make_corpus: Callable[..., Any],
    texts: dict[str, list[list[tuple[str, str]]]],
    merge_turns: bool,
    reverse: bool,
) -> None:
    corpus = make_corpus(
        **{split: list(starmap(_dialogue, enumerate(texts[split]))) for split in SPLITS}
    )
    rules = ExampleRules(None, first_turns=False, merge_turns=merge_turns, reverse=reverse)
    data = inspect(corpus, rules=rules, quiet=True).findings["leak"].data
    usable = {
        split: [item for _, item in UsableDialogues(corpus.dialogues, rules, split)]
        for split in SPLITS
    }
    for split in ("validation", "test"):
        detector = LeakDetector(usable[split])
        for dialogue in usable["train"]:
            detector.add_training(hash_long_pairs(dialogue))
        assert (data[split]["clean"], data[split]["leaked"]) == detector.report()
    leaking = DropLeakingDialogues()
    survey = leaking.survey({split: list(enumerate(usable[split])) for split in SPLITS})
    dropped = [dialogue for dialogue in usable["train"] if leaking.drops(survey, 0, dialogue)]
    assert data["train"]["leaking"] == len(dropped)
    assert data["train"]["turns_kept"] == sum(
        len(item.turns) for item in usable["train"] if item not in dropped
    )


def test_a_leak_is_bad_and_names_the_filter(find: Callable[..., dict[str, Finding]]) -> None:
    test = [["x", *SHARED], ["y", "z"]]
    finding = find(train=[SHARED, ["a", "b"]], validation=[["c", "d"]], test=test)["leak"]
    assert finding.severity == "bad"
    assert (finding.data["test"]["clean"], finding.data["test"]["leaked"]) == (
        ["test-1"],
        ["test-0"],
    )
    assert (
        "data.filters=[{name: drop_leaking_dialogues}] drops 1 of 2 training dialogues. Report"
        in finding.advice
    )
    assert (
        "drops 1 of 1 training dialogues; split the corpus again"
        in find(train=[SHARED], test=test)["leak"].advice
    )
    assert find(train=[["a", "b"]], test=[SHARED])["leak"].severity == "good"


def test_unspaced_scripts_need_more_words(find: Callable[..., dict[str, Finding]]) -> None:
    shared, other = ["好的，非常感谢您的帮助。", "不用客气！"], ["帽子在哪里？", "在那张大桌子上。"]
    finding = find(train=[shared], validation=[other], test=[shared, ["Well ?", "Hm ."]])["leak"]
    assert "minimum_words: 8" in finding.advice
    finding = find(train=[SHARED], validation=[SHARED], test=[other, SHARED])["leak"]
    assert finding.advice
    assert "minimum_words" not in finding.advice


def test_a_pair_inside_a_merged_turn_is_no_leak(make_corpus: Callable[..., Any]) -> None:
    def dialogue(id: str, *texts: str) -> Dialogue:
        return Dialogue(
            id, tuple(Turn(speaker, text) for speaker, text in zip("AABB", texts, strict=True))
        )

    corpus = make_corpus(
        train=[dialogue("train", *SHARED, "a", "b")], test=[dialogue("test", *SHARED, "c", "d")]
    )
    rules = ExampleRules(None, first_turns=False)
    leaks = [
        inspect(corpus, rules=replace(rules, merge_turns=merge_turns), quiet=True).findings["leak"]
        for merge_turns in (False, True)
    ]
    assert [finding.data["train"]["leaking"] for finding in leaks] == [1, 0]
