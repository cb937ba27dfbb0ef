"""A comparison as GitHub Markdown, and as a plain table for the terminal."""

from __future__ import annotations

import re

from dialog.report.measures import MEASURES, duration
from dialog.report.tables import Cell, Results, Table, parity, runs, summary
from dialog.report.terminal import columns, one_line, printable

_SPECIAL = re.compile(r"[\\`*_\[\]|~$@]|:(?=//)|(?<=www)\.", re.IGNORECASE)  # the last two: bare addresses become links


def to_markdown(results: Results) -> str:
    """The report's tables and samples as Markdown; no text of results.json can become a link, image or tag of it."""
    names = [_escaped(model["name"]) for model in results["models"]]
    measured = {name for model in results["models"] for name in model["summary"]}
    environment = [[_escaped(key), _escaped(str(value))] for key, value in results["environment"].items()]
    parts = [
        "# " + " and ".join(names),
        _code(results["command"]),
        f"Evaluated on the {_escaped(results['split'])} split; {duration(results['seconds'])} in all.",
        "## Results",
        _grid(summary(results)),
        "Mean over seeds, ± the standard deviation over seeds. Bold marks the better mean where a direction is better "
        "(↓ lower, ↑ higher); it is no test of significance.",
        *(("## What was held equal", _grid(parity(results))) if results.get("parity") else ()),
        *(("## Responses", _samples(results)) if results.get("samples") else ()),
        "## Runs",
        _grid(runs(results)),
        "## What the numbers mean",
        "\n".join(f"- **{known.label}**: {known.meaning}" for name, known in MEASURES.items() if name in measured),
        "## Environment",
        _lines([["", ""], ["---", "---"], *environment]),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def table(results: Results) -> str:
    """The summary for the terminal: aligned columns, `*` at the better mean, and what must be equal and is not."""
    shown = summary(results)
    lines = [[one_line(name) for name in shown.head]]
    lines += [[one_line(cell.text) + (" *" if cell.mark == "best" else "  ") for cell in row] for row in shown.rows]
    lines[0][1:] = [name + "  " for name in lines[0][1:]]
    widths = [max(columns(line[place].rstrip()) for line in lines) + 2 for place in range(len(shown.head))]
    text = [_aligned(line, widths) for line in lines]
    text.insert(1, "-" * max(map(columns, text)))
    text.insert(2 + len(shown.groups[0]), text[1])
    if any(cell.mark == "best" for row in shown.rows for cell in row):
        text.append("* the better mean; no test of significance")
    broken = [row for row in parity(results).rows if row[-1].mark == "broken"]
    text += [f"must be equal: {', '.join(one_line(cell.text) for cell in row[:-1])}" for row in broken]
    return "\n".join(text) + "\n"


def _aligned(line: list[str], widths: list[int]) -> str:
    first, *others = line
    cells = [first.rstrip() + " " * (widths[0] - columns(first.rstrip()))]
    cells += [" " * max(0, width + 2 - columns(text)) + text for text, width in zip(others, widths[1:], strict=True)]
    return "".join(cells).rstrip()


def _grid(content: Table) -> str:
    head = [_escaped(name) for name in content.head]
    rows = [[_cell(cell) for cell in row] for row in content.rows]
    return _lines([head, ["---", *["---:"] * (len(head) - 1)], *rows])


def _samples(results: Results) -> str:
    names = [_escaped(model["name"]) for model in results["models"]]
    rows = [
        ["<br>".join(map(_escaped, sample["context"])), *map(_escaped, [sample["reference"], *sample["responses"]])]
        for sample in results["samples"]
    ]
    return _lines([["Context", "Reference", *names], ["---"] * (len(names) + 2), *rows])


def _lines(rows: list[list[str]]) -> str:
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _cell(cell: Cell) -> str:
    text = _escaped(cell.text)
    return f"**{text}**" if cell.mark in ("best", "broken") else text


def _escaped(text: str) -> str:
    """Text that Markdown shows as it is, on one line of a table."""
    text = printable(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return _SPECIAL.sub(r"\\\g<0>", text).replace("\n", "<br>").replace("\t", " ")


def _code(text: str) -> str:
    """A code block, fenced by more backticks than the text has in a row."""
    longest = max(map(len, re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}\n{printable(text)}\n{fence}"
