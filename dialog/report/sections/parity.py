"""Parity contract: settings and costs that differ, and those that are equal."""

from __future__ import annotations

from collections.abc import Sequence

from dialog.report.formats.numbers import count, general, magnitude
from dialog.report.formats.results import ParitySetting, Results
from dialog.report.tables import (
    UNKNOWN,
    ReportCell,
    ReportSection,
    Row,
    RowGroup,
    table_of_groups,
)
from dialog.report.terminal import truncate

LARGE = 1e4
"""Settings that are no whole numbers have a prefix from here on: 314 k, 6.20 M FLOPs."""


def parity(results: Results) -> ReportSection:
    """Return whether the contract is kept, the settings that differ, those that must not first, and
    the equal ones.
    """
    rows = sorted((row for row in results.parity if not row.equal), key=lambda row: not row.must)
    equal = [row for row in results.parity if row.equal]
    broken = [row for row in rows if row.must]
    must = sum(row.must for row in results.parity)
    head = ("", *results.names, "parity")
    options = {"contenders": len(results.models)}
    unknown = [row.what for row in broken if is_unknown(row.values)]
    differing = [row.what for row in broken if not is_unknown(row.values)]
    sentences = [
        f"{len(settings)} of {must} settings that must be equal for a fair comparison {state}:"
        f" {', '.join(settings)}."
        for settings, state in (
            (differing, "differ"),
            (unknown, "are not known for all contenders"),
        )
        if settings
    ]
    if must and not sentences:
        sentences = [
            f"None of the {must} settings that must be equal for a fair comparison differs."
        ]
    notes = (" ".join(sentences),) if sentences else ()
    caption = "Settings and costs that differ between the contenders." + (
        " ✗: must be equal." if broken else ""
    )
    tables = table_of_groups(
        head, [RowGroup("", tuple(map(_row, rows)))], caption=caption, **options
    )
    label = f"{len(equal)} equal settings"
    tables += table_of_groups(
        head, [RowGroup("", tuple(map(_row, equal)))], caption=label, folded=label, **options
    )
    return ReportSection("Parity contract", tables, notes=notes)


def broken_settings(results: Results) -> list[Row]:
    """Return the rows that must be equal but differ."""
    return [_row(row) for row in results.parity if row.must and not row.equal]


def is_unknown(values: Sequence[object]) -> bool:
    """Return whether values may be equal, since all that are known are."""
    return UNKNOWN in values and len({str(value) for value in values} - {UNKNOWN}) <= 1


def _row(row: ParitySetting) -> Row:
    return (*map(ReportCell, (row.what, *map(_setting_text, row.values))), _state(row))


def _state(row: ParitySetting) -> ReportCell:
    if row.equal:
        return ReportCell("✓ equal", "equal")
    if row.must:
        return ReportCell("✗ unknown" if is_unknown(row.values) else "✗ must be equal", "broken")
    if is_unknown(row.values):
        return ReportCell("unknown", "differs")
    return ReportCell("differs" + _relative_difference(row.values), "differs")


def _relative_difference(values: Sequence[object]) -> str:
    """Return max / min - 1 in percent, or max / min as a factor; empty unless all values are
    positive numbers.
    """
    numbers = [value for value in values if isinstance(value, int | float) and value > 0]
    if len(numbers) < len(values):
        return ""
    factor = max(numbers) / min(numbers)
    return f" by a factor of {factor:.3g}" if factor > 2 else f" by {100 * (factor - 1):.1f} %"


def _setting_text(value: object) -> str:
    if value is None:
        return "not recorded"
    if isinstance(value, bool) or not isinstance(value, int | float):
        return truncate(str(value), 72)
    if isinstance(value, int):
        return count(value)
    return magnitude(value) if abs(value) >= LARGE else general(value)
