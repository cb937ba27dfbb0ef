"""Near repeats inside a split: of first ones, of which not more are kept than said."""

from __future__ import annotations

import pytest

from dialog.data.text_matching import minhash
from dialog.data.text_matching.minhash import Probe, Repeats


def probe(id: str, word: str, end: str = "") -> Probe:
    said = [f"{word}{number}" for number in range(40)] + [end]
    return Probe(id, " ".join(said), said, 3)


def test_what_is_near_an_earlier_one_is_named_with_it() -> None:
    repeats = Repeats()
    for each in (probe("1", "a"), probe("2", "b"), probe("3", "a", "so"), probe("4", "a", "or"), probe("5", "b")):
        repeats.meet(each)
    assert [(id, earlier) for id, earlier, _ in repeats.near] == [("3", "1"), ("4", "1"), ("5", "2")]
    assert repeats.near[-1][2] == 1.0
    assert repeats.compared == 5


def test_so_many_first_ones_are_kept_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(minhash, "FIRSTS", 2)
    repeats = Repeats()
    for number, word in enumerate("abcabc"):
        repeats.meet(probe(str(number), word))
    assert len(repeats.firsts) == 2
    assert [(id, earlier) for id, earlier, _ in repeats.near] == [("3", "0"), ("4", "1")]


def test_a_text_is_held_against_so_many_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(minhash, "CANDIDATES", 0)
    repeats = Repeats()
    for number in range(2):
        repeats.meet(probe(str(number), "a"))
    assert repeats.near == []
