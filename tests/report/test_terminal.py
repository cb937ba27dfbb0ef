from __future__ import annotations

import json
import unicodedata

from hypothesis import given, settings
from hypothesis import strategies as st

from dialog.escaping import one_line, printable, to_json
from dialog.report.tables import ReportTable, RowGroup, text_row
from dialog.report.terminal import aligned, display_width, truncate


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


@settings(max_examples=30)
@given(st.dictionaries(st.text(), st.text(), max_size=3), st.sampled_from([None, 1]))
def test_json_is_printable_and_unchanged(content: dict[str, str], indent: int | None) -> None:
    shown = to_json(content, indent)
    assert json.loads(shown) == content
    assert printable(shown) == shown
    assert to_json("\x7f\x9b31m\u202e你好\u2028") == r'"\u007f\u009b31m\u202e你好\u2028"'


def test_escapes() -> None:
    assert (
        printable("\x1b[31mred\x07 \u202eab \x9b\x7f") == "\\x1b[31mred\\x07 \\u202eab \\x9b\\x7f"
    )
    assert one_line("a\tb\nc") == "a\\tb\\nc"


def test_text_of_any_language_is_unchanged() -> None:
    for text in ("Hello , you !", "你好", "שלום", "नमस्ते", "👩‍🚀 café\n\tx"):
        assert printable(text) == text


def test_display_width() -> None:
    assert display_width("abc") == 3
    assert display_width("你好") == 4
    assert display_width("e\u0301") == 1
    assert display_width("") == 0


@given(st.text(), st.integers(1, 20))
def test_truncated_text_fits_and_is_a_prefix(text: str, limit: int) -> None:
    short = truncate(text, limit)
    assert display_width(short) <= limit
    assert (short == text) == (display_width(text) <= limit)
    assert text.startswith(short.removesuffix("…"))


def test_titles_of_groups_cannot_control_a_terminal() -> None:
    table = ReportTable(("a",), (RowGroup("\x1b[2J\n", (text_row("b"),)),))
    assert "\x1b" not in aligned(table)
