"""The texts that a tokenizer learns from, where there are more than it needs."""

from __future__ import annotations

from collections.abc import Iterable

from dialog.errors import UserError


def evenly(texts: Iterable[str], most: int) -> list[str]:
    """At most `most` of the texts, spread evenly over them: every k-th, for the least k = 1, 2, 4, ... that fits.

    One pass, and never more than `most` texts are held: when they are too many, every second one goes.

    Raises:
        UserError: `most` is not positive.
    """
    if most < 1:
        raise UserError(f"sample is {most}; give at least 1 text to learn from")
    kept: list[str] = []
    step = 1
    for number, text in enumerate(texts):
        if number % step == 0 and len(kept) == most:
            kept, step = kept[::2], 2 * step
        if number % step == 0:
            kept.append(text)
    return kept
