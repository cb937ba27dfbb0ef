"""What a filter of the training split is."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, Protocol

from numpy.typing import NDArray

from dialog.data.dialogue import Dialogue

Splits = Mapping[str, Iterable[tuple[int, Dialogue]]]
"""Of each split of `dialog.data.dialogue.SPLITS` its dialogues without their empty turns, each with the number of its
record in the split. A split can be iterated as often as one likes, from its beginning each time."""


class Filter(Protocol):
    """Says which turns of the training split are no responses; validation and test are never changed."""

    def survey(self, splits: Splits) -> NDArray[Any]:
        """What the filter must know of the whole corpus: an array without objects, so that it can be saved."""

    def drops(self, known: NDArray[Any], number: int, dialogue: Dialogue) -> Collection[int]:
        """The turns of a training dialogue that shall be no responses; where that is all of them, the dialogue goes.

        A pure function of its arguments: any process may ask it about any dialogue, in any order.

        Args:
            known: What `survey` gave.
            number: The number of the dialogue's record in the training split.
            dialogue: The dialogue without its empty turns.
        """
