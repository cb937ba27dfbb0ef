"""Find words in text that grows token by token, however the words are split into tokens.

Shapes: N rows, V vocabulary, W words, A states of the automaton.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from dialog.metrics.words import UNDETERMINED, detect_language

BOUNDARY = 0
"""Symbol of everything between words: ASCII that is neither letter nor digit, and both ends of a text."""
ASCII_WORD = frozenset(b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz")


@dataclass(frozen=True)
class WordFinder:
    """Automaton of Aho & Corasick (1975) over bytes, as tables over tokens.

    A word counts if ASCII white space, ASCII punctuation or an end of the text stands on both sides; upper and lower
    case are equal in ASCII. In scripts without spaces every occurrence counts.
    """

    after: Tensor  # [A, V], the state after a token
    completes: Tensor  # [A, V, W], True = the token completes the word, with the boundary behind it
    completes_at_end: Tensor  # [A, W], True = the word is complete if the text ends here
    start: int

    @classmethod
    def build(cls, words: Sequence[str], pieces: Sequence[bytes]) -> WordFinder:
        """Build the tables for words and the bytes of each token of a vocabulary.

        Raises:
            ValueError: a word without a letter or digit.
        """
        goto, output = _automaton([pattern(word) for word in words])
        states = np.arange(len(goto))
        after = np.empty((len(goto), len(pieces)), dtype=np.int64)
        completes = np.zeros((len(goto), len(pieces), len(words)), dtype=bool)
        for token, piece in enumerate(pieces):
            state = states
            for symbol in symbols(piece):
                state = goto[state, symbol]
                completes[:, token] |= output[state]
            after[:, token] = state
        at_end = output[goto[states, BOUNDARY]]
        start = int(goto[0, BOUNDARY])
        return cls(torch.from_numpy(after), torch.from_numpy(completes), torch.from_numpy(at_end), start)

    def to(self, device: torch.device) -> WordFinder:
        """Return the tables on a device."""
        return WordFinder(
            self.after.to(device), self.completes.to(device), self.completes_at_end.to(device), self.start
        )


def symbols(text: bytes) -> list[int]:
    """Return lower-cased bytes, with `BOUNDARY` for everything between words."""
    return [byte if byte >= 128 else ord(chr(byte).lower()) if byte in ASCII_WORD else BOUNDARY for byte in text]


def pattern(word: str) -> list[int]:
    """Return the symbols of a word with boundaries; without them in a script that has no spaces.

    Raises:
        ValueError: a word without a letter or digit.
    """
    inner = symbols(word.strip().encode())
    if not any(symbol != BOUNDARY for symbol in inner):
        raise ValueError(f"{word!r} has no letter or digit; banned and required words need one")
    return inner if detect_language([word]) != UNDETERMINED else [BOUNDARY, *inner, BOUNDARY]


def occurs(word: str, text: str) -> bool:
    """Return whether a text contains a word between boundaries."""
    inner = bytes([BOUNDARY, *symbols(text.encode()), BOUNDARY])
    return bytes(pattern(word)) in inner


def _automaton(patterns: Sequence[Sequence[int]]) -> tuple[np.ndarray, np.ndarray]:
    """Return the transitions [A, 256], and the patterns [A, W] that end in each state."""
    children: list[dict[int, int]] = [{}]
    ends: list[set[int]] = [set()]
    for number, symbols_of_word in enumerate(patterns):
        state = 0
        for symbol in symbols_of_word:
            if symbol not in children[state]:
                children[state][symbol] = len(children)
                children.append({})
                ends.append(set())
            state = children[state][symbol]
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
        for symbol, child in children[state].items():
            fallback[child] = int(goto[fallback[state], symbol]) if state else 0
            goto[state, symbol] = child
            queue.append(child)
    return goto, output
