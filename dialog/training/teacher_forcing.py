"""How often the decoder reads the gold token, and what it reads else: its own word.

Shapes: B rows, T target tokens.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import fields
from functools import partial

import torch
from torch import Tensor

from dialog.config.components import Family
from dialog.models.contracts import State
from dialog.models.heads import Decoded
from dialog.models.seq2seq import Seq2Seq, SourceMemory
from dialog.training.losses.projection import own_tokens

Schedule = Callable[[int], float]
"""From the number of optimizer steps made so far to a number in [0, 1]."""


def constant(*, ratio: float = 1.0) -> Schedule:
    """The same at every step."""
    share("ratio", ratio)
    return partial(_constant, ratio)


def linear(*, steps: int, start: float = 1.0, end: float = 0.0) -> Schedule:
    """``start + (end - start) i / steps`` at step i, then end; Bengio et al. 2015, 2.4, with k = start."""
    share("start", start)
    share("end", end)
    if steps < 1:
        raise ValueError(f"steps must be at least 1, not {steps}")
    return partial(_linear, steps, start, end)


def exponential(*, base: float, end: float = 0.0) -> Schedule:
    """``base^i`` at step i, but no less than end; Bengio et al. 2015, 2.4, with k = base < 1."""
    if not 0 < base < 1:
        raise ValueError(f"base must be above 0 and below 1, not {base}")
    share("end", end)
    return partial(_exponential, base, end)


def inverse_sigmoid(*, scale: float, end: float = 0.0) -> Schedule:
    """``k / (k + exp(i / k))`` at step i with k = scale >= 1, but no less than end; Bengio et al. 2015, 2.4.

    It is 1/2 at step k ln k.
    """
    if not scale >= 1:
        raise ValueError(f"scale must be at least 1, not {scale}")
    share("end", end)
    return partial(_inverse_sigmoid, scale, end)


def _constant(ratio: float, step: int) -> float:
    return ratio


def _linear(steps: int, start: float, end: float, step: int) -> float:
    return start + (end - start) * min(step / steps, 1.0)


def _exponential(base: float, end: float, step: int) -> float:
    return max(end, base**step)


def _inverse_sigmoid(scale: float, end: float, step: int) -> float:
    return max(end, scale / (scale + math.exp(min(step / scale, 700.0))))


TEACHER_FORCINGS: Family[Schedule] = Family(
    "teacher forcing",
    {
        "constant": constant,
        "linear": linear,
        "exponential": exponential,
        "inverse_sigmoid": inverse_sigmoid,
    },
)


def share(name: str, value: float) -> None:
    """Refuse what is no share of 1."""
    if not 0 <= value <= 1:
        raise ValueError(f"{name} must be in [0, 1], not {value}")


def decode(
    model: Seq2Seq, tokens: Tensor, memory: SourceMemory, state: State, *, ratio: float = 1.0, sampled: bool = False
) -> Decoded:
    """Decode tokens [B, T], each read with the probability ``ratio``; in its place the model's own word for it is read.

    That is the most probable token, or a drawn one. A coin is tossed for each token of each row, but the first, which
    begins a response, is always read. A recurrent decoder goes step by step (Bengio et al. 2015, 2.4). Another one
    goes in two passes: the words of the first, which reads gold tokens only and takes no gradient, are what the second
    reads (Mihaylova & Martins 2019, 3). With the ratio 1 there is one pass and no coin.
    """
    if ratio >= 1:
        return model.decode(tokens, memory, state)[0]
    gold = torch.rand(tokens.shape, device=tokens.device, dtype=torch.float32) < ratio  # [B, T]
    if model.decoder.stepwise:
        return _step_by_step(model, tokens, memory, state, gold, sampled=sampled)
    with torch.no_grad():
        said = own_tokens(model.head, model.decode(tokens, memory, state)[0], sampled=sampled)  # [B, T]
    own = torch.cat([tokens[:, :1], said[:, :-1]], 1)  # [B, T], in the places that they are read at
    return model.decode(tokens.where(gold, own), memory, state)[0]


def _step_by_step(
    model: Seq2Seq, tokens: Tensor, memory: SourceMemory, state: State, gold: Tensor, *, sampled: bool
) -> Decoded:
    """Read where ``gold`` [B, T] the token, else what was said at the step before."""
    steps: list[Decoded] = []
    for token, keep in zip(torch.split(tokens, 1, 1), torch.split(gold, 1, 1), strict=True):  # [B, 1]
        said = own_tokens(model.head, steps[-1], sampled=sampled) if steps else token  # [B, 1]
        decoded, state = model.decode(token.where(keep, said), memory, state)
        steps.append(decoded)
    return Decoded(*(torch.cat([getattr(each, field.name) for each in steps], 1) for field in fields(Decoded)))
