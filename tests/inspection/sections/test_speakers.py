"""Speakers."""

from __future__ import annotations

from collections.abc import Callable

from dialog.data.dialogue import Dialogue, Turn
from dialog.inspection.findings import Finding


def test_speakers_and_echoes(find: Callable[..., dict[str, Finding]]) -> None:
    alone = Dialogue("alone", (Turn("A", "one"), Turn("A", "two"), Turn("A", "three")))
    crowd = Dialogue("crowd", tuple(Turn(name, name) for name in "ABCA"))
    finding = find(train=[alone, crowd, ["Bye .", " Bye  .", "bye ."], ["Hm"]])["speakers"]
    assert finding.data["train"] == {
        "one_sided": 1,
        "same_speaker": 2,
        "echoes": 1,
        "many_voices": 1,
    }
    assert finding.severity == "bad"
    assert (
        finding.headline
        == "1 dialogue with one speaker; 2 turns after the same speaker; 1 repeated turn"
    )
    assert "data.merge_turns=true" in finding.advice
