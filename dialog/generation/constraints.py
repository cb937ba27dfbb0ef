"""Constraints on responses that combine with any search.

Shapes: N rows, T tokens so far, S source tokens, V vocabulary, W required words, M tokens of the longest of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import inf, isfinite
from typing import NamedTuple

import torch
from torch import Tensor

from dialog.generation.word_finder import WordFinder
from dialog.models.state import Rows

NEVER = -torch.inf
SLACK = 2
"""Tokens beyond those of the required words that are kept free, for one that a banned word forbids."""


class RequiredWords(NamedTuple):
    """Words that a response must contain, and the tokens that are forced if the model does not emit them itself."""

    finder: WordFinder
    tokens: Tensor  # [W, M], padded
    lengths: Tensor  # [W]


@dataclass(frozen=True)
class ConstraintState(Rows):
    """State of the constraints of each row."""

    banned: Tensor  # [N], the state of the automaton of banned words
    required: Tensor  # [N], of required words
    missing: Tensor  # [N, W], True = the word has not occurred yet
    begun: Tensor  # [N], tokens of the first missing word that have just been emitted
    closing: Tensor  # [N], the required word that needs a boundary behind it, -1 = none


@dataclass(frozen=True)
class Constraints:
    """Constraints on the tokens of a response.

    Lengths count tokens without the end token, which is masked before ``min_length``; decoding stops at ``max_length``.
    Masks do not renormalise: scores stay the model's own log-probabilities. A row in which everything is masked ends.

    Attributes:
        end: The end token.
        special: Tokens that are never emitted.
        min_length: Smallest length.
        max_length: Largest length.
        no_repeat_ngram: n-grams of this order occur once in a response; 0 for no limit (Paulus et al. 2018).
        block_context_ngram: n-grams of this order of the source do not occur; 0 for no limit.
        repetition_penalty: Logits of tokens that have occurred are divided by it if positive, else multiplied by it
            (Keskar et al. 2019, CTRL); 1 for none.
        frequency_penalty: Subtracted from a logit for each occurrence of its token.
        prefix: Tokens that a response begins with, whatever the other constraints.
        banned: Words that do not occur.
        required: Words that occur. Where the model would rather end, and where the length would soon not suffice, the
            tokens of the first missing word are forced, unless that would complete a banned word; a word that has begun
            is completed.
        normalised: Whether a step's logits are normalised to log-probabilities; else they are preferences themselves.
    """

    end: int
    special: Sequence[int] = ()
    min_length: int = 1
    max_length: int = 60
    no_repeat_ngram: int = 0
    block_context_ngram: int = 0
    repetition_penalty: float = 1.0
    frequency_penalty: float = 0.0
    prefix: Sequence[int] = ()
    banned: WordFinder | None = None
    required: RequiredWords | None = None
    normalised: bool = True
    penalised: bool = field(init=False)

    def __post_init__(self) -> None:
        if not 0 <= self.min_length <= self.max_length or self.max_length < 1:
            raise ValueError(
                f"needs 0 <= min_length <= max_length and max_length >= 1, not {self.min_length}, {self.max_length}"
            )
        for name in ("no_repeat_ngram", "block_context_ngram"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} is {getattr(self, name)}; give 0 for no limit, or the length of an n-gram")
        if not 0 < self.repetition_penalty < inf:
            raise ValueError(f"repetition_penalty is {self.repetition_penalty}; give a number above 0, or 1 for none")
        if not isfinite(self.frequency_penalty):
            raise ValueError(f"frequency_penalty is {self.frequency_penalty}; give a number, or 0 for none")
        if len(self.prefix) > self.max_length:
            raise ValueError(f"prefix has {len(self.prefix)} tokens, more than max_length {self.max_length}")
        needed = 0 if self.required is None else int(self.required.lengths.sum())
        if len(self.prefix) + needed > self.max_length:
            raise ValueError(f"required words and prefix have {len(self.prefix) + needed} tokens, more than max_length")
        penalised = self.repetition_penalty != 1 or self.frequency_penalty != 0
        object.__setattr__(self, "penalised", penalised)

    def start(self, rows: int, device: torch.device) -> ConstraintState:
        """Return the progress of rows before their first token."""
        zeros = torch.zeros(rows, dtype=torch.long, device=device)
        banned, required = (zeros if finder is None else zeros + finder.start for finder in self._finders())
        words = 0 if self.required is None else len(self.required.lengths)
        missing = torch.ones(rows, words, dtype=torch.bool, device=device)
        return ConstraintState(banned, required, missing, zeros, zeros - 1)

    def __call__(
        self, logits: Tensor, history: Tensor, source: Tensor, progress: ConstraintState
    ) -> tuple[Tensor, Tensor]:
        """Return log-probabilities and preferences [N, V] of the next token; a search chooses by preference.

        Log-probabilities are those of the model at every token that a search may choose, and -inf or those of the model
        at the others; without penalties both are one tensor.

        Args:
            logits: Of the next token [N, V].
            history: Tokens so far [N, T], without the begin token.
            source: Tokens of the source [N, S].
            progress: Of these rows.
        """
        scores = self._normalise(logits.float())  # [N, V]
        length = history.shape[1]
        preferences = self._normalise(self._penalise(logits.float(), history)) if self.penalised else scores
        if length < len(self.prefix):
            return scores, _only(preferences, torch.full_like(progress.begun, self.prefix[length]).unsqueeze(1))
        ends = scores[:, self.end].clone()  # [N]
        preferences[:, list(self.special)] = NEVER
        self._block(preferences, history, source, progress)
        if length < self.min_length:
            preferences[:, self.end] = NEVER
        preferences = self._require(preferences, length, progress)
        stuck = preferences.amax(-1) == NEVER  # [N]
        preferences[:, self.end] = torch.where(stuck, ends, preferences[:, self.end])
        return scores, preferences

    def advance(self, progress: ConstraintState, tokens: Tensor) -> ConstraintState:
        """Return the progress after one more token [N] of each row."""
        if self.banned is not None:
            progress = replace(progress, banned=self.banned.after[progress.banned, tokens])
        if self.required is None:
            return progress
        finder, _, lengths = self.required
        first = progress.missing.int().argmax(1)  # [N]
        open_words = progress.missing.any(1)
        begun = torch.where(open_words & (tokens == self._expected(progress)), progress.begun + 1, 0)
        occurred = finder.completes[progress.required, tokens]  # [N, W]
        emitted = open_words & (begun == lengths[first])
        own = torch.zeros_like(occurred).scatter_(1, first.unsqueeze(1), emitted.unsqueeze(1))
        return ConstraintState(
            progress.banned,
            finder.after[progress.required, tokens],
            progress.missing & ~occurred & ~own,
            begun.masked_fill(emitted | occurred.gather(1, first.unsqueeze(1)).squeeze(1), 0),
            torch.where((own & ~occurred).any(1), first, -1),
        )

    def to(self, device: torch.device) -> Constraints:
        """Return the constraints with their tables on a device."""
        if self.banned is None and self.required is None:
            return self
        values = {name: getattr(self, name) for name in self.__dataclass_fields__ if name != "penalised"}
        if self.banned is not None:
            values["banned"] = self.banned.to(device)
        if self.required is not None:
            finder, *tables = self.required
            values["required"] = RequiredWords(finder.to(device), *(table.to(device) for table in tables))
        return Constraints(**values)

    def _finders(self) -> tuple[WordFinder | None, WordFinder | None]:
        return self.banned, None if self.required is None else self.required.finder

    def _normalise(self, logits: Tensor) -> Tensor:
        """Return a new tensor, which may be masked in place."""
        return logits.log_softmax(-1) if self.normalised else logits.clone()

    def _penalise(self, logits: Tensor, history: Tensor) -> Tensor:
        """Apply repetition and frequency penalties to logits [N, V]."""
        counts = torch.zeros_like(logits).scatter_add_(1, history, torch.ones_like(history, dtype=logits.dtype))
        repeated = torch.where(logits > 0, logits / self.repetition_penalty, logits * self.repetition_penalty)
        return torch.where(counts > 0, repeated, logits) - self.frequency_penalty * counts

    def _block(self, preferences: Tensor, history: Tensor, source: Tensor, progress: ConstraintState) -> None:
        """Mask n-grams and banned words in place."""
        for order, text in ((self.no_repeat_ngram, history), (self.block_context_ngram, source)):
            if order and history.shape[1] >= order - 1 and text.shape[1] >= order:
                windows = text.unfold(1, order, 1)  # [N, windows, order]
                last = history[:, history.shape[1] - order + 1 :]  # [N, order - 1]
                matches = (windows[..., :-1] == last.unsqueeze(1)).all(-1)  # [N, windows]
                blocked = torch.zeros_like(preferences, dtype=torch.uint8)
                blocked.scatter_reduce_(1, windows[..., -1], matches.to(torch.uint8), "amax")
                preferences.masked_fill_(blocked.bool(), NEVER)
        if self.banned is not None:
            completes = self.banned.completes[progress.banned].any(-1)  # [N, V]
            if history.shape[1] == self.max_length - 1:  # no boundary follows the last token
                completes |= self.banned.completes_at_end[self.banned.after[progress.banned]].any(-1)
            preferences.masked_fill_(completes, NEVER)
            at_end = self.banned.completes_at_end[progress.banned].any(-1)  # [N]
            preferences[:, self.end].masked_fill_(at_end, NEVER)

    def _require(self, preferences: Tensor, length: int, progress: ConstraintState) -> Tensor:
        """Force missing words where the row would end, where they have begun, or where the length requires it."""
        if self.required is None:
            return preferences
        finder, _, lengths = self.required
        missing = progress.missing & ~finder.completes_at_end[progress.required]  # [N, W]
        unmet = missing.any(1)
        short = (progress.missing * lengths).sum(1) + SLACK >= self.max_length - length
        ending = preferences.argmax(1) == self.end
        preferences[:, self.end].masked_fill_(unmet, NEVER)
        closing = finder.completes[progress.required].gather(
            2, progress.closing.clamp_min(0).view(-1, 1, 1).expand(-1, preferences.shape[1], 1)
        )  # [N, V, 1]
        outside = ~closing.squeeze(2) & (progress.closing >= 0).unsqueeze(1)
        outside[:, self.end] = False
        preferences.masked_fill_(outside, NEVER)
        expected = self._expected(progress).unsqueeze(1)  # [N, 1]
        forced = unmet & (short | ending | (progress.begun > 0)) & (preferences.gather(1, expected).squeeze(1) > NEVER)
        return torch.where(forced.unsqueeze(1), _only(preferences, expected), preferences)

    def _expected(self, progress: ConstraintState) -> Tensor:
        """Return the next token of the first missing word of each row [N]."""
        assert self.required is not None
        first = progress.missing.int().argmax(1)  # [N]
        return self.required.tokens[first, progress.begun]


def _only(preferences: Tensor, tokens: Tensor) -> Tensor:
    """Mask all but one token of each row [N, 1]."""
    kept = preferences.gather(1, tokens).clamp_min(torch.finfo(preferences.dtype).min)
    return torch.full_like(preferences, NEVER).scatter_(1, tokens, kept)
