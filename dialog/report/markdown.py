"""A comparison as GitHub Markdown, and as a plain table for the terminal."""

from __future__ import annotations

import re

from dialog.report.measures import LOSSY, LOSSY_NOTE, METRIC_DISPLAYS, duration
from dialog.report.tables import ReportCell, ReportTable, Results, metric_names, parity, runs, summary
from dialog.report.terminal import display_width, one_line, printable

_SPECIAL = re.compile(r"[\\`*_\[\]|~$@]|:(?=//)|(?<=www)\.", re.IGNORECASE)  # the last two: bare addresses become links


def to_markdown(results: Results) -> str:
    """Return tables and samples as Markdown; texts of results.json are escaped and cannot become links or tags."""
    names = [_escape(model["name"]) for model in results["models"]]
    displays = [METRIC_DISPLAYS[name] for name in metric_names(results) if name in METRIC_DISPLAYS]
    environment = [[_escape(key), _escape(str(value))] for key, value in results["environment"].items()]
    parts = [
        "# " + " and ".join(names),
        _code_block(results["command"]),
        f"Evaluated on the {_escape(results['split'])} split. Total time: {duration(results['seconds'])}.",
        "## Results",
        _table(summary(results)),
        "Mean over seeds, ± standard deviation over seeds. Bold: best mean where a direction is better (↓ lower, "
        "↑ higher), not tested for significance.",
        *(("## Parity", _table(parity(results))) if results.get("parity") else ()),
        *(("## Responses", _samples(results)) if results.get("samples") else ()),
        "## Runs",
        _table(runs(results)),
        "## Metrics",
        "\n".join(f"- **{metric.label}**: {metric.definition}" for metric in displays),
        "## Environment",
        _lines([["", ""], ["---", "---"], *environment]),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def terminal_table(results: Results) -> str:
    """Return the summary in aligned columns, with `*` at the best means, and the settings that break parity."""
    table = summary(results)
    lines = [[one_line(name) for name in table.head]]
    lines += [[one_line(cell.text) + (" *" if cell.mark == "best" else "  ") for cell in row] for row in table.rows]
    lines[0][1:] = [name + "  " for name in lines[0][1:]]
    widths = [max(display_width(line[index].rstrip()) for line in lines) + 2 for index in range(len(table.head))]
    text = [_align(line, widths) for line in lines]
    text.insert(1, "-" * max(map(display_width, text)))
    text.insert(2 + len(table.groups[0]), text[1])
    if any(cell.mark == "best" for row in table.rows for cell in row):
        text.append("* best mean, not tested for significance")
    if any(LOSSY in cell.text for row in table.rows for cell in row[1:]):
        text.append(LOSSY_NOTE.strip())
    broken = [row for row in parity(results).rows if row[-1].mark == "broken"]
    text += [f"must be equal but differs: {', '.join(one_line(cell.text) for cell in row[:-1])}" for row in broken]
    return "\n".join(text) + "\n"


def _align(line: list[str], widths: list[int]) -> str:
    heading, *others = line
    cells = [heading.rstrip() + " " * (widths[0] - display_width(heading.rstrip()))]
    cells += [
        " " * max(0, width + 2 - display_width(text)) + text for text, width in zip(others, widths[1:], strict=True)
    ]
    return "".join(cells).rstrip()


def _table(table: ReportTable) -> str:
    head = [_escape(name) for name in table.head]
    rows = [[_cell(cell) for cell in row] for row in table.rows]
    return _lines([head, ["---", *["---:"] * (len(head) - 1)], *rows])


def _samples(results: Results) -> str:
    names = [model["name"] for model in results["models"]]
    rows = [["\n".join(sample["context"]), sample["reference"], *sample["responses"]] for sample in results["samples"]]
    return text_table(["Context", "Reference", *names], rows)


def text_table(head: list[str], rows: list[list[str]]) -> str:
    """Return a table of plain text."""
    return _lines([[*map(_escape, head)], ["---"] * len(head), *([*map(_escape, row)] for row in rows)])


def _lines(rows: list[list[str]]) -> str:
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _cell(cell: ReportCell) -> str:
    text = _escape(cell.text)
    return f"**{text}**" if cell.mark in ("best", "broken") else text


def _escape(text: str) -> str:
    """Escape text for one cell of a Markdown table."""
    text = printable(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return _SPECIAL.sub(r"\\\g<0>", text).replace("\n", "<br>").replace("\t", " ")


def _code_block(text: str) -> str:
    """Fence text with more backticks than it has in a row."""
    longest = max(map(len, re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}\n{printable(text)}\n{fence}"
