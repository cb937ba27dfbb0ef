"""Use of the context: the change in likelihood when the context is perturbed, and by distance of a
turn.
"""

from __future__ import annotations

from collections.abc import Sequence

from dialog.report.drawing.charts import Spread, categories_svg, changes_svg
from dialog.report.formats.numbers import decimals
from dialog.report.formats.results import ContextChange, DroppedTurn, Perturbation, Results
from dialog.report.tables import (
    NONE,
    ReportCell,
    ReportSection,
    Row,
    RowGroup,
    figure_of,
    has_several_seeds,
    signed,
    table_of_contenders,
)

CHANGE = "change in bits per byte"


def context_use(results: Results) -> ReportSection:
    """Return changes in bits per byte per perturbation and per distance of the dropped turn."""
    measured = results.context_use
    rows = measured.rows
    distance = measured.distance
    names = results.names
    drawings = []
    if rows:
        drawings.append(
            changes_svg([(row.perturbation, _by_index(row, names)) for row in rows], x=CHANGE)
        )
    if distance:
        drawings.append(_by_distance(distance, names))
    groups = [
        RowGroup("Perturbed context", tuple(_row(row.perturbation, row, names) for row in rows)),
        RowGroup(
            "Distance of the dropped turn",
            tuple(_row(str(row.distance), row, names) for row in distance),
        ),
    ]
    several = has_several_seeds(results)
    caption = (
        f"{CHANGE.capitalize()} of the references when the context is perturbed: higher means that"
        f" the model uses what was removed. {measured.examples:,} examples; "
        + (
            "mean over seeds, and 95 % interval over seeds and dialogues."
            if several
            else "95 % interval over dialogues."
        )
    )
    tables = table_of_contenders(results, groups, caption)
    bars = "Dots: mean over seeds; bars: 95 % interval over seeds and dialogues."
    figure_caption = bars if several else "Bars: 95 % interval over dialogues."
    return ReportSection("Use of the context", tables, figure_of(drawings, figure_caption))


def _by_distance(distance: Sequence[DroppedTurn], names: Sequence[str]) -> str:
    values = [_by_index(row, names) for row in distance]
    indices = sorted({index for row in values for index in row})
    series = {index: [row.get(index) for row in values] for index in indices}
    labels = [str(row.distance) for row in distance]
    return categories_svg(labels, series, x="distance of the dropped turn", y=CHANGE)


def _by_index(row: Perturbation | DroppedTurn, names: Sequence[str]) -> dict[int, Spread]:
    return {
        index: Spread(
            row.values[name].mean,
            (interval[1] - interval[0]) / 2 if (interval := row.values[name].interval) else None,
        )
        for index, name in enumerate(names)
        if name in row.values
    }


def _row(label: str, row: Perturbation | DroppedTurn, names: Sequence[str]) -> Row:
    return (ReportCell(label), *(ReportCell(_text(row.values.get(name))) for name in names))


def _text(entry: ContextChange | None) -> str:
    if entry is None:
        return NONE
    mean, *limits = (signed(value, decimals(3)) for value in (entry.mean, *entry.interval))
    return f"{mean} [{', '.join(limits)}]" if limits else mean
