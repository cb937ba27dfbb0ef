"""Beam search.

Shapes: N sources, n sources that are still searched, K beams, G groups of s beams, V vocabulary, L
= max_length, C ended hypotheses of a group, c extensions of a beam.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import Tensor

from dialog.generation.constraints import NEVER, Constraints, ConstraintState
from dialog.generation.search import Hypothesis, Replies, Search, Step, best_first, reads_ends
from dialog.generation.searches.banks import Banks
from dialog.generation.searches.hypotheses import NOTHING, BeamExtension, Beams, BeamSettings, Ended
from dialog.generation.searches.largest import largest
from dialog.generation.searches.rows import hypothesis
from dialog.models.contracts import Memory, State


class Beam(Search):
    """Keep the ``width`` best beginnings of a response at each step; return the ``candidates`` best
    ended ones.

    A beginning is extended by every token. Among the ``width`` best extensions, those by the end
    token have ended; the ``width`` best others are kept. The search of a source ends once ``width``
    hypotheses have ended, or when no open one can still rank among the candidates: sums of
    log-probabilities only fall, so a rank is at most the sum divided by the penalty of max_length.
    Hypotheses without an end token come after all ended ones. Width 1 is greedy search. Required
    words have places of their own, see `Banks`.
    """

    Settings = BeamSettings
    groups = 1
    diversity = 0.0
    delay = 0

    def __init__(self, settings: BeamSettings, *, constraints: Constraints) -> None:
        self.constraints = constraints
        self.width = settings.width
        self.candidates = settings.candidates
        self.penalty = settings.penalty()
        self.penalty.check(constraints.max_length + 1)
        self.kept = self.candidates  # number of ended hypotheses of a group that are kept

    @property
    def size(self) -> int:
        """Number of beams of a group."""
        return self.width // self.groups

    @torch.no_grad()
    def __call__(
        self,
        step: Step,
        first: Tensor,
        memory: Memory,
        state: State,
        source: Tensor,
        ids: Sequence[str] = (),
    ) -> Replies:
        """Decode ``candidates`` responses for each row of `first` [N, 1]."""
        count = len(first)
        longest = self.constraints.max_length
        device = first.device
        draws = self._draws(source, ids)
        memory = memory.repeat(self.width)
        state = state.repeat(self.width)
        last, source = (part.repeat_interleave(self.width, 0) for part in (first, source))
        progress = self.constraints.start(len(last), device)
        beams, ended = self._start(count, device)
        # n, the row of `first` that each searched source is
        sources = torch.arange(count, device=device)
        replies: Replies = [[] for _ in range(count)]
        for length in range(longest + 1):
            logits, state = step(last, memory, state)
            prefix = beams.tokens.flatten(0, 1)[:, :length]
            banks = self._banks(progress, length)
            scores, preferences = self.constraints(
                logits[:, -1], prefix, source, progress, forced=banks is None
            )
            preferences = preferences.view(len(sources), self.width, -1)  # [n, K, V]
            if length < self.delay:
                preferences = self._only_drawn(
                    preferences, draws[sources, :, length], beams, length
                )
            if banks is not None:
                banks.drop_unmet_ends(preferences, beams.totals, ended.ranks.flatten(1))
            extension = self._extend(beams, preferences, banks)
            ended = self._end(ended, beams, extension, scores, length)
            if length == longest:
                totals = beams.totals.masked_fill(extension.ended_beams, NEVER)
                totals = (
                    totals if banks is None else banks.drop_unmet(totals, ended.ranks.flatten(1))
                )
                self._collect(replies, sources, ended, replace(beams, totals=totals))
                break
            beams = self._continue(beams, extension, scores, length)
            finished = self._finished(beams, ended)  # [n, G]
            beams = replace(
                beams,
                totals=beams.totals.masked_fill(finished.repeat_interleave(self.size, 1), NEVER),
            )
            finished = finished.all(1)  # [n]
            reads = reads_ends(step, length, device)
            open_sources = len(sources) - int(finished.sum()) if reads else len(sources)
            # [n, K]
            rows = extension.rows
            tokens = extension.tokens
            if 2 * open_sources <= len(sources):
                self._collect(
                    replies, sources[finished], ended.select(finished.nonzero().squeeze(1)), None
                )
                keep = (~finished).nonzero().squeeze(1)
                if not open_sources:
                    break
                beams = beams.select(keep)
                ended = ended.select(keep)
                sources = sources[keep]
                rows = rows[keep]
                tokens = tokens[keep]
                # a parent has the same source
                memory = memory.select(rows.flatten())
                source = source[rows.flatten()]
            state = state.select(rows.flatten())
            progress = progress.select(rows.flatten())
            progress = self.constraints.advance(progress, tokens.flatten())
            last = tokens.view(-1, 1)
        return replies

    def _banks(self, progress: ConstraintState, length: int) -> Banks | None:
        """Return the banks of beams with required words; a beam alone and drawn tokens are forced
        to contain them.
        """
        if self.width == self.groups or length < self.delay:
            return None
        return Banks.of(self.constraints, progress, self.width, length)

    def _start(self, count: int, device: torch.device) -> tuple[Beams, Ended]:
        """Return one open hypothesis for each source, or one for each beam if their first tokens
        are drawn.
        """
        groups = (count, self.groups, self.size)
        length = self.constraints.max_length + 1
        totals = torch.zeros(groups, device=device)
        if not self.delay:
            totals[..., 1:] = NEVER
        tokens = torch.full((*groups, length), NOTHING, device=device)
        scores = torch.zeros(*groups, length, device=device)
        ranks = torch.full_like(totals[..., : self.kept], NEVER)
        ended_count = torch.zeros(groups[:2], dtype=torch.long, device=device)
        ended = Ended(tokens[:, :, : self.kept], scores[:, :, : self.kept], ranks, ended_count)
        return Beams(tokens.flatten(1, 2), scores.flatten(1, 2), totals.flatten(1)), ended

    def _draws(self, source: Tensor, ids: Sequence[str]) -> Tensor:
        """Return numbers in [0, 1) for the tokens that are drawn [N, K, L + 1]; none without a
        sampled beginning.
        """
        return source.new_zeros(0)

    def _only_drawn(self, preferences: Tensor, draws: Tensor, beams: Beams, length: int) -> Tensor:
        """Mask all tokens that are not drawn."""
        return preferences

    def _extend(self, beams: Beams, preferences: Tensor, banks: Banks | None) -> BeamExtension:
        """Choose the best extensions of the beams of each group."""
        groups: list[BeamExtension] = []
        for start in range(0, self.width, self.size):
            own = preferences[:, start : start + self.size]
            if groups and self.diversity:
                counts = torch.zeros_like(own[:, 0])
                for group in groups:
                    alive = group.totals > NEVER
                    counts.scatter_add_(1, group.tokens, alive.to(counts.dtype))
                own = own - self.diversity * counts.unsqueeze(1)
            groups.append(self._best(beams.totals[:, start : start + self.size], own, start, banks))
        return BeamExtension(*(torch.cat(parts, 1) for parts in zip(*groups, strict=True)))

    def _best(
        self, totals: Tensor, preferences: Tensor, start: int, banks: Banks | None
    ) -> BeamExtension:
        """Choose the best extensions of one group: totals [n, s], preferences [n, s, V], its first
        beam.
        """
        size, vocabulary = preferences.shape[1:]
        choices = min(2 * size, vocabulary)
        if banks is None:
            per_beam, tokens = largest(preferences, choices)  # [n, s, c]
            sums = (totals.unsqueeze(-1) + per_beam).flatten(1)  # [n, s c]
            best, places = sums.topk(min(2 * size, sums.shape[1]), -1)  # [n, 2 s]
        else:
            per_beam, tokens = banks.candidates(preferences, choices)
            sums = (totals.unsqueeze(-1) + per_beam).flatten(1)
            places = banks.order(sums, tokens, start)[:, : 2 * size]
            best = sums.gather(1, places)
        chosen = tokens.flatten(1).gather(1, places)
        beams = places // tokens.shape[2]  # of this group
        ends = chosen == self.constraints.end
        accepted = ends[:, :size] & (best[:, :size] != NEVER)
        ended_totals = best[:, :size].masked_fill(~accepted, NEVER)
        ended_beams = torch.zeros_like(totals).scatter_reduce_(
            1, beams[:, :size], accepted.to(totals.dtype), "amax"
        )
        continuing = best.masked_fill(ends, NEVER)
        if continuing.shape[1] < size:  # a vocabulary that is smaller than the beam
            continuing = F.pad(continuing, (0, size - continuing.shape[1]), value=NEVER)
            beams, chosen = (F.pad(part, (0, size - part.shape[1])) for part in (beams, chosen))
        # [n, s]
        order = (continuing == NEVER).to(torch.uint8).argsort(dim=1, stable=True)[:, :size]
        offset = torch.arange(len(totals), device=totals.device).unsqueeze(1) * self.width + start
        ended_rows = beams[:, :size] + offset
        return BeamExtension(
            continuing.gather(1, order),
            beams.gather(1, order) + offset,
            chosen.gather(1, order),
            ended_totals,
            ended_rows,
            ended_beams > 0,
        )

    def _end(
        self, ended: Ended, beams: Beams, extension: BeamExtension, scores: Tensor, length: int
    ) -> Ended:
        """Keep the best of the hypotheses that had ended and those that end now."""
        rows = extension.ended_rows.view(-1, self.groups, self.size)  # [n, G, s]
        new_ranks = extension.ended_totals.view_as(rows) / self.penalty(length + 1)
        best, order = torch.cat([ended.ranks, new_ranks], 2).topk(ended.ranks.shape[2], -1)
        # [n, G, s, L + 1]
        tokens, token_scores = (part.flatten(0, 1)[rows] for part in (beams.tokens, beams.scores))
        tokens[..., length] = self.constraints.end
        token_scores[..., length] = scores[rows, self.constraints.end]
        places = order.unsqueeze(-1).expand(-1, -1, -1, tokens.shape[-1])
        return Ended(
            torch.cat([ended.tokens, tokens], 2).gather(2, places),
            torch.cat([ended.scores, token_scores], 2).gather(2, places),
            best,
            ended.count + (new_ranks != NEVER).sum(2),
        )

    def _continue(
        self, beams: Beams, extension: BeamExtension, scores: Tensor, length: int
    ) -> Beams:
        """Return the open hypotheses after one more token."""
        tokens, token_scores = (
            part.flatten(0, 1)[extension.rows] for part in (beams.tokens, beams.scores)
        )
        tokens[..., length] = extension.tokens
        token_scores[..., length] = scores[extension.rows, extension.tokens]
        return Beams(tokens, token_scores, extension.totals)

    def _finished(self, beams: Beams, ended: Ended) -> Tensor:
        """Return which groups [n, G] no further token can change."""
        if not self.constraints.normalised:  # sums may rise
            return ended.count >= self.size
        best = beams.totals.view(-1, self.groups, self.size).amax(2)
        bound = best / self.penalty(self.constraints.max_length + 1)
        return (ended.count >= self.size) | (ended.ranks[..., -1] >= bound)

    def _collect(
        self, replies: Replies, sources: Tensor, ended: Ended, beams: Beams | None
    ) -> None:
        """Store the hypotheses of sources whose search is over, with their open ones if max_length
        is reached.
        """
        parts = [(ended.tokens.flatten(1, 2), ended.scores.flatten(1, 2), ended.ranks.flatten(1))]
        if beams is not None:
            parts.append(
                (
                    beams.tokens,
                    beams.scores,
                    beams.totals / self.penalty(self.constraints.max_length),
                )
            )
        columns = [torch.cat(column, 1).tolist() for column in zip(*parts, strict=True)]
        for source, *rows in zip(sources.tolist(), *columns, strict=True):
            hypotheses = [
                hypothesis(tokens, scores, end=self.constraints.end, rank=rank)
                for tokens, scores, rank in zip(*rows, strict=True)
                if rank != NEVER
            ]
            valid = [reply for reply in hypotheses if reply is not None]
            replies[source] = (
                distinct(best_first(valid))[: self.candidates]
                if len(valid) == len(hypotheses)
                else []
            )


def distinct(hypotheses: Sequence[Hypothesis]) -> list[Hypothesis]:
    """Return the first hypothesis of each response; groups of beams may end with the same ones."""
    responses: dict[tuple[int, ...], Hypothesis] = {}
    for reply in hypotheses:
        responses.setdefault(tuple(reply.tokens), reply)
    return list(responses.values())
