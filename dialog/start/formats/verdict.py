"""Result of a check of a format: the corpus that reads the file, or why it does not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple


@dataclass(frozen=True)
class Detected:
    """A corpus that reads the file.

    Args:
        component: The section `data.corpus`.
        description: The format in a few words.
        columns: Role and column (or key) of a table or JSON record, for the user to check.
    """

    component: dict[str, Any]
    description: str
    columns: Mapping[str, str] = field(default_factory=dict)


class Miss(NamedTuple):
    """A format that does not fit: how near it comes, from 0 to 1, and why it fails; `certain` if
    the file has this format, and only a name is missing.
    """

    format: str
    nearness: float
    reason: str
    certain: bool = False
