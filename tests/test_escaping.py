"""Text and JSON that control no terminal."""

from __future__ import annotations

import json
import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from dialog.escaping import COMMANDS, one_line, printable, to_json

values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


@given(values)
def test_json_reads_back_without_control_characters(value: object) -> None:
    text = to_json(value)
    assert json.loads(text) == value
    assert not COMMANDS.search(text)
    assert to_json("\x7f\x9b31m\u202e你好\u2028") == r'"\u007f\u009b31m\u202e你好\u2028"'


def test_numbers_that_are_not_finite_are_null() -> None:
    numbers = [float("nan"), float("inf"), -float("inf"), 1.5]
    assert json.loads(to_json({"a": numbers, "b": tuple(numbers)})) == {
        key: [None, None, None, 1.5] for key in "ab"
    }


@given(st.text(st.characters()))
def test_printable_text_cannot_control_a_terminal(text: str) -> None:
    shown = printable(text)
    assert all(char in "\n\t" or unicodedata.category(char) not in ("Cc", "Cs") for char in shown)
    assert all(
        unicodedata.bidirectional(char) not in ("LRO", "RLO", "LRE", "RLE", "PDF", "LRI", "RLI")
        for char in shown
    )
    shown.encode()
    assert printable(shown) == shown
    assert not set(one_line(text)) & set("\n\t\r\u2028\u2029")


def test_escapes() -> None:
    assert (
        printable("\x1b[31mred\x07 \u202eab \x9b\x7f") == "\\x1b[31mred\\x07 \\u202eab \\x9b\\x7f"
    )
    assert one_line("a\tb\nc") == "a\\tb\\nc"


def test_text_of_any_language_is_unchanged() -> None:
    for text in ("Hello , you !", "你好", "שלום", "नमस्ते", "👩‍🚀 café\n\tx"):
        assert printable(text) == text
