"""Short names of contenders, with which reports show results."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import takewhile
from typing import Any

from dialog.report.tables import Results, model_names

TEXTS = ("verdict", "text", "warnings")
"""Fields with sentences, in which names of contenders occur."""
UNNAMED = ("command", "environment", "samples", "disagreements", "rating")
"""Fields without names of contenders, which may have texts of users."""


def displayed(results: Results) -> dict[str, Any]:
    """Return results with short names of the contenders, and "shared", the common part of names."""
    names = model_names(results)
    shared, labels = short_labels(names)
    named = {key: value for key, value in results.items() if key not in UNNAMED}
    return {
        **results,
        **_renamed(named, dict(zip(names, labels, strict=True)), ""),
        "shared": shared,
    }


def short_labels(names: Sequence[str]) -> tuple[str, list[str]]:
    """Return what names have in common, their folder, first words or recipe, and their labels
    without it.

    ``task/lstm[attention=dot]`` and ``task/lstm[attention=none]`` share ``task/lstm``;
    ``task/lstm`` and ``task/gru`` share ``task``, and so do ``task-lstm`` and ``task-gru``.
    """
    if len(names) < 2:
        return "", list(names)
    recipes = [name.partition("[")[0] for name in names]
    if len(set(recipes)) == 1 and all(name.endswith("]") for name in names):
        return recipes[0], [name[len(recipes[0]) + 1 : -1] for name in names]
    start = _shared_start(recipes, "/")
    start += _shared_start([recipe[len(start) :].partition("/")[0] for recipe in recipes], "-")
    return start[:-1], [name[len(start) :] for name in names]


def _shared_start(texts: Sequence[str], separator: str) -> str:
    """Return the parts with which all texts start, each with its separator."""
    parts = zip(*(text.split(separator)[:-1] for text in texts), strict=False)
    return "".join(
        f"{equal[0]}{separator}" for equal in takewhile(lambda column: len(set(column)) == 1, parts)
    )


def _renamed(value: Any, labels: Mapping[str, str], field: str) -> Any:
    """Replace names of contenders: whole keys and values, and words of the sentences in `TEXTS`,
    but not in paths.
    """
    if isinstance(value, Mapping):
        return {labels.get(key, key): _renamed(item, labels, key) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_renamed(item, labels, field) for item in value]
    if isinstance(value, str) and field in TEXTS:
        longest_first = "|".join(map(re.escape, sorted(labels, key=len, reverse=True)))
        return re.sub(
            rf"(?<![\w/])(?:{longest_first})(?![\w/])", lambda match: labels[match[0]], value
        )
    return labels.get(value, value) if isinstance(value, str) else value
