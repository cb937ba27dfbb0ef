"""Near duplicates inside a split: results, and bounds on memory and comparisons."""

from __future__ import annotations

import pytest

from dialog.data.text_matching import minhash
from dialog.data.text_matching.minhash import RepeatDetector, ShingledText


def text(id: str, word: str, end: str = "") -> ShingledText:
    words = [f"{word}{number}" for number in range(40)] + [end]
    return ShingledText(id, " ".join(words), words, 3)


def test_a_near_duplicate_is_reported_with_its_first_text() -> None:
    detector = RepeatDetector()
    for shingled in (
        text("1", "a"),
        text("2", "b"),
        text("3", "a", "so"),
        text("4", "a", "or"),
        text("5", "b"),
    ):
        detector.compare(shingled)
    assert [(id, earlier) for id, earlier, _ in detector.near] == [
        ("3", "1"),
        ("4", "1"),
        ("5", "2"),
    ]
    assert detector.near[-1][2] == 1.0
    assert detector.compared == 5


def test_kept_texts_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(minhash, "MAX_FIRSTS", 2)
    detector = RepeatDetector()
    for number, word in enumerate("abcabc"):
        detector.compare(text(str(number), word))
    assert len(detector.firsts) == 2
    assert [(id, earlier) for id, earlier, _ in detector.near] == [("3", "0"), ("4", "1")]


def test_comparisons_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(minhash, "MAX_CANDIDATES", 0)
    detector = RepeatDetector()
    for number in range(2):
        detector.compare(text(str(number), "a"))
    assert detector.near == []
