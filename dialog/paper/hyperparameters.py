"""Hyperparameters of the contenders, from their composed recipes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from dialog.comparison.grid.folder import flat, is_ignored
from dialog.escaping import to_json
from dialog.report.latex import MOST_ROWS, latex_table
from dialog.report.tables import NONE, ReportTable, Row, RowGroup, text_row

UNUSED: tuple[object, ...] = (None, "", [], {})
"""Values of settings that are not used."""
MOST_COLUMNS = 4
"""Contenders beside each other."""


def hyperparameters(recipes: Mapping[str, Mapping[str, Any]]) -> str:
    """Return tables of the settings that differ between contenders, and of those that all share.

    Settings of the machine and of what is logged are left out, and so are unused ones.
    """
    leaves = {name: flat(recipe) for name, recipe in recipes.items()}
    keys = dict.fromkeys(key for values in leaves.values() for key in values)
    rows: dict[str, list[Any]] = {}
    for key in keys:
        values = [one.get(key) for one in leaves.values()]
        if not is_ignored(key) and any(value not in UNUSED for value in values):
            rows[key] = values
    differing = {key: values for key, values in rows.items() if _differ(values)}
    shared = {key: values for key, values in rows.items() if key not in differing}
    names = list(recipes)
    tables = [
        *_differing_tables(names, differing),
        *_tables(("Shared setting", "Value"), {key: values[:1] for key, values in shared.items()}),
    ]
    return "\n\n".join(
        latex_table(table, label=f"tab:hyperparameters-{number}")
        for number, table in enumerate(tables, start=1)
    )


def _differing_tables(names: Sequence[str], rows: Mapping[str, list[Any]]) -> Iterator[ReportTable]:
    for start in range(0, len(names), MOST_COLUMNS):
        columns = slice(start, start + MOST_COLUMNS)
        head = ("Differing setting", *names[columns])
        yield from _tables(head, {key: values[columns] for key, values in rows.items()})


def _tables(head: Sequence[str], rows: Mapping[str, Sequence[Any]]) -> Iterator[ReportTable]:
    """Yield tables with a group for each section of a recipe, in parts that fit a page."""
    groups: dict[str, list[Row]] = {}
    for key, values in rows.items():
        section, _, name = key.partition(".")
        row = text_row(name or section, *map(_text, values))
        groups.setdefault(section, []).append(row)
    what = "that differ between the systems" if len(head) > 2 else "that all systems share"
    caption = f"Settings {what}, by section of the recipe. {NONE}: not used."
    page: list[RowGroup] = []
    for title, cells in groups.items():
        if page and len(cells) + sum(len(group.rows) for group in page) > MOST_ROWS:
            yield ReportTable(tuple(head), tuple(page), caption)
            page = []
        page.append(RowGroup(title, tuple(cells)))
    if page:
        yield ReportTable(tuple(head), tuple(page), caption)


def _differ(values: Sequence[Any]) -> bool:
    return any(value != values[0] for value in values)


def _text(value: object) -> str:
    if value is None or value in UNUSED:
        return NONE
    return value if isinstance(value, str) else to_json(value)
