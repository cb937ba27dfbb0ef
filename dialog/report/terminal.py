"""Text of terminals: untrusted text, whose control and bidirectional characters are escaped, and an evaluation."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any

from dialog.escaping import COMMANDS
from dialog.report.measures import LOSSY_NOTE, lossy_mark, metric_display, metric_value, sort_metrics

LABEL, NUMBER = 28, 14
"""Widths of columns; one with a longer heading is wider."""
REFERENCE_METRICS = ("bits_per_byte", "f1", "sacrebleu", "distinct_2", "length_mean")
"""Metrics of the reference rows that are shown; metrics.json has all."""


def printable(text: str) -> str:
    r"""Write control and bidirectional characters, except line feed and tab, as `\x1b` or `\u202e`."""
    return COMMANDS.sub(lambda match: _escape(match[0]), text)


def one_line(text: str) -> str:
    r"""Write line feed and tab as `\n` and `\t`, and all that `printable` escapes."""
    return printable(text).replace("\n", "\\n").replace("\t", "\\t")


def display_width(text: str) -> int:
    """Return the terminal columns of a text: 2 for wide characters (Chinese, emoji), 0 for combining ones."""
    return sum(_character_width(char) for char in text)


def truncate(text: str, limit: int) -> str:
    """Truncate a text to `limit` columns, with an ellipsis at the end."""
    if display_width(text) <= limit:
        return text
    return text[: fitting_length(text, limit - 1)] + "…"


def fitting_length(text: str, limit: int) -> int:
    """Return the number of leading characters that fit into `limit` columns."""
    widths = accumulate(map(_character_width, text))
    return next((index for index, width in enumerate(widths) if width > limit), len(text))


def _escape(char: str) -> str:
    return f"\\x{ord(char):02x}" if ord(char) < 0x100 else f"\\u{ord(char):04x}"


def _character_width(char: str) -> int:
    if unicodedata.category(char) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


# ------------------------------------------------------------------ an evaluation


def evaluation_lines(metrics: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines for the content of a metrics.json."""
    parts = [part for part in metrics.get("subsets", {}).items() if part[1]["examples"]]
    if parts:
        yield _line("", ["all", *(name for name, _ in parts)])
    for name in sort_metrics(set(metrics)):
        if metric_value(metrics[name]) is not None:
            columns = [_format(name, part.get(name)) for part in (metrics, *(part for _, part in parts))]
            yield _line(metric_display(name).label, columns) + lossy_mark(name, metrics)
    headings = [metric_display(name).label for name in REFERENCE_METRICS]
    if metrics.get("baselines"):
        yield ""
        yield _line("Reference rows", headings)
    for row, values in metrics.get("baselines", {}).items():
        yield _line(row.replace("_", " "), [_format(name, values.get(name)) for name in REFERENCE_METRICS], headings)
    if not metrics["lossless"]:
        yield LOSSY_NOTE.strip()
    for name, value in metrics.items():
        if isinstance(value, Mapping) and "signature" in value:
            yield f"{metric_display(name).label}: {value['signature']}"


def _line(label: str, columns: list[str], headings: Sequence[str] = ()) -> str:
    widths = [max(NUMBER, len(heading) + 2) for heading in headings or columns]
    cells = (f"{column:>{width}}" for column, width in zip(columns, widths, strict=True))
    return f"{label:<{LABEL}}{''.join(cells)}".rstrip()


def _format(name: str, value: object) -> str:
    number = metric_value(value)
    return "" if number is None else metric_display(name).format(number)
