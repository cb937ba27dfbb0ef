"""Marks of a missing turn in ParlAI's files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from dialog.data.dialogue import Turn

SILENCE = ("__SILENCE__", "<SILENCE>")


def without_silence(turns: Iterable[Turn]) -> Iterator[Turn]:
    """Yield the turns whose text is not a mark of `SILENCE`."""
    return (turn for turn in turns if turn.text.strip() not in SILENCE)
