"""Scripts, and damaged, invisible or unusual characters."""

from __future__ import annotations

from collections.abc import Callable

from dialog.inspection.findings import Finding
from dialog.inspection.sections.text import kind

KINDS = {
    **{
        "\ufffd": "replacement",
        "\x7f": "control",
        "\x00": "control",
        "\u200b": "format",
        "\u202e": "format",
    },
    **{"\u00a0": "space", "\t": "space", "\u2028": "space", "\ue000": "private"},
    **dict.fromkeys(" aß你🙂’", ""),
}


def test_unusual_characters_are_counted_and_located(
    find: Callable[..., dict[str, Finding]],
) -> None:
    assert {char: kind(char) for char in KINDS} == KINDS
    data = find(train=[["a", "b"], *(["a", f"x{char}y{char}"] for char in KINDS)])[
        "characters"
    ].data
    odd = {
        code: (about["first"], about["kind"], about["count"]) for code, about in data["odd"].items()
    }
    assert odd == {
        f"U+{ord(char):04X}": (f"train-{number} (train.txt:{number})", expected, 2)
        for number, (char, expected) in enumerate(KINDS.items(), start=1)
        if expected
    }


def test_scripts_and_garbled_text(find: Callable[..., dict[str, Finding]]) -> None:
    garbled = "s’il vous plaît é".encode().decode("cp1252")
    splits = {
        "train": [["abc", "дом", "你好"]],
        "test": [["é", garbled]],
        "validation": [["Ânes à Évian"]],
    }
    finding = find(**splits)["characters"]
    assert finding.data["scripts"]["Cyrillic"] == 3
    assert finding.data["scripts"]["Cjk"] == 2
    assert finding.data["mojibake_turns"] == {"train": 0, "validation": 0, "test": 1}
    assert finding.severity == "bad"


def test_white_space_at_turn_edges_names_the_remedy(
    find: Callable[..., dict[str, Finding]],
) -> None:
    finding = find(train=[["a ", "b"]], test=[["\na", " b"]])["characters"]
    assert finding.data["padded_turns"] == {"train": 1, "validation": 0, "test": 2}
    assert "data.normalise=true" in finding.advice
    assert "outer white space" in finding.headline
