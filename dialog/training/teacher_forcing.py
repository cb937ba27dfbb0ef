"""Teacher forcing with scheduled sampling: how often the decoder is fed gold tokens and how often
its own predictions.

Shapes: B rows, T target tokens, N = B T positions, V vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from dialog.config.components import Family
from dialog.models.contracts import State
from dialog.models.heads import Decoded, Head
from dialog.models.seq2seq import Seq2Seq, SourceMemory
from dialog.training.losses import chunks

Schedule = Callable[[int], float]
"""Map the number of optimizer steps so far to a number in [0, 1]."""


def constant(*, ratio: float = 1.0) -> Schedule:
    """``ratio`` at every step."""
    check_fraction("ratio", ratio)
    return partial(_constant, ratio)


def linear(*, steps: int, start: float = 1.0, end: float = 0.0) -> Schedule:
    """``start + (end - start) i / steps`` at step i, then end; Bengio et al. 2015, 2.4,
    with k = start.
    """
    check_fraction("start", start)
    check_fraction("end", end)
    if steps < 1:
        raise ValueError(f"steps must be at least 1, not {steps}")
    return partial(_linear, steps, start, end)


def exponential(*, base: float, end: float = 0.0) -> Schedule:
    """``base^i`` at step i, at least end; Bengio et al. 2015, 2.4, with k = base < 1."""
    if not 0 < base < 1:
        raise ValueError(f"base must be above 0 and below 1, not {base}")
    check_fraction("end", end)
    return partial(_exponential, base, end)


def inverse_sigmoid(*, scale: float, end: float = 0.0) -> Schedule:
    """``k / (k + exp(i / k))`` at step i with k = scale >= 1, at least end; Bengio et al. 2015,
    2.4.

    It reaches 1/2 at step k ln k.
    """
    if not scale >= 1:
        raise ValueError(f"scale must be at least 1, not {scale}")
    check_fraction("end", end)
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


def check_fraction(name: str, value: float) -> None:
    """Raise ValueError unless a value is in [0, 1]."""
    if not 0 <= value <= 1:
        raise ValueError(f"{name} must be in [0, 1], not {value}")


def decode(
    model: Seq2Seq,
    tokens: Tensor,
    memory: SourceMemory,
    state: State,
    *,
    ratio: float = 1.0,
    sampled: bool = False,
) -> Decoded:
    """Decode tokens [B, T], feeding each gold token with probability ``ratio``, else the model's
    prediction for it.

    The prediction is the most probable token, or a sample. The choice is drawn for each token of
    each row; the first token, which begins a response, is always fed. A recurrent decoder is run
    token by token (Bengio et al. 2015, 2.4), any other one in two passes: the predictions of the
    first, which is fed gold tokens only and takes no gradient, are inputs of the second (Mihaylova
    & Martins 2019, 3). With ratio 1 there is one pass and no random draw.
    """
    if ratio >= 1:
        return model.decode(tokens, memory, state)[0]
    gold = torch.rand(tokens.shape, device=tokens.device, dtype=torch.float32) < ratio  # [B, T]
    if model.decoder.stepwise:
        return _token_by_token(model, tokens, memory, state, gold, sampled=sampled)
    with torch.no_grad():
        # [B, T]
        predicted = predictions(model.head, model.decode(tokens, memory, state)[0], sampled=sampled)
    shifted = torch.cat([tokens[:, :1], predicted[:, :-1]], 1)  # [B, T], aligned with the inputs
    return model.decode(tokens.where(gold, shifted), memory, state)[0]


def _token_by_token(
    model: Seq2Seq,
    tokens: Tensor,
    memory: SourceMemory,
    state: State,
    gold: Tensor,
    *,
    sampled: bool,
) -> Decoded:
    """Feed the gold token where ``gold`` [B, T] is true, else the prediction of the step before."""
    steps: list[Decoded] = []
    # [B, 1]
    for token, keep in zip(torch.split(tokens, 1, 1), torch.split(gold, 1, 1), strict=True):
        # [B, 1]
        predicted = predictions(model.head, steps[-1], sampled=sampled) if steps else token
        decoded, state = model.decode(token.where(keep, predicted), memory, state)
        steps.append(decoded)
    columns = zip(*(vars(decoded).values() for decoded in steps), strict=True)
    return Decoded(*(torch.cat(column, 1) for column in columns))


def predictions(head: Head, decoded: Decoded, *, sampled: bool = False) -> Tensor:
    """Return the most probable token, or a sample, at each position [B, T], without a gradient."""
    with torch.no_grad():
        tokens = []
        for chunk in chunks([part.flatten(0, 1) for part in vars(decoded).values()]):
            logits = head(Decoded(*chunk))  # [N, V]
            scores = logits.float() + gumbel(logits) if sampled else logits
            tokens.append(scores.argmax(-1))  # [N]
        return torch.cat(tokens).view(decoded.outputs.shape[:2])  # [B, T]


def gumbel(like: Tensor) -> Tensor:
    """Gumbel noise: argmax(log p + noise) samples p without the device wait of
    ``torch.multinomial``.
    """
    return -torch.empty_like(like, dtype=torch.float32).exponential_().log()
