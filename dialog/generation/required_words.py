"""Words that a response must contain, found in its text.

Shapes: N rows, V vocabulary, A states of the automaton, W words, U usual tokens. A set of words is
a number; its bit w stands for word w.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from dialog.generation.words.automaton import WordAutomaton

MOST = 12
"""Words at most: the table of sets has 2^W columns."""
UNREACHABLE = 10**6


@dataclass(frozen=True)
class RequiredWords:
    """Number of tokens that each state of a response still needs until it contains all words.

    ``needed[a, m]`` is the smallest number of usual tokens that lead from state a, with the words m
    missing, to a text that contains all of them. Words may share tokens, and a word that breaks off
    counts nothing: the automaton follows the text, not the tokens.
    """

    after: Tensor  # [A, V], the state after a token
    occurring: Tensor  # [A, V], the words that a token completes, with the boundary behind them
    complete_at_end: Tensor  # [A], the words that are complete if the text ends here
    needed: Tensor  # [A, 2^W]
    usual: Tensor  # [U], the tokens of usual spellings of the words
    start: int

    @classmethod
    def build(
        cls, words: Sequence[str], pieces: Sequence[bytes], usual: Sequence[int]
    ) -> RequiredWords:
        """Build the tables for words, the bytes of each token, and the tokens of the words' usual
        spellings.

        Raises:
            ValueError: too many words, one without a letter or digit, or one that the usual tokens
                do not spell.
        """
        if len(words) > MOST:
            raise ValueError(f"{len(words)} required words; give at most {MOST}")
        automaton = WordAutomaton.build(words, separate=True)
        after, occurring = token_tables(automaton, pieces)
        at_end = automaton.at_end.astype(np.int64)
        tokens = sorted(set(usual))
        needed = tokens_needed(after[:, tokens], occurring[:, tokens], at_end, len(words))
        for number, word in enumerate(words):
            if needed[automaton.start, 1 << number] >= UNREACHABLE:
                raise ValueError(f"required word {word!r} is not in the vocabulary")
        return cls(
            torch.from_numpy(after),
            torch.from_numpy(occurring),
            torch.from_numpy(at_end),
            torch.from_numpy(needed),
            torch.tensor(tokens, dtype=torch.long),
            automaton.start,
        )

    @property
    def all_words(self) -> int:
        """The set of all words."""
        return self.needed.shape[1] - 1

    def to(self, device: torch.device) -> RequiredWords:
        """Return the tables on a device."""
        return RequiredWords(
            self.after.to(device),
            self.occurring.to(device),
            self.complete_at_end.to(device),
            self.needed.to(device),
            self.usual.to(device),
            self.start,
        )

    def advance(self, states: Tensor, missing: Tensor, tokens: Tensor) -> tuple[Tensor, Tensor]:
        """Return the states and the missing words after tokens; all of one shape, or broadcast."""
        return self.after[states, tokens], missing & ~self.occurring[states, tokens]

    def needed_after(self, states: Tensor, missing: Tensor, tokens: Tensor) -> Tensor:
        """Return how many tokens are needed after one more token; all of one shape, or
        broadcast.
        """
        return self.needed[self.advance(states, missing, tokens)]

    def force(self, preferences: Tensor, states: Tensor, missing: Tensor, hurry: Tensor) -> Tensor:
        """Keep only tokens that lead to a missing word where a row is in a hurry [N] or a word has
        begun.

        A word that has just been completed keeps its boundary. Where all these tokens are masked,
        nothing is forced.

        Args:
            preferences: Of the next token [N, V].
            states: Of the automaton [N].
            missing: Words that are missing [N].
            hurry: True = the next token has to lead to a word.
        """
        tokens = torch.arange(preferences.shape[1], device=states.device)
        after = self.needed_after(states.unsqueeze(1), missing.unsqueeze(1), tokens)  # [N, V]
        needed = self.needed[states, missing]  # [N]
        absent = missing & ~self.complete_at_end[states]
        begun = needed < self.needed[self.start, absent]
        forced = (needed > 0) & (hurry | begun)
        excluded = (after > needed.unsqueeze(1)) & (absent != missing).unsqueeze(1)
        excluded |= (after >= needed.unsqueeze(1)) & forced.unsqueeze(1)
        masked = preferences.masked_fill(excluded, -torch.inf)
        possible = masked.amax(1, keepdim=True) > -torch.inf
        return torch.where(possible, masked, preferences)


def token_tables(
    automaton: WordAutomaton, pieces: Sequence[bytes]
) -> tuple[np.ndarray, np.ndarray]:
    """Return the states [A, V] after each token of each state, and the words [A, V] that it
    completes.
    """
    states = np.arange(len(automaton.goto))
    after = np.empty((len(states), len(pieces)), dtype=np.int64)
    occurring = np.zeros_like(after)
    for token, piece in enumerate(pieces):
        state = states
        for last in piece.translate(automaton.classes):
            occurring[:, token] |= automaton.completes[state, last]
            state = automaton.goto[state, last]
        after[:, token] = state
    return after, occurring


def tokens_needed(
    after: np.ndarray, occurring: np.ndarray, at_end: np.ndarray, words: int
) -> np.ndarray:
    """Return the smallest numbers of tokens [A, 2^W] to the end of all missing words.

    Args:
        after: States after the usual tokens [A, U].
        occurring: Words that these complete [A, U].
        at_end: Words that are complete if the text ends [A].
        words: W.
    """
    needed = np.full((len(after), 1 << words), UNREACHABLE)
    for missing in range(1 << words):  # after all its subsets
        left = missing & ~occurring  # [A, U]
        needed[missing & ~at_end == 0, missing] = 0
        while True:
            shorter = np.minimum(
                needed[:, missing], 1 + needed[after, left].min(1, initial=UNREACHABLE)
            )
            if (shorter == needed[:, missing]).all():
                break
            needed[:, missing] = shorter
    return needed
