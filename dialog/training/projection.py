"""Vocabulary projection and loss over real target positions: [tokens, vocabulary] is never in memory whole.

Shapes: B rows, T target tokens, N real ones of them, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields

import torch
from torch import Tensor

from dialog.models.heads import Decoded, Head
from dialog.training.chunks import Sums, chunks, in_chunks
from dialog.training.losses import CrossEntropy, Loss, LossSums, asks


def loss_sums(head: Head, loss: Loss, passes: Sequence[Decoded], targets: Tensor, *, padding: int) -> LossSums:
    """The loss of targets [B, T], over the real ones, that were decoded in one pass, or in two if it asks for them."""
    real = places(targets, padding)
    named = {"previous": tokens_before(targets, padding)[real]} if asks(loss, "previous") else {}  # [N, T]
    width = len(fields(Decoded))

    def sums(gold: Tensor, *rest: Tensor) -> Sums:
        before, parts = rest[: len(named)], rest[len(named) :]
        logits, *again = (head(Decoded(*parts[at : at + width])) for at in range(0, len(parts), width))  # [N, V]
        second = dict(zip(("again",), again, strict=False))
        return loss(logits, gold, **dict(zip(named, before, strict=True)), **second)

    parts = (part for each in passes for part in tensors(each[real]))
    return LossSums(*in_chunks(sums, (targets[real], *named.values(), *parts), tuple(head.parameters())))


def likelihood_sums(head: Head, decoded: Decoded, targets: Tensor, *, padding: int) -> tuple[Tensor, Tensor]:
    """-log p of targets [B, T], summed over the real ones, and how many of them have the highest score."""
    real = places(targets, padding)

    def sums(gold: Tensor, *parts: Tensor) -> Sums:
        logits = head(Decoded(*parts))  # [N, V]
        return CrossEntropy()(logits, gold).nll, (logits.argmax(-1) == gold).sum()

    nll, correct = in_chunks(sums, (targets[real], *tensors(decoded[real])), tuple(head.parameters()))
    return nll, correct


def own_tokens(head: Head, decoded: Decoded, *, sampled: bool = False) -> Tensor:
    """What the model says at positions [B, T]: its most probable tokens [B, T], or drawn ones; without a gradient."""
    with torch.no_grad():
        found = []
        for chunk in chunks([part.flatten(0, 1) for part in tensors(decoded)]):
            logits = head(Decoded(*chunk))  # [N, V]
            drawn = (
                torch.multinomial(logits.float().softmax(-1), 1).squeeze(-1) if sampled else logits.argmax(-1)
            )  # [N]
            found.append(drawn)
        return torch.cat(found).view(decoded.outputs.shape[:2])  # [B, T]


def places(targets: Tensor, padding: int) -> tuple[Tensor, ...]:
    """Rows [N] and columns [N] of the real targets."""
    return (targets != padding).nonzero(as_tuple=True)


def tokens_before(targets: Tensor, padding: int) -> Tensor:
    """The target tokens before each of [B, T], in rows [B, T, T] that end in padding."""
    length = targets.shape[1]
    before = torch.ones(length, length, dtype=torch.bool, device=targets.device).tril(-1)  # [T, T]
    return targets.unsqueeze(1).masked_fill(~before, padding)  # [B, T, T]


def tensors(decoded: Decoded) -> Iterator[Tensor]:
    """What a bundle of positions holds, in the order of its fields."""
    return (getattr(decoded, field.name) for field in fields(decoded))
