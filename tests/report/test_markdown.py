from __future__ import annotations

import re
from typing import Any

from dialog.escaping import printable
from dialog.report.formats.results import results_of_json
from dialog.report.markdown import MOST_ROWS, to_markdown


def cells(line: str) -> list[str]:
    return re.split(r"(?<!\\)\|", line)[1:-1]


def tables(text: str) -> list[list[list[str]]]:
    """Return tables of rows of cells."""
    blocks = re.findall(r"(?:^\|.*\n?)+", text, flags=re.MULTILINE)
    return [[cells(line) for line in block.splitlines()] for block in blocks]


def test_tables_have_the_same_cells_in_each_row(
    results: dict[str, Any], hostile: dict[str, Any]
) -> None:
    for variant in (results, hostile):
        grids = tables(to_markdown(results_of_json(variant)))
        assert len(grids) == 16
        for grid in grids:
            assert {len(row) for row in grid} == {len(grid[0])}
            assert all(set(cell.strip()) <= set("-:") for cell in grid[1])


def test_hostile_text_adds_no_markup(hostile: dict[str, Any]) -> None:
    text = to_markdown(results_of_json(hostile))
    body = re.sub(r"^(`{3,})\n.*?\n\1$", "", text, flags=re.MULTILINE | re.DOTALL)
    assert body != text
    assert "<" not in body.replace("<br>", "")
    assert not re.search(r"(?<!\\)[`\[\]]", body)
    assert not re.search(r"https?://", body)
    assert text == printable(text)


def test_a_command_cannot_close_its_code_block(results: dict[str, Any]) -> None:
    results["command"] = "x\n```\n# not a heading\n````"
    fence = re.findall(r"^`{5}$", to_markdown(results_of_json(results)), flags=re.MULTILINE)
    assert len(fence) == 2


def test_numbers_and_line_breaks(results: dict[str, Any]) -> None:
    results["samples"][0]["context"] = ["one\ntwo", "a | b"]
    text = to_markdown(results_of_json(results))
    assert re.search(
        r"^\| Bits per byte ↓ \| \*\*1\.\d{3} ± 0\.\d{3}\*\* \| 1\.\d{3} ± ", text, re.MULTILINE
    )
    assert not re.search(r"^\| F1 .*\*\*", text, re.MULTILINE), "bold means decided"
    assert "one<br>two<br>a \\| b" in text
    assert "| ✗ must be equal |" in text
    assert text.count("<br>0.500 bits per byte |") == 4, (
        "beside the responses of examples that differ"
    )


def test_bare_results(bare: dict[str, Any]) -> None:
    text = to_markdown(results_of_json(bare))
    for heading in ("parity", "Responses", "Environment", "Use of the context"):
        assert f"## {heading}" not in text


def test_sections_of_long_tables_have_their_first_rows(three: dict[str, Any]) -> None:
    """Such as the tests of many pairs and metrics, and their p-values."""
    more = [
        {**entry, "metric": f"metric_{n}"}
        for entry in three["differences"]
        for n in range(MOST_ROWS)
    ]
    parts = to_markdown(
        results_of_json({**three, "differences": [*three["differences"], *more]})
    ).split("\n## ")
    statistics = next(part for part in parts if part.startswith("Statistics\n"))
    rows = [line for line in statistics.splitlines() if line.startswith("| ") and " − " in line]
    assert MOST_ROWS / 2 < len(rows) <= MOST_ROWS
    assert "report.html" in statistics


def test_verdict_warnings_and_sources(three: dict[str, Any]) -> None:
    text = to_markdown(results_of_json(three))
    assert (
        text.index("> ⚠ lstm: seed 2 diverged")
        < text.index("lstm is better than transformer")
        < text.index("## ")
    )
    assert text.index("## Parity contract") < text.index("## Likelihood")
    assert (
        text.count("Evaluation 0123456789ab, test split")
        == len(re.findall(r"^\| ---", text, re.MULTILINE)) - 3
    )
    assert "lstm leads until 18 s hello" in text
