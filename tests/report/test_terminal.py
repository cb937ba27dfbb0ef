from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dialog.report.tables import ReportTable, RowGroup, text_row
from dialog.report.terminal import aligned, display_width, truncate


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
