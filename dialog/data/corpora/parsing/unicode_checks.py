"""Check that the id of a dialogue is not empty, and that its texts are strings of whole Unicode
characters.
"""

from __future__ import annotations

from dialog.data.dialogue import WARNING, Dialogue
from dialog.errors import UserError


def check_texts(dialogue: Dialogue) -> None:
    """Raise UserError if the id is empty, or a text, speaker, id, author or warning no text or half
    a character.
    """
    if dialogue.id == "":
        raise UserError(
            f"{dialogue.place}: the id of this dialogue is empty; give each dialogue its own id"
        )
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
        raise UserError(
            f"{place}: holds half a character ({surrogate}); write both surrogates"
        ) from error
