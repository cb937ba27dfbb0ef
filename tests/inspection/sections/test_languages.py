"""Languages."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from dialog.data.dialogue import Dialogue, Turn
from dialog.inspection.findings import Finding
from dialog.inspection.sections.text import LanguageSection


def test_the_sample_is_uniform() -> None:
    section = LanguageSection()
    for number in range(20_000):
        section.add("train", Dialogue(str(number), (Turn("A", "x"),)))
    numbers = [int(id) for id, _ in section.sample["train"]]
    assert len(set(numbers)) == 1000
    assert {number // 5000 for number in numbers} == {0, 1, 2, 3}
    assert abs(float(np.mean(numbers)) - 10_000) < 1000  # five standard errors


def test_languages_are_counted_by_split(find: Callable[..., dict[str, Finding]]) -> None:
    pytest.importorskip("py3langid")
    german = [
        "Guten Morgen, wie geht es Ihnen heute?",
        "Danke, mir geht es gut, und wie geht es Ihrer Schwester?",
    ]
    english = [
        "Good morning, how are you doing today?",
        "I am fine, thank you, and how is your little sister?",
    ]
    finding = find(train=[german, english], test=[german])["languages"]
    assert (finding.data["train"], finding.data["test"]) == ({"de": 1, "en": 1}, {"de": 1})
    assert (finding.severity, finding.headline) == ("look", "de and en")
