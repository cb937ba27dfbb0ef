"""Constraints on responses that combine with any search.

Shapes: N rows, T tokens so far, S source tokens, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import inf, isfinite

import torch
from torch import Tensor

from dialog.generation.banned_words import BannedWords
from dialog.generation.required_words import RequiredWords
from dialog.models.state import Rows

NEVER = -torch.inf
MOST_TOKENS = 2**20
SLACK = 2
"""Free tokens beyond those that the required words need, in case a banned word excludes one of
them.
"""


@dataclass(frozen=True)
class ConstraintState(Rows):
    """State of the constraints of each row."""

    banned: Tensor  # [N], the state of the automaton of banned words
    required: Tensor  # [N], of required words
    missing: Tensor  # [N], the set of required words that have not occurred yet


@dataclass(frozen=True)
class Constraints:
    """Constraints on the tokens of a response.

    Lengths count tokens without the end token, which is masked before ``min_length``; decoding
    stops at ``max_length``. Masks do not renormalise: scores stay the model's own
    log-probabilities. A row in which all tokens are masked ends.

    Attributes:
        end: The end token.
        special: Tokens that are never emitted.
        min_length: Smallest length.
        max_length: Largest length, at most `MOST_TOKENS`.
        no_repeat_ngram: n-grams of this order occur once in a response; 0 for no limit (Paulus
            et al. 2018).
        block_context_ngram: n-grams of this order of the source do not occur; 0 for no limit.
        repetition_penalty: Logits of tokens that have occurred are divided by it if positive, else
            multiplied by it (Keskar et al. 2019, CTRL); 1 for none.
        frequency_penalty: Subtracted from a logit for each occurrence of its token.
        prefix: Tokens that a response begins with, whatever the other constraints.
        banned: Words that do not occur.
        required: Words that occur. Beam searches reserve places for them (`Banks`). The other
            searches force a missing word when the model would end, or when hardly more tokens are
            left than the words need; they complete a word that has begun.
        normalised: Whether a step's logits are normalised to log-probabilities; else they are
            preferences themselves.
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
    banned: BannedWords | None = None
    required: RequiredWords | None = None
    normalised: bool = True
    penalised: bool = field(init=False)
    excluded: Sequence[slice] = field(init=False)

    def __post_init__(self) -> None:
        if not 0 <= self.min_length <= self.max_length or self.max_length < 1:
            raise ValueError(
                f"min_length is {self.min_length}, max_length is {self.max_length}; "
                "give 0 <= min_length <= max_length, and a max_length of at least 1"
            )
        if self.max_length > MOST_TOKENS:
            raise ValueError(f"max_length is {self.max_length}; give at most {MOST_TOKENS}")
        for name in ("no_repeat_ngram", "block_context_ngram"):
            if getattr(self, name) < 0:
                raise ValueError(
                    f"{name} is {getattr(self, name)}; give 0 for no limit, or the length of an"
                    " n-gram"
                )
        if not 0 < self.repetition_penalty < inf:
            raise ValueError(
                f"repetition_penalty is {self.repetition_penalty}; give a number above 0, or 1 for"
                " none"
            )
        if not isfinite(self.frequency_penalty):
            raise ValueError(
                f"frequency_penalty is {self.frequency_penalty}; give a number, or 0 for none"
            )
        if len(self.prefix) > self.max_length:
            raise ValueError(
                f"prefix has {len(self.prefix)} tokens, more than max_length {self.max_length}"
            )
        if self.required is not None:
            progress = self.start(1, self.required.after.device)
            for token in self.prefix:
                progress = self.advance(progress, torch.full_like(progress.required, token))
            needed = len(self.prefix) + int(
                self.required.needed[progress.required, progress.missing]
            )
            if needed > self.max_length:
                raise ValueError(
                    f"required words and prefix have {needed} tokens, more than max_length"
                )
        penalised = self.repetition_penalty != 1 or self.frequency_penalty != 0
        object.__setattr__(self, "penalised", penalised)
        object.__setattr__(self, "excluded", slices(self.special))

    def start(self, rows: int, device: torch.device) -> ConstraintState:
        """Return the progress of rows before their first token."""
        zeros = torch.zeros(rows, dtype=torch.long, device=device)
        banned = zeros if self.banned is None else zeros + self.banned.start
        if self.required is None:
            return ConstraintState(banned, zeros, zeros)
        return ConstraintState(banned, zeros + self.required.start, zeros + self.required.all_words)

    def __call__(
        self,
        logits: Tensor,
        prefix: Tensor,
        source: Tensor,
        progress: ConstraintState,
        *,
        forced: bool = True,
    ) -> tuple[Tensor, Tensor]:
        """Return log-probabilities and preferences [N, V] of the next token; a search chooses by
        preference.

        The log-probabilities of all tokens that a search may choose are the model's. Without
        penalties both results are the same tensor, in which excluded tokens are -inf.

        Args:
            logits: Of the next token [N, V].
            prefix: Tokens so far [N, T], without the begin token.
            source: Tokens of the source [N, S].
            progress: Of these rows.
            forced: Whether missing words are forced; else they only mask the end token.
        """
        scores = self._normalise(logits.float())  # [N, V]
        length = prefix.shape[1]
        preferences = (
            self._normalise(self._penalise(logits.float(), prefix)) if self.penalised else scores
        )
        if length < len(self.prefix):
            return scores, _only(
                preferences, torch.full_like(progress.banned, self.prefix[length]).unsqueeze(1)
            )
        may_mask_end = (
            length < self.min_length or self.banned is not None or self.required is not None
        )
        ends = scores[:, self.end].clone() if may_mask_end else None  # [N]
        for tokens in self.excluded:
            preferences[:, tokens] = NEVER
        self._block(preferences, prefix, source, progress)
        if length < self.min_length:
            preferences[:, self.end] = NEVER
        preferences = self._require(preferences, length, progress, forced=forced)
        if ends is not None:
            stuck = preferences.amax(-1) == NEVER  # [N]
            preferences[:, self.end] = torch.where(stuck, ends, preferences[:, self.end])
        return scores, preferences

    def stage(self, length: int) -> int:
        """Return a number that is equal for two lengths of which any two rows may share a call: the
        preferences do not depend on their tokens, nor on which of the lengths they have.
        """
        reads = (
            length < len(self.prefix)
            or self.penalised
            or self.no_repeat_ngram > 0
            or self.block_context_ngram > 0
            or self.banned is not None
            or self.required is not None
        )
        return length if reads else -1 - (length < self.min_length)

    def advance(self, progress: ConstraintState, tokens: Tensor) -> ConstraintState:
        """Return the progress after one more token [N] of each row."""
        if self.banned is not None:
            progress = replace(progress, banned=self.banned.after(progress.banned, tokens))
        if self.required is None:
            return progress
        required, missing = self.required.advance(progress.required, progress.missing, tokens)
        return replace(progress, required=required, missing=missing)

    def to(self, device: torch.device) -> Constraints:
        """Return the constraints with their tables on a device."""
        if self.banned is None and self.required is None:
            return self
        values = {
            name: getattr(self, name)
            for name, entry in self.__dataclass_fields__.items()
            if entry.init
        }
        if self.banned is not None:
            values["banned"] = self.banned.to(device)
        if self.required is not None:
            values["required"] = self.required.to(device)
        return Constraints(**values)

    def _normalise(self, logits: Tensor) -> Tensor:
        """Return a new tensor, which may be masked in place."""
        return logits.log_softmax(-1) if self.normalised else logits.clone()

    def _penalise(self, logits: Tensor, prefix: Tensor) -> Tensor:
        """Apply repetition and frequency penalties to logits [N, V]; only tokens of the prefix
        [N, T] change.
        """
        repeated = logits.gather(1, prefix)
        repeated = torch.where(
            repeated > 0, repeated / self.repetition_penalty, repeated * self.repetition_penalty
        )
        if self.frequency_penalty:
            prefix = prefix.contiguous()
            in_order = prefix.sort(1).values
            counts = torch.searchsorted(in_order, prefix, right=True) - torch.searchsorted(
                in_order, prefix
            )
            repeated = repeated - self.frequency_penalty * counts
        return logits.scatter(1, prefix, repeated)

    def _block(
        self, preferences: Tensor, prefix: Tensor, source: Tensor, progress: ConstraintState
    ) -> None:
        """Mask n-grams and banned words in place."""
        for order, text in ((self.no_repeat_ngram, prefix), (self.block_context_ngram, source)):
            if order and prefix.shape[1] >= order - 1 and text.shape[1] >= order:
                windows = text.unfold(1, order, 1)  # [N, windows, order]
                last = prefix[:, prefix.shape[1] - order + 1 :]  # [N, order - 1]
                matches = (windows[..., :-1] == last.unsqueeze(1)).all(-1)  # [N, windows]
                blocked = torch.zeros_like(preferences, dtype=torch.uint8)
                blocked.scatter_reduce_(1, windows[..., -1], matches.to(torch.uint8), "amax")
                blocked[:, self.end] = 0  # a source ends with it, and may end like the response
                preferences.masked_fill_(blocked.bool(), NEVER)
        if self.banned is not None:
            is_last = prefix.shape[1] == self.max_length - 1  # no boundary follows
            completing = self.banned.completing_at_end if is_last else self.banned.completing
            preferences.masked_fill_(completing(progress.banned), NEVER)
            preferences[:, self.end].masked_fill_(self.banned.at_end[progress.banned], NEVER)

    def _require(
        self, preferences: Tensor, length: int, progress: ConstraintState, *, forced: bool
    ) -> Tensor:
        """Mask the end token while a word is missing; force one where the row would end or the
        length requires it.
        """
        if self.required is None:
            return preferences
        needed = self.required.needed[progress.required, progress.missing]  # [N]
        ending = preferences.argmax(1) == self.end
        preferences[:, self.end].masked_fill_(needed > 0, NEVER)
        if not forced:
            return preferences
        hurry = ending | (needed + SLACK >= self.max_length - length)
        return self.required.force(preferences, progress.required, progress.missing, hurry)


def slices(tokens: Sequence[int]) -> list[slice]:
    """Return runs of successive tokens. Unlike a list of tokens, a slice is no index that the host
    copies to the device, for which a GPU would wait at each token.
    """
    runs: list[slice] = []
    for token in sorted(set(tokens)):
        if runs and runs[-1].stop == token:
            runs[-1] = slice(runs[-1].start, token + 1)
        else:
            runs.append(slice(token, token + 1))
    return runs


def _only(preferences: Tensor, tokens: Tensor) -> Tensor:
    """Mask all but one token of each row [N, 1]."""
    kept = preferences.gather(1, tokens).clamp_min(torch.finfo(preferences.dtype).min)
    return torch.full_like(preferences, NEVER).scatter_(1, tokens, kept)
