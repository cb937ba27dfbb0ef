"""Table of a record in a README, between ``<!-- results: NAME -->`` and
``<!-- end of results -->``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from figures import PRIMARY, spread
from machines import apart, in_sequence

from dialog.atomic import write_text
from dialog.comparison.references import NGRAM
from dialog.report.formats.metrics import metric_at, metric_display
from dialog.report.formats.numbers import count, duration
from dialog.report.sections.scores import REFERENCE_LABELS
from dialog.report.tables import metric_label, p_text

START = "<!-- results: {} -->"
END = "<!-- end of results -->"
LABELS = {
    "parlai_sets.S1_bits_per_byte": "Bits per byte on S1 ↓",
    "context_use.random_context": "Bits per byte lost with another context",
}
"""Labels of the bits per byte that records add to the metrics."""
REFERENCES = ("human", "copy", "nearest_clean")
"""Trivial systems in the table, by their name in metrics.json; the best n-gram model is added."""


def write_table(page: Path, name: str, table: str) -> None:
    """Write the table of an entry into a page that has its markers; leave other pages alone."""
    text = page.read_text(encoding="utf-8") if page.is_file() else ""
    if START.format(name) in text:
        write_text(page, with_table(text, name, table))


def with_table(text: str, name: str, table: str) -> str:
    """Return a page with the table of an entry between its markers."""
    start = START.format(name)
    before, _, rest = text.partition(start)
    if END not in rest:
        rest = f"\n{END}{rest}"
    return f"{before}{start}\n{table}\n{rest[rest.index(END) :]}"


def to_markdown(record: Mapping[str, Any]) -> str:
    """Return the table of a record: a row for each recipe, and below it what it was made with."""
    columns = record["columns"]
    labels = [LABELS.get(name) or metric_label(name) for name in columns]
    head = ["recipe", *labels, "parameters", "seeds", "steps", "training time"]
    lines = ["| " + " | ".join(head) + " |", "| --- |" + " ---: |" * (len(head) - 1)]
    several = len({run["hardware"] for row in record["recipes"] for run in row["runs"]}) > 1
    for row in record["recipes"]:
        texts = [f"`{row['name']}`", *cells(row, columns), times(row["runs"], named=several)]
        lines.append("| " + " | ".join(texts) + " |")
    references = reference_rows(record.get("references", {}).get("all", {}), columns)
    blank = ["–"] * (len(head) - 1 - len(columns))
    lines += [
        "| " + " | ".join([f"{name} ‡", *texts, *blank]) + " |"
        for name, texts in references.items()
    ]
    return "\n".join([*lines, "", *captions(record)])


def cells(row: Mapping[str, Any], columns: Sequence[str]) -> list[str]:
    """Return the columns of a recipe after its name: metrics, size, seeds and steps."""
    runs = row["runs"]
    steps = sorted({run["steps"] for run in runs})
    return [
        *(spread(runs, name, shown_as=PRIMARY if name in LABELS else name) for name in columns),
        parameters(row),
        ", ".join(str(run["seed"]) for run in runs),
        count(steps[0]) if len(steps) == 1 else f"{count(steps[0])} to {count(steps[-1])}",
    ]


def times(runs: Sequence[Mapping[str, Any]], *, named: bool) -> str:
    """Return the median training time of a recipe on each machine; `named` gives the GPU or
    processor of each.

    A run that was moved has a time of its own, with all of its machines.
    """
    seconds: dict[str, list[float]] = {}
    for run in runs:
        machines = in_sequence(machine.partition(",")[0] for machine in apart([run["hardware"]]))
        seconds.setdefault(machines, []).append(run["seconds"])
    each = {machine: duration(median(some)) for machine, some in seconds.items()}
    return "; ".join(f"{time} ({machine})" if named else time for machine, time in each.items())


def reference_rows(
    references: Mapping[str, Mapping[str, Any]], columns: Sequence[str]
) -> dict[str, list[str]]:
    """Return the cells of the columns for `REFERENCES` and the best n-gram model, by label, where
    they have some.
    """
    models = [name for name in references if name.startswith(NGRAM)]
    best = min(models, key=lambda name: references[name][PRIMARY], default="")
    rows = {}
    for name in (*REFERENCES, best):
        values = [metric_at(references.get(name, {}), column) for column in columns]
        if any(value is not None for value in values):
            rows[REFERENCE_LABELS[name]] = [
                "–" if value is None else metric_display(column).format(value)
                for column, value in zip(columns, values, strict=True)
            ]
    return rows


def parameters(row: Mapping[str, Any]) -> str:
    """Return the number of parameters; unknown if all runs diverged before their first
    validation.
    """
    return "–" if row["parameters"] is None else count(row["parameters"])


def captions(record: Mapping[str, Any]) -> list[str]:
    """Return the sentences below a table: command, commits, hardware, date, verdict, what is
    missing.
    """
    runs = [run for row in record["recipes"] for run in row["runs"]]
    machines = " and ".join(apart(run["hardware"] for run in runs))
    threads = " or ".join(str(number) for number in sorted({run["threads"] for run in runs}))
    machines += f", {threads} thread{'s' * (threads != '1')}"
    if all("precision" in run for run in runs):  # older records lack it
        machines += f", {' and '.join(sorted({run['precision'] for run in runs}))}"
    commits = ", ".join(dict.fromkeys(commit for run in runs for commit in run["commits"]))
    days = sorted({run["date"] for run in runs})
    dates = " to ".join(dict.fromkeys([days[0], days[-1]]))
    versions = " and ".join(apart(run["torch"] for run in runs))
    lines = [
        f"`{record['command']}` at {commits}; {machines}; torch {versions}; {dates}. "
        "Mean ± sample standard deviation over seeds; median training time."
    ]
    if any(record.get("references", {}).values()):
        lines += [
            "‡ Trivial systems for comparison: [reference"
            " rows](../../docs/metrics.md#reference-rows)."
        ]
    if record["verdict"]:
        meaning = "../../docs/comparison.md#how-to-read-the-verdict"
        lines += [f"[Verdict]({meaning}): {record['verdict']}".replace("\n", "\n  ")]
    lines += [
        f"[Blind rating](../../docs/ratings.md#ratings-of-people) by {pair['rater']}: {pair['a']}"
        f" better in {pair['wins_a']} pairs of responses, {pair['b']} in {pair['wins_b']},"
        f" {pair['ties']} ties; p: {p_text(pair['p'])}."
        for pair in record.get("ratings", [])
    ]
    if diverged := [
        f"{row['name']} seed {run['seed']}"
        for row in record["recipes"]
        for run in row["runs"]
        if run["diverged"]
    ]:
        lines.append(f"Diverged: {', '.join(diverged)}.")
    if record["missing"]:
        lines.append(f"Not measured yet: {', '.join(record['missing'])}.")
    lines += [f"{note}." for note in record["notes"]]
    return [f"* {line}" for line in lines]
