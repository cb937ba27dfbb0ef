from __future__ import annotations

import re
from typing import Any

from dialog.report.markdown import terminal_table, to_markdown
from dialog.report.terminal import display_width, printable


def cells(line: str) -> list[str]:
    return re.split(r"(?<!\\)\|", line)[1:-1]


def tables(text: str) -> list[list[list[str]]]:
    """Return tables of rows of cells."""
    blocks = re.findall(r"(?:^\|.*\n?)+", text, flags=re.MULTILINE)
    return [[cells(line) for line in block.splitlines()] for block in blocks]


def test_tables_have_the_same_cells_in_each_row(results: dict[str, Any], hostile: dict[str, Any]) -> None:
    for variant in (results, hostile):
        grids = tables(to_markdown(variant))
        assert len(grids) == 5
        for grid in grids:
            assert {len(row) for row in grid} == {len(grid[0])}
            assert all(set(cell.strip()) <= set("-:") for cell in grid[1])


def test_hostile_text_adds_no_markup(hostile: dict[str, Any]) -> None:
    text = to_markdown(hostile)
    body = re.sub(r"^(`{3,})\n.*?\n\1$", "", text, flags=re.MULTILINE | re.DOTALL)
    assert body != text
    assert "<" not in body.replace("<br>", "")
    assert not re.search(r"(?<!\\)[`\[\]]", body)
    assert not re.search(r"https?://", body)
    assert text == printable(text)


def test_a_command_cannot_close_its_code_block(results: dict[str, Any]) -> None:
    results["command"] = "x\n```\n# not a heading\n````"
    fence = re.findall(r"^`{5}$", to_markdown(results), flags=re.MULTILINE)
    assert len(fence) == 2


def test_numbers_and_line_breaks(results: dict[str, Any]) -> None:
    results["samples"][0]["context"] = ["one\ntwo", "a | b"]
    text = to_markdown(results)
    assert "| Bits per byte ↓ | **1.510 ± 0.010** | 1.610 ± 0.010 |" in text
    assert "one<br>two<br>a \\| b" in text
    assert "**✗ must be equal**" in text


def test_bare_results(bare: dict[str, Any]) -> None:
    assert "Responses" not in to_markdown(bare)
    assert "±" not in terminal_table(bare)


def test_the_terminal_table_is_aligned(results: dict[str, Any]) -> None:
    lines = terminal_table(results).splitlines()
    values = [line for line in lines if not line.startswith(("-", "must be"))]
    ends = {re.search(r"1\.610 ± 0\.010", line).end() for line in values if "1.610" in line}
    ends |= {line.index("1,234,567", 40) + 9 for line in values if line.startswith("Parameters")}
    ends |= {line.index("transformer") + 11 for line in values[:1]}
    assert len(ends) == 1
    assert "1.510 ± 0.010 *" in lines[2]
    assert lines[1] == "-" * max(map(display_width, values))
    assert lines[-1].startswith("must be equal but differs: data hello")


def test_hostile_text_cannot_control_the_terminal(hostile: dict[str, Any]) -> None:
    text = terminal_table(hostile)
    assert not set(text) & set("\x1b\u202e\x00\t")
    assert "\\x1b[2J" in text


def test_wide_characters_keep_the_columns(results: dict[str, Any]) -> None:
    results["models"][0]["name"] = "模型"
    head, _, first = terminal_table(results).splitlines()[:3]
    assert display_width(head[: head.index("模型")]) + 4 == display_width(first[: first.index("1.510 ± 0.010")]) + 13
