"""Records: malformed ones, and dialogues with missing turns, warnings or duplicate ids."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from dialog.data.dialogue import SPLITS, WARNING, Dialogue, Malformed, Turn
from dialog.data.examples import ExampleRules
from dialog.inspection.findings import Finding
from dialog.inspection.inspect import inspect

PAIR = [["a", "b"]]


def test_malformed_records_are_counted_and_quoted(find: Callable[..., dict[str, Finding]]) -> None:
    odd = Dialogue("odd", (Turn("A", "a"), Turn("B", " ")), {WARNING: "x.txt:3: odd"})
    empty = Dialogue("odd", (Turn("A", ""),))
    finding = find(train=[Malformed("x.txt:1: not JSON"), odd, empty, *PAIR], test=PAIR)["records"]
    assert finding.data["train"] == {
        "malformed": 1,
        "dialogues": 3,
        "empty_dialogues": 1,
        "unused_dialogues": 0,
        "empty_turns": 2,
        "warnings": 1,
        "repeated_ids": 1,
    }
    assert finding.data["first_malformed"] == ["x.txt:1: not JSON"]
    assert finding.data["first_warnings"] == ["x.txt:3: odd"]
    assert finding.severity == "bad"
    assert (
        finding.headline
        == "malformed records: 1; duplicate ids within a split: 1; no examples in validation"
    )


@pytest.mark.parametrize(
    ("dialogue", "headline", "advice"),
    [
        (
            Dialogue("x", (Turn("A", "a"), Turn("B", "b")), {WARNING: "odd"}),
            "dialogues read with a warning: 1",
            "read",
        ),
        (
            Dialogue("x", (Turn("A", "a"), Turn("B", " "), Turn("B", "b"))),
            "turns without text: 1",
            "missing",
        ),
        (
            Dialogue("x", (Turn("A", "a"),)),
            "dialogues with text but without examples: 1",
            "data.first_turns",
        ),
        (
            Dialogue("train-0", (Turn("A", "c"), Turn("B", "d"))),
            "duplicate ids within a split: 1",
            "unique id",
        ),
        (Dialogue("x", (Turn("A", "c"), Turn("B", "d"))), "malformed records: 0 of 4", ""),
    ],
    ids=["warning", "empty", "unused", "duplicate", "good"],
)
def test_the_headline_names_the_cause(
    make_corpus: Callable[..., Any], dialogue: Dialogue, headline: str, advice: str
) -> None:
    corpus = make_corpus(train=[*PAIR, dialogue], validation=PAIR, test=PAIR)
    finding = inspect(corpus, rules=ExampleRules(None, first_turns=False), quiet=True).findings[
        "records"
    ]
    assert finding.headline == headline
    assert advice in finding.advice
    assert bool(advice) == bool(finding.advice) == (finding.severity != "good")


def test_splits_without_examples_are_bad(find: Callable[..., dict[str, Finding]]) -> None:
    finding = find(train=PAIR, validation=[["", " "]])["records"]
    assert (finding.severity, finding.headline) == ("bad", "no examples in validation and test")
    assert finding.summary.endswith(
        "No examples in validation and test: this corpus cannot be prepared."
    )
    assert finding.advice == "Give validation and test dialogues of at least two turns."
    assert find(**dict.fromkeys(SPLITS, PAIR))["records"].severity == "good"


def test_dialogues_without_examples_are_only_counted(make_corpus: Callable[..., Any]) -> None:
    corpus = make_corpus(train=[*PAIR, ["alone"]], validation=PAIR, test=[["alone"]])
    inspection = inspect(corpus, rules=ExampleRules(None, first_turns=False), quiet=True)
    assert inspection.sizes["train"] == {"dialogues": 1, "turns": 2}
    assert inspection.findings["records"].data["train"]["unused_dialogues"] == 1
    assert inspection.findings["lengths"].data["train"]["dialogues_under_two_turns"] == 0
    assert inspection.findings["records"].headline == "no examples in test"
