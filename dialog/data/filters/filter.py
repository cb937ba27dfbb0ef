"""Interface of filters: one survey of the whole corpus, then an independent decision per training
dialogue.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, Protocol

from numpy.typing import NDArray

from dialog.data.dialogue import Dialogue

Splits = Mapping[str, Iterable[tuple[int, Dialogue]]]
"""Per split, pairs (record number, dialogue without empty turns).

Each split can be iterated repeatedly.
"""


class Filter(Protocol):
    """Select the turns of the training split that must not be responses."""

    def survey(self, splits: Splits) -> NDArray[Any]:
        """Return what the decisions need from the whole corpus, as an array that numpy can save
        without pickling.
        """

    def drops(self, surveyed: NDArray[Any], number: int, dialogue: Dialogue) -> Collection[int]:
        """Return the turns of a training dialogue that must not be responses; if all are, the
        dialogue is dropped.

        This is a pure function: processes call it for any dialogues, in any order.

        Args:
            surveyed: The result of `survey`.
            number: Record number of the dialogue in the training split.
            dialogue: The dialogue without empty turns.
        """
