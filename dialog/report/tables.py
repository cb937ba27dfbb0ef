"""Parts of a report: tables of text, figures and sections, for HTML, Markdown, LaTeX and the
terminal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import isclose
from statistics import fmean, stdev
from typing import Any, Literal, NamedTuple, Self

from dialog.report.formats.metrics import metric_display
from dialog.report.formats.results import Results, ShownExample
from dialog.report.short_names import ShownResults

NONE = "–"
UNKNOWN = "unknown"
"""Value of a setting of the parity contract that a contender has not recorded."""
SPREAD_NOTE = "±: standard deviation over seeds."
MOST_NAMES = 4
"""Contenders that a title names."""
SUBSETS = {
    "all": "All dialogues",
    "clean": "Clean: dialogues that share no pair of turns with the training split",
    "leaked": "Leaked: dialogues that share a pair of turns with the training split",
}
WHOLE_TEST_SET = {
    "clean": "All dialogues are clean: none shares a pair of turns with the training split.",
    "leaked": "All dialogues are leaked: each shares a pair of turns with the training split.",
}
"""Notes on a subset that is the whole test set."""
DIFFERING = "Examples on which the contenders differ most"
RANDOM = "Random examples"
DIFFERING_NOTE = (
    "Examples whose references differ most in bits per byte between the contenders, first those of"
    " which the first contender finds the reference most probable, then those of the next one. With"
    " the bits per byte of the reference."
)


class ReportCell(NamedTuple):
    """Text and its mark: a decided difference, or the state of a setting of the parity contract."""

    text: str
    mark: Literal["", "decided", "equal", "differs", "broken"] = ""


Row = tuple[ReportCell, ...]


class RowGroup(NamedTuple):
    """Rows with a common title, which may be empty."""

    title: str
    rows: tuple[Row, ...]


class ReportTable(NamedTuple):
    """Table whose first column has the headings of the rows.

    Attributes:
        contenders: number of columns after the first that belong to contenders.
        references: number of columns at the end that belong to reference systems.
        reference_note: explains these.
        metrics: metrics of the table; their signatures are printed below it.
        folded: label under which readers open the table; empty: it is always visible.
    """

    head: tuple[str, ...]
    groups: tuple[RowGroup, ...]
    caption: str = ""
    contenders: int = 0
    references: int = 0
    reference_note: str = ""
    metrics: tuple[str, ...] = ()
    folded: str = ""

    @property
    def rows(self) -> tuple[Row, ...]:
        """Rows of all groups."""
        return tuple(row for group in self.groups for row in group.rows)

    def texts(
        self, escape: Callable[[str], str], decided: Callable[[str], str]
    ) -> list[tuple[str, list[list[str]]]]:
        """Return the escaped title and cells of each group; `decided` marks decided cells."""

        def cell_text(cell: ReportCell) -> str:
            text = escape(cell.text)
            return decided(text) if cell.mark == "decided" else text

        return [
            (escape(group.title), [list(map(cell_text, row)) for row in group.rows])
            for group in self.groups
        ]

    def select(self, columns: Sequence[int]) -> Self:
        """Return the table with these columns only; the numbers of contenders and references are
        those of before.
        """
        groups = (
            RowGroup(
                group.title, tuple(tuple(row[column] for column in columns) for row in group.rows)
            )
            for group in self.groups
        )
        return self._replace(
            head=tuple(self.head[column] for column in columns), groups=tuple(groups)
        )

    def transposed(self, names: Sequence[str]) -> Self:
        """Return a table with a column for each row, and a row for each of these columns."""
        rows = (
            (ReportCell(name), *(row[column] for row in self.rows))
            for name in names
            for column in [self.head.index(name, 1)]
        )
        return self._replace(
            head=("", *(row[0].text for row in self.rows)), groups=(RowGroup("", tuple(rows)),)
        )


class Figure(NamedTuple):
    """Drawings (SVG) with a common caption; `small`: several fit into one line; `legend`: they need
    the colours of the contenders.
    """

    drawings: tuple[str, ...]
    caption: str
    small: bool = False
    legend: bool = True


class ReportSection(NamedTuple):
    """Part of a report; it is left out if it has neither tables nor figures."""

    title: str
    tables: tuple[ReportTable, ...] = ()
    figures: tuple[Figure, ...] = ()
    notes: tuple[str, ...] = ()


def table_of_groups(
    head: Iterable[str],
    groups: Iterable[RowGroup],
    **options: Any,
) -> tuple[ReportTable, ...]:
    """Return a table of the groups that have rows; nothing if none has."""
    filled = tuple(group for group in groups if group.rows)
    return (ReportTable(tuple(head), filled, **options),) if filled else ()


def table_of_contenders(
    results: Results, groups: Iterable[RowGroup], caption: str
) -> tuple[ReportTable, ...]:
    """Return a table with a column for each contender; nothing if no group has rows."""
    names = results.names
    return table_of_groups(("", *names), groups, caption=caption, contenders=len(names))


def figure_of(drawings: Sequence[str], caption: str, *, small: bool = False) -> tuple[Figure, ...]:
    """Return a figure; nothing without drawings."""
    return (Figure(tuple(drawings), caption, small),) if drawings else ()


def shortened(table: ReportTable, most: int) -> ReportTable:
    """Return a table with the first rows of each group, at most `most` in all; the caption says if
    any are missing.
    """
    if len(table.rows) <= most:
        return table
    rows = max(1, most // len(table.groups))
    groups = tuple(group._replace(rows=group.rows[:rows]) for group in table.groups)
    kept = sum(len(group.rows) for group in groups)
    note = f"The first {kept:,} of {len(table.rows):,} rows; report.html and results.json have all."
    return table._replace(groups=groups, caption=f"{table.caption} {note}".lstrip())


def text_row(*texts: str) -> Row:
    """Return cells without marks."""
    return tuple(ReportCell(text) for text in texts)


def title_of(results: ShownResults) -> str:
    """Return the title of a report: what the contenders share, and their names or number."""
    names = results.names
    title = " and ".join(names) if len(names) <= MOST_NAMES else f"{len(names)} contenders"
    return f"{results.shared}: {title}" if results.shared else title


def anchor(title: str) -> str:
    """Return the name of a section in addresses and names of files."""
    return title.lower().replace(" ", "-")


def subsets_of(results: Results) -> dict[str, str]:
    """Return the titles of the subsets with a summary, without a subset that is the whole
    test set.
    """
    whole = whole_subset(results)
    titles = {**SUBSETS, "all": WHOLE_TEST_SET[whole].removesuffix(".")} if whole else SUBSETS
    summaries = [model.summary for model in results.models]
    return {
        subset: title
        for subset, title in titles.items()
        if subset != whole and any(summary.get(subset) for summary in summaries)
    }


def whole_subset(results: Results) -> str:
    """Return the subset that has all dialogues of the test set; empty if there is none."""
    whole = (
        name
        for name, other in (("clean", "leaked"), ("leaked", "clean"))
        if any(run.subset(other).get("examples") == 0 for run in results.runs)
    )
    return next(whole, "")


def optional(value: float | None, to_text: Callable[[float], str]) -> str:
    """Format a number, or return a dash."""
    return NONE if value is None else to_text(value)


def mean_and_deviation(values: Sequence[float]) -> tuple[float, float | None]:
    """Return the mean, and the standard deviation over seeds, None for a single one."""
    return fmean(values), stdev(values) if len(values) > 1 else None


def spread_text(mean: float, std: float | None, to_text: Callable[[float], str]) -> str:
    """Return mean ± standard deviation over seeds, or the mean alone."""
    if std is None:
        return to_text(mean)
    return f"{to_text(mean).removesuffix(' %')} ± {to_text(std)}"


def reference_bits(sample: ShownExample) -> list[str]:
    """Return the bits per byte of the reference of an example by contender; empty if the example
    has none.
    """
    texts = [
        optional(value, metric_display("bits_per_byte").format) for value in sample.bits_per_byte
    ]
    return [text if text == NONE else f"{text} bits per byte" for text in texts]


def has_several_seeds(results: Results) -> bool:
    """Return whether a contender has more than one run."""
    return any(len(model.runs) > 1 for model in results.models)


def signed(value: float, to_text: Callable[[float], str]) -> str:
    """Format a difference with its sign: +0.021, −1.3 pp (percentage points); what rounds to 0 has
    none.
    """
    text = to_text(abs(value)).replace(" %", " pp")
    if to_text(abs(value)) == to_text(0.0):
        return text
    return f"{'−' if value < 0 else '+'}{text}"


def interval_text(interval: Sequence[float], to_text: Callable[[float], str]) -> str:
    """Format an interval of differences: [−0.034, −0.021], [−1.2, +0.4] pp.

    If that would show limits on one side of 0 as equal or as 0, they have as many digits as tell
    them apart.
    """
    if not interval:
        return NONE
    low, high = interval
    unit = " pp" if signed(high, to_text).endswith(" pp") else ""
    texts = [signed(limit, to_text).removesuffix(" pp") for limit in (low, high)]
    zero = to_text(0.0).removesuffix(" %")
    # limits that differ only by rounding have nothing to tell apart
    if not isclose(low, high) and low * high > 0 and (texts[0] == texts[1] or zero in texts):
        scale = 100 if unit else 1
        digits = next((n for n in range(2, 16) if f"{low:.{n}g}" != f"{high:.{n}g}"), 16)
        texts = [
            signed(scale * limit, lambda value: f"{value:.{digits}g}") for limit in (low, high)
        ]
    return f"[{texts[0]}, {texts[1]}]{unit}"


def p_text(value: float | None) -> str:
    """Format a p value with two significant digits: < 0.001, 0.034."""
    if value is None:
        return NONE
    if value < 0.001:
        return "< 0.001"
    return f"{value:.3f}" if value < 0.1 else f"{value:.2f}"


def provenance(results: Results, metrics: Iterable[str]) -> str:
    """Return the line below a table: fingerprint of the evaluation, size of the test set,
    signatures of the metrics.
    """
    size = (
        f"{results.split} split, {results.examples:,} responses in {results.dialogues:,} dialogues"
    )
    labels: dict[str, list[str]] = {}
    for name in metrics:
        for signature in dict.fromkeys(run.signature(name) for run in results.runs):
            labels.setdefault(signature, []).append(metric_display(name).label)
    signatures = [
        f"{', '.join(names)} {signature}" for signature, names in labels.items() if signature
    ]
    return "; ".join(
        (f"Evaluation {results.fingerprint[:12] or 'without fingerprint'}, {size}", *signatures)
    )


def metric_label(name: str) -> str:
    """Return the label of a metric, with an arrow in the direction that is better."""
    metric = metric_display(name)
    return metric.label + {"lower": " ↓", "higher": " ↑", None: ""}[metric.better]
