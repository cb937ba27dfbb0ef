"""Labels of tokens that are parts of characters."""

from __future__ import annotations

import pytest

from dialog.data.tokenizers.labels import (
    characters_of_parts,
    joined_labels,
    readable_labels,
    whole_characters,
)


@pytest.mark.parametrize(
    ("labels", "parts", "readable", "text"),
    [
        (["\\xe4\\xbd", "\\xa0", "好"], {0: "你", 1: "你"}, ["你₁", "你₂", "好"], "你好"),
        (
            ["▁a\\xf0\\x9f", "\\x98", "\\x80b"],
            {0: "😀", 1: "😀", 2: "😀"},
            ["▁a😀₁", "😀₂", "😀₃b"],
            " a😀b",
        ),
        (["\\xc3", "\\xa9\\xc3", "\\xa9"], {0: "é", 1: "é", 2: "é"}, ["é₁", "é₂é₁", "é₂"], "éé"),
        (
            ["\\xe2\\x80", "\\xae"],
            {0: r"\u202e", 1: r"\u202e"},
            [r"\u202e₁", r"\u202e₂"],
            r"\u202e",
        ),
        (["\\xe4", "x", "\\xa0"], {}, ["\\xe4", "x", "\\xa0"], r"\xe4x\xa0"),
        (["▁é", "\\xc3\\xa9"], {}, ["▁é", "\\xc3\\xa9"], r" é\xc3\xa9"),
    ],
)
def test_bytes_of_a_character_are_shown_as_the_character(
    labels: list[str], parts: dict[int, str], readable: list[str], text: str
) -> None:
    assert characters_of_parts(labels) == parts
    assert readable_labels(labels) == readable
    assert joined_labels(labels) == text


@pytest.mark.parametrize(
    ("labels", "groups"),
    [
        (["▁a\\xf0\\x9f", "\\x98", "\\x80b", "c"], [("▁a😀b", 0, 3), ("c", 3, 4)]),
        (["\\xc3", "\\xa9\\xc3", "\\xa9", "▁😀"], [("éé", 0, 3), ("▁😀", 3, 4)]),
        (["\\xe4", "x", "\\xa0"], [("\\xe4", 0, 1), ("x", 1, 2), ("\\xa0", 2, 3)]),
        ([], []),
    ],
)
def test_tokens_are_grouped_into_whole_characters(
    labels: list[str], groups: list[tuple[str, int, int]]
) -> None:
    assert whole_characters(labels) == groups
