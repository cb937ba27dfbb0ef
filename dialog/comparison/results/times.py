"""Fields of results.json that are measured by the clock, and so differ between two runs of the same comparison."""

from __future__ import annotations

from typing import Any

from dialog.runs.evaluation.files import COST

TIMES = ("seconds", "time", "tokens_per_second", "seconds_to", "milliseconds_per_response", "peak_memory_bytes", COST)
"""Keys, wherever they occur; the last one has the hash of measured times."""
ROWS = {"what": "training seconds", "axis": "seconds"}
"""Entries of lists, by one of their fields: a row of "parity", and crossings of the curves over seconds."""


def without_times(results: Any) -> Any:  # noqa: ANN401 - any JSON
    """Return results.json without what the clock has measured: equal for two runs of the same comparison."""
    if isinstance(results, dict):
        return {key: without_times(value) for key, value in results.items() if key not in TIMES}
    if isinstance(results, list):
        return [without_times(value) for value in results if not is_timed(value)]
    return results


def is_timed(entry: object) -> bool:
    """Return whether an entry of a list is one of `ROWS`."""
    return isinstance(entry, dict) and any(entry.get(key) == value for key, value in ROWS.items())
