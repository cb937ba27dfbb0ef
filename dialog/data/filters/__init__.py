"""Filters drop responses and dialogues from the training split: `data.filters: [{name: ...}, ...]`
of a recipe.

Validation and test are never filtered. Read first: `filter.py`.
"""

from __future__ import annotations

from dialog.config.components import Family
from dialog.data.filters.duplicates import DropDuplicates
from dialog.data.filters.entropy import DropOpenPairs
from dialog.data.filters.filter import Filter, Splits
from dialog.data.filters.leaking import DropLeakingDialogues
from dialog.data.filters.length import DropByLength

__all__ = [
    "FILTERS",
    "DropByLength",
    "DropDuplicates",
    "DropLeakingDialogues",
    "DropOpenPairs",
    "Filter",
    "Splits",
]

FILTERS: Family[Filter] = Family(
    "filter",
    {
        "drop_duplicates": DropDuplicates,
        "drop_leaking_dialogues": DropLeakingDialogues,
        "entropy": DropOpenPairs,
        "length": DropByLength,
    },
)
