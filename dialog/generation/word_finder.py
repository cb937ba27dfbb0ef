"""Find words in text that grows token by token, however the words are split into tokens.

Shapes: N rows, V vocabulary, W words, A states of the automaton.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import compress
from unicodedata import normalize

import numpy as np
import torch
from torch import Tensor

from dialog.metrics.words import UNDETERMINED, detect_language

BOUNDARY = 0
"""Symbol of a character between words, and of both ends of a text."""
ASCII_WORD = frozenset(b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz")
GAP = frozenset((0xC2, *range(0xE2, 0xEA), 0xEF, *range(0xF0, 0xF5)))
"""First bytes of the UTF-8 of other characters between words.

C2: Latin-1 punctuation, E2: general punctuation and symbols, E3 to E9: punctuation, kana and Han, EF: full width, F0 to
F4: emoji. The few letters among them, such as superscripts, count as gaps too.
"""
CONTINUATION = range(0x80, 0xC0)
"""The other bytes of a character."""


@dataclass(frozen=True)
class WordFinder:
    """Automaton of Aho & Corasick (1975) over bytes, as tables over tokens.

    A word counts if an end of the text or a character between words stands on both sides: ASCII that is neither letter
    nor digit, or one of `GAP`. Upper and lower case are equal in ASCII. Words of scripts without spaces count anywhere.
    """

    after: Tensor  # [A, V], the state after a token
    completes: Tensor  # [A, V, W], True = the token completes the word, with the boundary behind it (see `separate`)
    completes_at_end: Tensor  # [A, W], True = the word is complete if the text ends here
    start: int

    @classmethod
    def build(cls, words: Sequence[str], pieces: Sequence[bytes], *, separate: bool = False) -> WordFinder:
        """Build the tables for words and the bytes of each token of a vocabulary.

        Args:
            words: To find.
            pieces: Bytes of each token.
            separate: Whether to tell the words apart; else W = 1 stands for any of them, and a long list costs little.
                A token after which nothing but to complete a word is left then counts too: a word that is one token.

        Raises:
            ValueError: a word without a letter or digit.
        """
        goto, output = _byte_automaton(words)
        if not separate:
            output = np.any(output, axis=1)[:, np.newaxis]
        states = np.arange(len(goto))
        after = np.empty((len(goto), len(pieces)), dtype=np.int64)
        completes = np.zeros((len(goto), len(pieces), output.shape[1]), dtype=bool)
        for token, piece in enumerate(pieces):
            state = states
            for byte in piece:
                state = goto[state, byte]
                completes[:, token] |= output[state]
            after[:, token] = state
        at_end = output[goto[states, ord(" ")]]
        if not separate:
            completes = _without_dead_ends(after, completes, at_end, [bool(piece) for piece in pieces])
        return cls(torch.from_numpy(after), torch.from_numpy(completes), torch.from_numpy(at_end), 0)

    def to(self, device: torch.device) -> WordFinder:
        """Return the tables on a device."""
        return WordFinder(
            self.after.to(device), self.completes.to(device), self.completes_at_end.to(device), self.start
        )


def symbol(byte: int) -> int:
    """Return a byte, lower-cased, or `BOUNDARY` if it is ASCII that is neither letter nor digit."""
    return byte if byte >= 0x80 else ord(chr(byte).lower()) if byte in ASCII_WORD else BOUNDARY


def symbols(text: bytes, *, spaced: bool) -> list[int]:
    """Return the symbols of a text; if words are `spaced`, each character of `GAP` is one `BOUNDARY`."""
    if not spaced:
        return [symbol(byte) for byte in text]
    result, in_gap = [], False
    for byte in text:
        if not (in_gap and byte in CONTINUATION):
            in_gap = byte in GAP
            result.append(BOUNDARY if in_gap else symbol(byte))
    return result


def is_spaced(word: str) -> bool:
    """Return whether a word needs boundaries: it has no letter of a script without spaces, or of `GAP`."""
    return detect_language([word]) == UNDETERMINED and not any(
        character.isalnum() and character.encode()[0] in GAP for character in word
    )


def pattern(word: str) -> list[int]:
    """Return the symbols of a word with boundaries; without them in a script that has no spaces.

    Raises:
        ValueError: a word without a letter or digit.
    """
    spaced = is_spaced(word)
    inner = symbols(normalize("NFC", word.strip()).encode(), spaced=spaced)
    if not any(part != BOUNDARY for part in inner):
        raise ValueError(f"{word!r} has no letter or digit; banned and required words need one")
    return [BOUNDARY, *inner, BOUNDARY] if spaced else inner


def occurs(word: str, text: str) -> bool:
    """Return whether a text contains a word between boundaries."""
    inner = bytes([BOUNDARY, *symbols(normalize("NFC", text).encode(), spaced=is_spaced(word)), BOUNDARY])
    return bytes(pattern(word)) in inner


def _without_dead_ends(
    after: np.ndarray, completes: np.ndarray, at_end: np.ndarray, has_text: Sequence[bool]
) -> np.ndarray:
    """Return `completes` [A, V, 1] with the tokens after which every end and every next token completes a word.

    With a token per word every token begins with a boundary, so a word is complete before the next one.
    """
    while True:
        dead = at_end & completes[:, np.array(has_text)].all(1)  # [A, 1]
        marked = completes | dead[after]
        if np.array_equal(marked, completes):
            return completes
        completes = marked


def _byte_automaton(words: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """Return the transitions [A, 256] over bytes, and the words [A, W] that are complete in each state; 0 is the start.

    It runs two automata side by side, since spaced words see other symbols than the rest. Only states that a text can
    reach are kept.
    """
    patterns = [pattern(word) for word in words]
    has_spaces = np.array([is_spaced(word) for word in words], dtype=bool)
    spaced, spaced_output = _automaton(list(compress(patterns, has_spaces)))
    other, other_output = _automaton(list(compress(patterns, ~has_spaces)))
    lower = np.array([symbol(byte) for byte in range(256)])
    begins_gap = np.isin(np.arange(256), list(GAP))
    continues = np.isin(np.arange(256), list(CONTINUATION))
    first = (int(spaced[0, BOUNDARY]), False, int(other[0, BOUNDARY]))
    numbers = {first: 0}
    rows = []
    queue = deque([first])
    while queue:
        state, in_gap, state_of_others = queue.popleft()
        stays = continues & in_gap
        next_states = np.where(stays, state, spaced[state, np.where(begins_gap, BOUNDARY, lower)])
        triples = zip(
            next_states.tolist(), (stays | begins_gap).tolist(), other[state_of_others, lower].tolist(), strict=True
        )
        row = []
        for triple in triples:
            if triple not in numbers:
                numbers[triple] = len(numbers)
                queue.append(triple)
            row.append(numbers[triple])
        rows.append(row)
    output = np.zeros((len(rows), len(words)), dtype=bool)
    output[:, has_spaces] = spaced_output[[state for state, _, _ in numbers]]
    output[:, ~has_spaces] = other_output[[state for _, _, state in numbers]]
    return np.array(rows), output


def _automaton(patterns: Sequence[Sequence[int]]) -> tuple[np.ndarray, np.ndarray]:
    """Return the transitions [A, 256] over symbols, and the patterns [A, W] that end in each state."""
    children: list[dict[int, int]] = [{}]
    ends: list[set[int]] = [set()]
    for number, symbols_of_word in enumerate(patterns):
        state = 0
        for part in symbols_of_word:
            if part not in children[state]:
                children[state][part] = len(children)
                children.append({})
                ends.append(set())
            state = children[state][part]
        ends[state].add(number)
    goto = np.zeros((len(children), 256), dtype=np.int64)
    output = np.zeros((len(children), len(patterns)), dtype=bool)
    fallback = [0] * len(children)
    queue = deque([0])
    while queue:
        state = queue.popleft()
        if state:
            goto[state] = goto[fallback[state]]
            output[state] = output[fallback[state]]
        output[state, list(ends[state])] = True
        for part, child in children[state].items():
            fallback[child] = int(goto[fallback[state], part]) if state else 0
            goto[state, part] = child
            queue.append(child)
    return goto, output
