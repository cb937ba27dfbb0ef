"""A file per filter of training dialogues, and the table that names them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Protocol

from numpy.typing import NDArray

from dialog.data.dialogue import Dialogue


class Filter(Protocol):
    """Says which training turns shall be no responses."""

    def survey(self, splits: Mapping[str, Iterable[tuple[int, Dialogue]]]) -> NDArray[Any]:
        """What it must know of the whole corpus: an array, no objects.

        `splits[split]` yields (number of the record in its split, dialogue), anew at each lookup.
        """

    def drops(self, known: NDArray[Any], number: int, dialogue: Dialogue) -> Collection[int]:
        """The turns of a training dialogue that shall be no responses; all of them: the dialogue goes."""


FILTERS: dict[str, Callable[..., Filter]] = {}
