"""Sample of the texts that a tokenizer is trained on."""

from __future__ import annotations

from collections.abc import Iterable

from dialog.errors import UserError


def sample_evenly(texts: Iterable[str], most: int) -> list[str]:
    """Return every k-th text, for the least k = 1, 2, 4, ... that gives at most `most` texts.

    It takes one pass and holds at most `most` texts: when there are more, every second one is
    discarded.

    Raises:
        UserError: `most` is not positive.
    """
    if most < 1:
        raise UserError(f"sample is {most}; give at least 1 text to train on")
    kept: list[str] = []
    step = 1
    for number, text in enumerate(texts):
        if number % step == 0 and len(kept) == most:
            kept = kept[::2]
            step = 2 * step
        if number % step == 0:
            kept.append(text)
    return kept
