"""Lengths."""

from __future__ import annotations

from collections.abc import Callable

from dialog.inspection.findings import Finding


def test_long_turns_and_short_dialogues(find: Callable[..., dict[str, Finding]]) -> None:
    finding = find(train=[["a b", "c"], ["x " * 600, "y"], ["z"]])["lengths"]
    assert finding.data["train"]["words_a_turn"]["max"] == 600
    assert finding.data["train"]["dialogues_under_two_turns"] == 1
    assert "max_words: 511" in finding.advice
    short = find(train=[["a b", "c"], ["z"]])["lengths"]
    assert (short.severity, "1 dialogue with fewer than two turns" in short.headline) == (
        "look",
        True,
    )
