"""Rows of one batch that join and leave at any token, each with its own search.

Shapes: n rows, S source tokens, T tokens so far, V vocabulary, L = max_length.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import isnan
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from dialog.data.tokenizers.tokenizer import BOS, PAD
from dialog.generation.constraints import ConstraintState
from dialog.generation.search import EncodingStep, Hypothesis
from dialog.generation.searches.rows import RowSearch
from dialog.models.state import Rows

SHARE = 8
PATIENCE = 3
"""To join costs about as much as a token of all rows; see `RowLoop`."""


@dataclass(eq=False)
class Row:
    """A response in progress; it leaves the batch before the next token once it has ended.

    Attributes:
        search: Chooses its tokens.
        source: The tokens that it answers.
        numbers: Draws of `RowSearch.uniform` for its tokens [L + 1]; empty for other searches.
        tokens: Chosen so far, with the end token.
        scores: Their log-probabilities.
        ended: True if no further token is needed.
    """

    search: RowSearch
    source: Sequence[int]
    numbers: Sequence[float]
    tokens: list[int] = field(default_factory=list)
    scores: list[float] = field(default_factory=list)
    ended: bool = False

    def append(self, token: int, score: float) -> None:
        """Add a token; the row ends with the end token, or with the first one beyond max_length."""
        self.tokens.append(token)
        self.scores.append(score)
        constraints = self.search.constraints
        self.ended = token == constraints.end or len(self.tokens) > constraints.max_length

    @property
    def finished(self) -> bool:
        """True if the last token is the end token."""
        return self.tokens[-1:] == [self.search.constraints.end]

    @property
    def response(self) -> list[int]:
        """The tokens of the response, without the end token."""
        longest = self.search.constraints.max_length
        return self.tokens[:-1] if self.finished else self.tokens[:longest]

    def hypothesis(self) -> Hypothesis | None:
        """Return the response; None if a score is not a number."""
        scores = self.scores[: len(self.response) + self.finished]
        total = sum(scores)
        if isnan(total):
            return None
        return Hypothesis(self.response, scores, self.finished, total)


def candidate_rows(search: RowSearch, source: Sequence[int], name: str) -> list[Row]:
    """Return the rows of a response to a source, one for each candidate; ``name`` is the id of its
    draws.
    """
    numbers = search.uniform(torch.tensor([source]), [name], search.candidates)
    draws = [[]] * search.candidates if numbers is None else numbers.tolist()
    return [Row(search, source, own) for own in draws]


@dataclass(frozen=True)
class RowBatch(Rows):
    """Tensors of the rows."""

    last: Tensor  # [n, 1]
    source: Tensor  # [n, S]
    memory: Any
    state: Any
    progress: ConstraintState


@dataclass(frozen=True)
class ChosenTokens(Rows):
    """Next tokens of some rows."""

    tokens: Tensor  # [n]
    scores: Tensor  # [n]
    progress: ConstraintState


class RowPart(NamedTuple):
    """Rows, and their tensors."""

    rows: list[Row]
    batch: RowBatch

    def without_ended(self) -> RowPart:
        """Return the rows that have not ended, without places that only the others needed."""
        kept = [place for place, row in enumerate(self.rows) if not row.ended]
        if len(kept) in (0, len(self.rows)):
            return self._replace(rows=[self.rows[place] for place in kept])
        at = torch.tensor(kept, device=self.batch.last.device)
        batch = RowBatch.join([self.batch.select(at)])
        return RowPart([self.rows[place] for place in kept], batch)


def joined(parts: Sequence[RowPart]) -> RowPart:
    """Return all rows as one part."""
    if len(parts) == 1:
        return parts[0]
    rows = [row for part in parts for row in part.rows]
    return RowPart(rows, RowBatch.join([part.batch for part in parts]))


class RowLoop:
    """Decodes rows together that begin and end independently.

    The tokens of a row are those that it gets alone, up to rounding: a product of other shapes can
    change a choice between tokens of nearly equal probability.

    New rows have their first tokens at once, and join the others for the next ones: immediately if
    they are at least 1 / `SHARE` of them, else at most `PATIENCE` tokens later. Without ``joins``,
    for a step that cannot mask earlier tokens, rows that have begun together stay together.
    """

    def __init__(self, step: EncodingStep, device: torch.device, *, joins: bool = True) -> None:
        self.step = step
        self.joins = joins
        self.device = device
        self._parts: list[RowPart] = []  # the first one advances, the others wait for it
        self._waited = 0  # tokens since the first of the others has begun

    @property
    def rows(self) -> list[Row]:
        """The rows, some of which may have ended."""
        return [row for part in self._parts for row in part.rows]

    @torch.inference_mode()
    def begin(self, rows: Sequence[Row]) -> None:
        """Encode the sources of new rows, choose their first tokens, and add them."""
        sources = [torch.tensor(row.source, device=self.device) for row in rows]
        source = pad_sequence(sources, batch_first=True, padding_value=PAD)
        memory, state = self.step.start(source, source != PAD)
        progress = [row.search.constraints.start(1, self.device) for row in rows]
        first = source.new_full((len(rows), 1), BOS)
        batch = RowBatch(first, source, memory, state, ConstraintState.join(progress))
        self._parts.append(self._advanced(list(rows), batch))

    @torch.inference_mode()
    def advance(self) -> None:
        """Choose the next token of the rows that have not ended and do not wait to join; ended ones
        leave.
        """
        parts = [part.without_ended() for part in self._parts]
        parts = [part for part in parts if part.rows]
        if not self.joins:
            self._parts = [self._advanced(*part) for part in parts]
            return
        sizes = [len(part.rows) for part in parts]
        if SHARE * sum(sizes[1:]) >= sum(sizes[:1]) or self._waited == PATIENCE:
            parts = [joined(parts)] if parts else []
            self._waited = 0
        self._waited += len(parts) > 1
        self._parts = [self._advanced(*part) for part in parts[:1]] + parts[1:]

    def clear(self) -> None:
        """Remove all rows."""
        self._parts = []

    def _advanced(self, rows: list[Row], batch: RowBatch) -> RowPart:
        logits, state = self.step(batch.last, batch.memory, batch.state)
        chosen = self._chosen(logits[:, -1], batch, rows)
        pairs = zip(chosen.tokens.tolist(), chosen.scores.tolist(), strict=True)
        for row, (token, score) in zip(rows, pairs, strict=True):
            row.append(token, score)
        last = chosen.tokens.unsqueeze(1)
        return RowPart(rows, replace(batch, last=last, state=state, progress=chosen.progress))

    def _chosen(self, logits: Tensor, batch: RowBatch, rows: Sequence[Row]) -> ChosenTokens:
        """Choose a token for each row by logits [n, V]; rows with one search share the work."""
        groups: dict[tuple[RowSearch, int], list[int]] = defaultdict(list)
        for place, row in enumerate(rows):
            stage = row.search.constraints.stage(len(row.tokens))
            groups[row.search, stage].append(place)
        if len(groups) == 1:
            return self._chosen_together(logits, batch.source, batch.progress, rows)
        parts = []
        for places in groups.values():
            at = torch.tensor(places, device=self.device)
            own = [rows[place] for place in places]
            parts.append(
                self._chosen_together(logits[at], batch.source[at], batch.progress.select(at), own)
            )
        order = torch.tensor([place for places in groups.values() for place in places])
        return ChosenTokens.join(parts).select(order.argsort().to(self.device))

    def _chosen_together(
        self, logits: Tensor, source: Tensor, progress: ConstraintState, rows: Sequence[Row]
    ) -> ChosenTokens:
        """Choose tokens for rows of one search and one stage of its constraints."""
        search = rows[0].search
        length = min(len(row.tokens) for row in rows)
        prefix = torch.tensor(
            [row.tokens[:length] for row in rows], dtype=torch.long, device=self.device
        )
        scores, preferences = search.constraints(logits, prefix, source, progress)
        draws = [row.numbers[len(row.tokens)] for row in rows if row.numbers]
        numbers = torch.tensor(draws, dtype=torch.double, device=self.device) if draws else None
        tokens = search.choose(preferences, numbers)
        own = scores.gather(1, tokens.unsqueeze(1)).squeeze(1)
        return ChosenTokens(tokens, own, search.constraints.advance(progress, tokens))
