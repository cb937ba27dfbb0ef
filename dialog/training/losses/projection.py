"""Vocabulary projection and loss over real target positions: [tokens, vocabulary] is never in memory whole.

Shapes: B rows, T target tokens, N real ones of them, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields
from typing import NamedTuple

import torch
from torch import Tensor

from dialog.models.heads import Decoded, Head
from dialog.training.losses import CrossEntropy, Loss, LossSums, asks
from dialog.training.losses.chunks import Sums, chunks, in_chunks


class Positions(NamedTuple):
    """The real target positions of a batch."""

    passes: tuple[Decoded, ...]  # [N, ..] each; one, or two of a loss that asks for another
    targets: Tensor  # [N]
    previous: Tensor | None  # [N, T], the target tokens before, padding elsewhere; of a loss that asks for them


def positions(
    loss: Loss, passes: Sequence[Decoded], targets: Tensor, *, padding: int, count: int | None = None
) -> Positions:
    """The real ones of targets [B, T] that were decoded in one pass or more.

    Where their ``count`` is known, nothing waits for the device to count them.
    """
    there = targets != padding  # [B, T]
    places = there.nonzero() if count is None else there.nonzero_static(size=count)  # [N, 2]
    real = places[:, 0], places[:, 1]
    previous = tokens_before(targets, padding)[real] if asks(loss, "previous") else None  # [N, T]
    return Positions(tuple(each[real] for each in passes), targets[real], previous)


def loss_sums(head: Head, loss: Loss, real: Positions) -> LossSums:
    """The loss over real target positions, which gets what it names."""
    named = {} if real.previous is None else {"previous": real.previous}
    width = len(fields(Decoded))

    def sums(gold: Tensor, *rest: Tensor) -> Sums:
        before, parts = rest[: len(named)], rest[len(named) :]
        logits, *again = (head(Decoded(*parts[at : at + width])) for at in range(0, len(parts), width))  # [N, V]
        second = dict(zip(("again",), again, strict=False))
        return loss(logits, gold, **dict(zip(named, before, strict=True)), **second)

    parts = (part for each in real.passes for part in tensors(each))
    return LossSums(*in_chunks(sums, (real.targets, *named.values(), *parts), tuple(head.parameters())))


def likelihood_sums(head: Head, real: Positions) -> tuple[Tensor, Tensor]:
    """The sum of -log p over real target positions, and how many of their tokens have the highest score."""

    def sums(gold: Tensor, *parts: Tensor) -> Sums:
        logits = head(Decoded(*parts))  # [N, V]
        return CrossEntropy()(logits, gold).nll, (logits.argmax(-1) == gold).sum()

    nll, correct = in_chunks(sums, (real.targets, *tensors(real.passes[0])), tuple(head.parameters()))
    return nll, correct


def own_tokens(head: Head, decoded: Decoded, *, sampled: bool = False) -> Tensor:
    """What the model says at positions [B, T]: its most probable tokens [B, T], or drawn ones; without a gradient."""
    with torch.no_grad():
        found = []
        for chunk in chunks([part.flatten(0, 1) for part in tensors(decoded)]):
            logits = head(Decoded(*chunk))  # [N, V]
            scores = logits.float() + gumbel(logits) if sampled else logits
            found.append(scores.argmax(-1))  # [N]
        return torch.cat(found).view(decoded.outputs.shape[:2])  # [B, T]


def gumbel(like: Tensor) -> Tensor:
    """Noise: argmax(log p + noise) is a draw from p, for which ``torch.multinomial`` would wait for the device."""
    return -torch.empty_like(like, dtype=torch.float32).exponential_().log()


def tokens_before(targets: Tensor, padding: int) -> Tensor:
    """The target tokens before each of [B, T], in rows [B, T, T] that end in padding."""
    length = targets.shape[1]
    before = torch.ones(length, length, dtype=torch.bool, device=targets.device).tril(-1)  # [T, T]
    return targets.unsqueeze(1).masked_fill(~before, padding)  # [B, T, T]


def tensors(decoded: Decoded) -> Iterator[Tensor]:
    """What a bundle of positions holds, in the order of its fields."""
    return (getattr(decoded, field.name) for field in fields(decoded))
