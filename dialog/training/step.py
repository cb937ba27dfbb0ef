"""One training step, from a batch to the sum that is minimised and the sums that are logged.

Read first: `TrainingStep.sums`, from top to bottom.

Shapes: B rows, S source tokens, T target tokens, N real ones of them, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from dialog.config.components import Component, build
from dialog.data.batching import Batch
from dialog.data.tokenizers.tokenizer import Tokenizer
from dialog.errors import UserError
from dialog.models.heads import Decoded, Head
from dialog.models.kernels.casts import cast_linear
from dialog.models.likelihood import real_positions, token_scores
from dialog.models.seq2seq import Seq2Seq
from dialog.ranks import world_size
from dialog.training.distributed.collectives import mean_over_ranks, sum_over_ranks
from dialog.training.losses import (
    LOSSES,
    Loss,
    LossSums,
    Sums,
    build_loss,
    counted,
    coverage_loss,
    in_chunks,
    needs_of,
)
from dialog.training.objectives import Auxiliary, build_objectives
from dialog.training.teacher_forcing import TEACHER_FORCINGS, Schedule, decode

Terms = dict[str, tuple[Tensor, int | Tensor]]
"""By name, sums to be logged and the number of tokens of each."""


class RealPositions(NamedTuple):
    """The target positions of a batch that are not padding; or all, and which are real."""

    passes: tuple[Decoded, ...]  # [N, ..] each: one, or two for a loss that needs a second pass
    targets: Tensor  # [N]
    # [N, T], the target tokens before each, then padding; only for a loss that needs them
    previous: Tensor | None
    real: Tensor | None  # [N], False for padding; None if there is none


@dataclass(frozen=True)
class TrainingStep:
    """The step of a recipe: loss, teacher forcing and auxiliary objectives, for any network.

    The loss gets the real target tokens only. A ``masked`` step gives it all of them and a mask, so
    that no shape depends on the content of a batch, and all that is logged is counted on the
    device; results are equal up to rounding.
    """

    loss: Loss
    objectives: Sequence[Auxiliary]
    ratio: Schedule  # of gold tokens
    sampled: bool  # predictions that are fed are samples
    forced: bool  # only gold tokens are fed
    padding: int
    masked: bool = False

    def __call__(self, model: Seq2Seq, batch: Batch, step: int) -> tuple[Tensor, Terms]:
        """Return the sum over target tokens that step number ``step`` minimises, and the sums to be
        logged.
        """
        with cast_linear(model):
            return self.sums(model, batch, step)

    def sums(self, model: Seq2Seq, batch: Batch, step: int) -> tuple[Tensor, Terms]:
        """Return the same, with weights cast one by one."""
        count = 2 if "second_pass" in needs_of(self.loss) else 1
        ratio = self.ratio(step)
        passes = []
        for _ in range(count):
            memory, state = model.start(
                batch.source, batch.source != self.padding, turn_shape=batch.turn_shape
            )
            decoded = decode(
                model, batch.target[:, :-1], memory, state, ratio=ratio, sampled=self.sampled
            )
            passes.append(decoded)
        real = self._select(passes, batch.target, batch.target_tokens)
        tokens = batch.target_tokens if real.real is None else real.real.sum()
        response = loss_sums(model.head, self.loss, real)
        terms: Terms = {"loss": (response.nll, tokens)}
        with torch.no_grad():
            for name, values in model.head.measures(real.passes[0]).items():
                terms[name] = counted(values, real.real).sum(), tokens

        coverage_penalty: Tensor | float = 0.0
        if model.head.coverage:
            mask = batch.target[:, 1:] != self.padding  # [B, T]
            coverage = torch.stack(
                [coverage_loss(decoded.weights, mask) for decoded in passes]
            ).mean()
            coverage_penalty = model.head.coverage * coverage
            terms["coverage"] = coverage, tokens

        auxiliary: Tensor | float = 0.0
        for name, objective, weight, schedule in self.objectives:
            source, target = objective(batch)
            gold_passes = []
            for _ in range(count):
                memory, state = model.start(source, source != self.padding)
                gold_passes.append(model.decode(target[:, :-1], memory, state)[0])
            sums = loss_sums(model.head, self.loss, self._select(gold_passes, target))
            auxiliary = auxiliary + weight * schedule(step) * sums.objective
            terms[name] = sums.nll, (target[:, 1:] != self.padding).sum()

        return response.objective + coverage_penalty + auxiliary, terms

    def validate(self, model: Seq2Seq, batch: Batch) -> tuple[Tensor, Tensor]:
        """Return the sum of -log p over target tokens, and the number whose token has the highest
        score.
        """
        memory, state = model.start(
            batch.source, batch.source != self.padding, turn_shape=batch.turn_shape
        )
        decoded, _ = model.decode(batch.target[:, :-1], memory, state)
        targets = batch.target[:, 1:]  # [B, T]
        places = real_positions(targets != self.padding, batch.target_tokens)
        scores = token_scores(model.head, decoded[places], targets[places])
        return scores.nll.sum(), scores.correct.sum()

    def _select(
        self, passes: Sequence[Decoded], target: Tensor, count: int | None = None
    ) -> RealPositions:
        """Select the real positions of targets [B, T + 1], or mark them if ``masked``; a known
        ``count`` saves a wait for the device.
        """
        targets = target[:, 1:]  # [B, T]
        real = targets != self.padding  # [B, T]
        # [B, T, T]
        previous = (
            tokens_before(targets, self.padding) if "previous" in needs_of(self.loss) else None
        )
        if self.masked:
            return RealPositions(
                tuple(decoded.flat() for decoded in passes),
                targets.flatten(),
                None if previous is None else previous.flatten(0, 1),
                real.flatten(),
            )
        places = real_positions(real, count)
        return RealPositions(
            tuple(decoded[places] for decoded in passes),
            targets[places],
            None if previous is None else previous[places],
            None,
        )


class StepSums:
    """Sums over the micro-batches of one optimizer step, on all ranks.

    The law: with a sum s over n target tokens in each micro-batch of each rank, the step's gradient
    is that of sum s / sum n, for any split of its examples into micro-batches and ranks. A mean of
    means is not.

    The number of tokens is known only after the last micro-batch. So each sum is divided by the
    tokens of the first one (mean over ranks), and `finish` returns the factor that corrects the
    gradient. Ranks communicate only at the first micro-batch and in `finish`.
    """

    def __init__(self) -> None:
        self.unit: float | Tensor = 0.0
        self.sums: dict[str, Tensor] = {}  # [2] each: sum and number of tokens

    def add(
        self, objective: Tensor, terms: Mapping[str, tuple[Tensor, int | Tensor]], tokens: int
    ) -> Tensor:
        """Add a micro-batch; return the loss to backpropagate.

        Args:
            objective: Its sum over target tokens.
            terms: By name, sums to be logged and the number of tokens of each.
            tokens: Its target tokens.
        """
        if not self.sums:
            self.unit = mean_over_ranks(tokens, objective)
        for name, (value, count) in {**terms, "objective": (objective, tokens)}.items():
            term = torch.stack([value.detach(), torch.ones_like(value) * count])
            self.sums[name] = self.sums[name] + term if name in self.sums else term
        return objective / self.unit

    def finish(self, micro_batches: int) -> tuple[dict[str, Tensor], float | Tensor]:
        """Return the step's means, and the factor that makes the accumulated gradient the step's.

        Args:
            micro_batches: The divisor that Lightning applied to each gradient; the last step of an
                epoch may have fewer micro-batches.
        """
        dtype = self.sums["objective"].dtype
        # [N, 2]
        summed = sum_over_ranks(torch.stack([term.to(dtype) for term in self.sums.values()]))
        totals = dict(zip(self.sums, summed, strict=True))
        factor = self.unit * micro_batches * world_size() / totals["objective"][1]
        return {name: total / count.clamp(min=1) for name, (total, count) in totals.items()}, factor


def build_step(
    *,
    padding: int,
    loss: Component,
    teacher_forcing: Component,
    objectives: Sequence[Component],
    tokenizer: Tokenizer | None,
) -> TrainingStep:
    """Build the step of a recipe.

    Raises:
        UserError: unknown or invalid loss, teacher forcing or objective.
    """
    forcing = dict(teacher_forcing)
    sampled = forcing.pop("sampled", False)
    if not isinstance(sampled, bool):
        raise UserError(f"teacher_forcing: sampled must be bool, not {sampled!r}")
    return TrainingStep(
        loss=build_loss(LOSSES, loss, padding=padding),
        objectives=build_objectives(objectives, tokenizer=tokenizer),
        ratio=build(TEACHER_FORCINGS, forcing),
        sampled=sampled,
        forced=forcing == {"name": "constant"},
        padding=padding,
    )


def loss_sums(head: Head, loss: Loss, real: RealPositions) -> LossSums:
    """Sum the loss over real positions, projecting a chunk of them at a time to [chunk, V]."""
    given = {"previous": real.previous, "real": real.real}
    inputs = {name: value for name, value in given.items() if value is not None}
    width = len(vars(real.passes[0]))

    def sums(targets: Tensor, *rest: Tensor) -> Sums:
        chunk = dict(zip(inputs, rest, strict=False))
        parts = rest[len(inputs) :]
        # [N, V]
        logits, *second = (
            head(Decoded(*parts[at : at + width])) for at in range(0, len(parts), width)
        )
        if second:
            chunk["second_pass"] = second[0]
        return loss(logits, targets, **chunk)

    parts = (part for decoded in real.passes for part in vars(decoded).values())
    return LossSums(
        *in_chunks(sums, (real.targets, *inputs.values(), *parts), tuple(head.parameters()))
    )


def tokens_before(targets: Tensor, padding: int) -> Tensor:
    """Return the tokens before each of targets [B, T] in its row, then padding: [B, T, T]."""
    length = targets.shape[1]
    before = torch.ones(length, length, dtype=torch.bool, device=targets.device).tril(-1)  # [T, T]
    return targets.unsqueeze(1).masked_fill(~before, padding)  # [B, T, T]
