"""Exact duplicates."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from dialog.data.dialogue import SPLITS
from dialog.data.examples import ExampleRules
from dialog.inspection.findings import Finding
from dialog.inspection.inspect import inspect

Corpora = dict[str, list[list[str]]]
utterances = st.sampled_from(
    ["Hi .", "hi", "Where is the hat ?", "where is  the hat ?", "On the big table !", "", " "]
)
corpora = st.fixed_dictionaries(
    {split: st.lists(st.lists(utterances, max_size=4), max_size=5) for split in SPLITS}
)
NORMALISATIONS: dict[str, Callable[[str], str]] = {
    "verbatim": lambda text: " ".join(text.split()),
    "letters": lambda text: re.sub("[^a-z]", "", text.lower()),
}


def units(
    texts: list[str], normalise: Callable[[str], str], rules: ExampleRules
) -> dict[str, list[Any]]:
    """Return the units of a dialogue that can be duplicates; none if the dialogue gives no
    example.
    """
    turns = [(text, "AB"[index % 2]) for index, text in enumerate(texts) if text.strip()]
    said = [normalise(text) for text, _ in turns]
    first = 0 if rules.first_turns else 1
    responses = [
        i
        for i, (_, speaker) in enumerate(turns)
        if i >= first and rules.responder in (None, speaker)
    ]
    replies = [i for i in responses if i > 0]
    return {
        "dialogues": [tuple(said)] if responses else [],
        "contexts": [tuple(said[: i + 1]) for i in replies],
        "pairs": [tuple(said[i - 1 : i + 1]) for i in replies],
        "responses": [said[i] for i in replies],
    }


@settings(max_examples=50)
@given(corpora, st.booleans(), st.sampled_from([None, "A", "B"]))
def test_counts_equal_comparisons_of_texts(
    make_corpus: Callable[..., Any], corpus: Corpora, first_turns: bool, responder: str | None
) -> None:
    rules = ExampleRules(None, first_turns, responder)
    data = inspect(make_corpus(**corpus), rules=rules, quiet=True).findings["duplicates"].data
    for name, normalise in NORMALISATIONS.items():
        counts = data["normalisations"][name]
        all_units = {
            split: [units(texts, normalise, rules) for texts in corpus[split]] for split in SPLITS
        }
        for unit in ("dialogues", "contexts", "pairs", "responses"):
            train, validation, test = (
                [text for dialogue in all_units[split] for text in dialogue[unit]]
                for split in SPLITS
            )
            assert counts["in_train"]["validation"][unit] == sum(
                text in train for text in validation
            )
            assert counts["in_train"]["test"][unit] == sum(text in train for text in test)
            assert counts["in_validation"]["test"][unit] == sum(text in validation for text in test)
            assert counts["in_train_or_validation"]["test"][unit] == sum(
                text in train + validation for text in test
            )
            for split, texts in zip(SPLITS, (train, validation, test), strict=True):
                assert counts["repeated"][split][unit] == len(texts) - len(set(texts))
                assert counts["totals"][split][unit] == len(texts)
            if unit == "dialogues":
                assert data["distinct_dialogues"][name] == len({*train, *validation, *test})


def test_duplicates_are_quoted_with_both_locations(find: Callable[..., dict[str, Finding]]) -> None:
    train = [["a", "b"], ["c", "d"], ["c", "d"]]
    finding = find(train=train, test=[["e", "f"], ["c", " d"]])["duplicates"]
    assert finding.details[-1] == (
        "test-1 (test.txt:1) equals train-1 (train.txt:1)",
        (("A", "c"), ("B", " d")),
    )
    assert "data.filters=[{name: drop_duplicates}]" in finding.advice


def test_a_duplicate_of_validation_and_test_is_bad(find: Callable[..., dict[str, Finding]]) -> None:
    finding = find(train=[["a", "b"]], validation=[["e", "f"], ["c", "d"]], test=[["c", "d"]])[
        "duplicates"
    ]
    assert finding.severity == "bad"
    assert finding.headline == "1 test dialogue in train or validation; 0 duplicates within train"
    assert finding.details[-1] == (
        "test-0 (test.txt:0) equals validation-1 (validation.txt:1)",
        (("A", "c"), ("B", "d")),
    )
    assert finding.advice.startswith("Remove test dialogues from validation")


def test_headlines_show_the_worst_split(find: Callable[..., dict[str, Finding]]) -> None:
    words = [
        "seven",
        "parrots",
        "asked",
        "me",
        "where",
        "the",
        "red",
        "hat",
        "on",
        "the",
        "table",
        "was",
    ]
    train = [[f"{n} {' '.join(words)}", f"{' '.join(words[::-1])} {n}"] for n in range(4)]
    findings = find(train=train, validation=train, test=[["a new question", "a new answer"]])
    assert (
        findings["duplicates"].headline
        == "4 validation dialogues in train; 0 duplicates within train"
    )
    assert findings["leak"].headline.startswith("4 (100.0 %) of validation dialogues share")
    assert findings["near_duplicates"].headline.startswith(
        "4 (100.0 %) of validation dialogues in train"
    )
    for name in ("duplicates", "leak", "near_duplicates"):
        assert findings[name].severity == "bad"
        assert "drop_leaking_dialogues" in findings[name].advice
