"""Check that the texts of a dialogue are strings of whole Unicode characters."""

from __future__ import annotations

from dialog.data.dialogue import WARNING, Dialogue
from dialog.errors import UserError


def check_texts(dialogue: Dialogue) -> None:
    """Raise UserError if a text, speaker, id, author or warning is not a string or holds a lone surrogate."""
    turns = (*dialogue.turns, *dialogue.facts)
    meta = [text for key in ("author", WARNING) if isinstance(text := dialogue.meta.get(key), str)]
    texts = [dialogue.id, *[turn.speaker for turn in turns], *[turn.text for turn in turns], *meta]
    try:
        "".join(texts).encode()
    except (TypeError, UnicodeEncodeError):
        for text in texts:
            _check_text(text, dialogue.place)


def _check_text(text: object, place: str) -> None:
    if not isinstance(text, str):
        raise UserError(f"{place}: {text!r} is not text; write it in quotes")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        surrogate = f"\\u{ord(text[error.start]):04x}"
        raise UserError(f"{place}: holds half a character ({surrogate}); write both surrogates") from error
