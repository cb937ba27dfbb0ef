"""Training losses, and sums over many rows, computed a chunk at a time with their gradients.

No intermediate tensor, such as [rows, vocabulary], exists for all rows at once.

Shapes: N target tokens, T tokens of the longest target, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from dialog.config.components import (
    Component,
    Family,
    build,
    import_part,
    name_and_arguments,
    resolve,
)
from dialog.data.tokenizers.tokenizer import PAD
from dialog.errors import UserError
from dialog.models.heads import at_least_float


class LossSums(NamedTuple):
    """Sums over the target tokens of a batch, in nats."""

    objective: Tensor  # [], to be minimised
    nll: Tensor  # [], -log p(target), never smoothed: comparable between losses


Loss = Callable[..., LossSums]
"""Map logits [N, V] and targets [N], without padding, to sums.

A loss lists its further inputs in an attribute ``needs``, a frozenset, and receives them by name:
``previous`` [N, T], the target tokens before each in its response, then padding; ``second_pass``
[N, V], the logits of a second pass with other dropout. Tokens come in chunks, so the sums of many
tokens must be the total of the sums of each.

A loss that lists ``real`` can leave tokens out, as `trainer.graphs` needs: then N counts padding
too, and it receives ``real`` [N], True for the tokens to be summed. Otherwise ``real`` is not
passed, and all N count.
"""

CALL: Family[LossSums] = Family(
    "loss", {}, runtime=("logits", "targets", "previous", "second_pass", "real")
)
"""The inputs of a loss; the other arguments of a loss function are the recipe's."""


def needs_of(loss: Loss) -> frozenset[str]:
    """Return the inputs that a loss declares beside logits and targets."""
    declared: frozenset[str] = getattr(
        loss.func if isinstance(loss, partial) else loss, "needs", frozenset()
    )
    return declared


def build_loss(family: Family[Loss], component: Component, *, padding: int) -> Loss:
    """Build a loss of the family, or of a dotted name: a class is instantiated, a function is
    itself the loss.

    Raises:
        UserError: unknown name, invalid arguments, or an unknown input in ``needs``.
    """
    name, arguments = name_and_arguments(component)
    is_function = "." in name and not isinstance(import_part(name), type)
    loss: Loss = (
        partial(import_part(name), **arguments)
        if is_function
        else build(family, component, padding=padding)
    )
    needs = needs_of(loss)
    if unknown := needs - CALL.runtime:
        raise UserError(
            f"{name}: needs: unknown {sorted(unknown)}; a loss may need 'previous' and"
            " 'second_pass'"
        )
    if is_function:
        resolve(CALL, component, logits=None, targets=None, **dict.fromkeys(needs))
    return loss


class CrossEntropy:
    """(1 - e) (-log p(y)) + (e / V) sum_v -log p(v), with label smoothing e over the whole
    vocabulary.

    As in ``torch.nn.functional.cross_entropy``; Szegedy et al. 2016, section 7. Computed in float32
    or better.
    """

    needs = frozenset({"real"})

    def __init__(self, *, label_smoothing: float = 0.0) -> None:
        if not 0 <= label_smoothing < 1:
            raise ValueError(f"label_smoothing must be in [0, 1), not {label_smoothing}")
        self.label_smoothing = label_smoothing

    def __call__(self, logits: Tensor, targets: Tensor, real: Tensor | None = None) -> LossSums:
        """Sums over N tokens."""
        log_p = at_least_float(logits).log_softmax(-1)  # [N, V]
        labels = targets if real is None else targets.where(real, IGNORED)
        nll = F.nll_loss(log_p, labels, ignore_index=IGNORED, reduction="sum")
        if not self.label_smoothing:
            return LossSums(nll, nll)
        uniform = -counted(log_p.mean(-1), real).sum()
        return LossSums((1 - self.label_smoothing) * nll + self.label_smoothing * uniform, nll)


class Unlikelihood:
    """-log p(y) - alpha sum_c log(1 - p(c)) over the distinct tokens c before y in the response,
    without y itself.

    The token-level objective of Welleck et al. 2020, equation 4, with the candidates of equation 5.
    1 - p(c) is clamped to at least 1e-6.
    """

    needs = frozenset({"previous", "real"})

    def __init__(self, *, alpha: float = 1.0, padding: int = PAD) -> None:
        if not alpha >= 0:
            raise ValueError(f"alpha must be at least 0, not {alpha}")
        self.alpha = alpha
        self.padding = padding

    def __call__(
        self, logits: Tensor, targets: Tensor, previous: Tensor, real: Tensor | None = None
    ) -> LossSums:
        """Sums over N tokens."""
        scores = at_least_float(logits)  # [N, V]
        total = scores.logsumexp(-1, keepdim=True)  # [N, 1]
        nll = counted(total.squeeze(-1) - chosen(scores, targets), real).sum()
        candidates = previous.sort(-1).values  # [N, T], duplicates adjacent
        used = (candidates != targets.unsqueeze(-1)) & (candidates != self.padding)  # [N, T]
        used[:, 1:] &= candidates[:, 1:] != candidates[:, :-1]
        rest = 1 - (scores.gather(-1, candidates) - total).exp()  # [N, T], 1 - p(c)
        unlike = -counted(rest.clamp(min=1e-6).log().masked_fill(~used, 0), real).sum()
        return LossSums(nll + self.alpha * unlike, nll)


class Focal:
    """(1 - p(y))^gamma (-log p(y)): down-weights confident predictions; Lin et al. 2017,
    equation 4.
    """

    needs = frozenset({"real"})

    def __init__(self, *, gamma: float = 1.0) -> None:
        if not gamma >= 0:
            raise ValueError(f"gamma must be at least 0, not {gamma}")
        self.gamma = gamma

    def __call__(self, logits: Tensor, targets: Tensor, real: Tensor | None = None) -> LossSums:
        """Sums over N tokens."""
        scores = at_least_float(logits)  # [N, V]
        nll = scores.logsumexp(-1) - chosen(scores, targets)  # [N]
        rest = (-torch.expm1(-nll)).clamp(min=torch.finfo(nll.dtype).tiny)  # [N], 1 - p(y)
        return LossSums(counted(rest**self.gamma * nll, real).sum(), counted(nll, real).sum())


SINGLE: Family[Loss] = Family(
    "loss",
    {"cross_entropy": CrossEntropy, "unlikelihood": Unlikelihood, "focal": Focal},
    runtime=("padding",),
)
"""The losses that R-drop can use as its inner loss."""


IGNORED = -100
"""Label of a token that is not counted."""


def counted(values: Tensor, real: Tensor | None) -> Tensor:
    """Return values [N, ..] with 0 for the tokens that do not count."""
    if real is None:
        return values
    return values.where(real.view(-1, *[1] * (values.dim() - 1)), 0.0)


def chosen(scores: Tensor, targets: Tensor) -> Tensor:
    """Return the score of each target [N] among scores [N, V]."""
    return scores.gather(-1, targets.unsqueeze(-1)).squeeze(-1)  # [N]


def coverage_loss(weights: Tensor, real: Tensor) -> Tensor:
    """sum_t sum_i min(a_i^t, c_i^t) with the coverage c^t = sum_{t' < t} a^t'; See et al. 2017,
    equations 10 to 12.

    For attention weights [B, T, S], summed over the target positions that are ``real`` [B, T];
    padding is on the right.
    """
    weights = at_least_float(weights)
    covered = weights.cumsum(1) - weights  # [B, T, S]
    return weights.minimum(covered).sum(-1).where(real, 0).sum()


CROSS_ENTROPY: Component = {"name": "cross_entropy"}


class RDrop:
    """(L(p) + L(q)) / 2 + weight (KL(p || q) + KL(q || p)) / 2, for two passes p and q with
    different dropout.

    Liang et al. 2021, equations 2 to 4, with ``loss`` as L. The paper adds L(p) + L(q) where this
    takes the mean, so weight = alpha / 2 gives half the paper's objective with its alpha. The
    likelihood is the mean of both.
    """

    def __init__(
        self, *, loss: Component = CROSS_ENTROPY, weight: float = 0.5, padding: int = PAD
    ) -> None:
        if not weight >= 0:
            raise ValueError(f"weight must be at least 0, not {weight}")
        self.loss = build_loss(SINGLE, loss, padding=padding)
        self.weight = weight
        self.needs = needs_of(self.loss) | {"second_pass"}

    def __call__(
        self,
        logits: Tensor,
        targets: Tensor,
        *,
        second_pass: Tensor,
        previous: Tensor | None = None,
        real: Tensor | None = None,
    ) -> LossSums:
        """Sums over N tokens; ``previous`` and ``real`` are passed on to the inner loss."""
        given = {"previous": previous, "real": real}
        inputs = {name: value for name, value in given.items() if value is not None}
        first, second = (self.loss(scores, targets, **inputs) for scores in (logits, second_pass))
        # [N, V]
        log_p, log_q = (at_least_float(scores).log_softmax(-1) for scores in (logits, second_pass))
        # mean of both directions
        divergence = counted((log_p.exp() - log_q.exp()) * (log_p - log_q), real).sum() / 2
        objective = (first.objective + second.objective) / 2 + self.weight * divergence
        return LossSums(objective, (first.nll + second.nll) / 2)


# ------------------------------------------------------------------ chunks of positions


CHUNK = 1024
"""Rows of a chunk."""

Sums = tuple[Tensor, ...]
"""Sums over rows; only the first has a gradient."""


def in_chunks(
    function: Callable[..., Sums], rows: Sequence[Tensor], parameters: Sequence[Tensor]
) -> Sums:
    """Return ``function(*rows)``, whose results are sums over rows and which may use the
    parameters.

    Up to ``CHUNK`` rows are computed at once. Above that, the gradient of the first sum is computed
    right after each chunk and its graph is freed; the backward pass multiplies this gradient by the
    incoming one.
    """
    if len(rows[0]) <= CHUNK:
        return function(*rows)
    if torch.is_grad_enabled():
        sums: Sums = _Chunked.apply(function, len(rows), *rows, *parameters)  # type: ignore[no-untyped-call]
        return sums
    return total([function(*chunk) for chunk in chunks(rows)])


def chunks(rows: Sequence[Tensor]) -> Iterator[tuple[Tensor, ...]]:
    """Split tensors of equal length into ``CHUNK`` rows at a time."""
    return zip(*(torch.split(tensor, CHUNK) for tensor in rows), strict=True)


def total(parts: Sequence[Sums]) -> Sums:
    """Add the sums of all parts."""
    return tuple(torch.stack(terms).sum(0) for terms in zip(*parts, strict=True))


class _Chunked(torch.autograd.Function):
    """The sums; the gradients are computed in the forward pass."""

    @staticmethod
    def forward(ctx: Any, function: Callable[..., Sums], count: int, *tensors: Tensor) -> Sums:
        """Take ``count`` tensors of rows, then the parameters."""
        wanted: tuple[bool, ...] = ctx.needs_input_grad[2:]
        gradients: list[Tensor | None] = [None] * len(tensors)
        parts = []
        for start in range(0, len(tensors[0]), CHUNK):
            chunk = slice(start, start + CHUNK)
            inputs = [tensor[chunk].detach() for tensor in tensors[:count]] + list(tensors[count:])
            for tensor, needed in zip(inputs[:count], wanted[:count], strict=True):
                tensor.requires_grad_(needed)
            with torch.enable_grad():
                sums = function(*inputs[:count])
            parts.append(tuple(term.detach() for term in sums))
            for index, gradient in _gradients(sums[0], inputs, wanted):
                if (accumulated := gradients[index]) is None:
                    accumulated = gradients[index] = torch.zeros_like(tensors[index])
                (accumulated[chunk] if index < count else accumulated).add_(gradient)
        ctx.save_for_backward(*gradients)
        sums = total(parts)
        ctx.mark_non_differentiable(*sums[1:])
        return sums

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, incoming: Tensor, *others: Tensor) -> tuple[Tensor | None, ...]:
        """Multiply the computed gradients by the incoming one."""
        return (
            None,
            None,
            *(None if saved is None else saved * incoming for saved in ctx.saved_tensors),
        )


def _gradients(
    objective: Tensor, inputs: Sequence[Tensor], wanted: Sequence[bool]
) -> Iterator[tuple[int, Tensor]]:
    """Yield index and gradient of each wanted input that the objective depends on."""
    indices = [index for index, needed in enumerate(wanted) if needed]
    if indices:
        gradients = torch.autograd.grad(
            objective, [inputs[index] for index in indices], allow_unused=True
        )
        pairs = zip(indices, gradients, strict=True)
        yield from ((index, gradient) for index, gradient in pairs if gradient is not None)


LOSSES: Family[Loss] = Family("loss", {**SINGLE, "r_drop": RDrop}, runtime=("padding",))
