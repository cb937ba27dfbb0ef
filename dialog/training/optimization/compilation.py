"""The step compiled by ``torch.compile``: fewer and larger kernels, after minutes of compiling."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from dialog.data.batching import Batch
from dialog.errors import UserError
from dialog.models.kernels.private_operators import compile_recurrences
from dialog.models.seq2seq import Seq2Seq
from dialog.training.losses import needs_of
from dialog.training.step import Terms, TrainingStep

COMPILERS = ("torch._dynamo", "torch._inductor")
"""Modules of torch whose errors are the compiler's."""


class CompiledStep:
    """A `TrainingStep` without graph breaks, compiled when it is first called.

    It is masked if the loss can be (see `TrainingStep`). A Transformer is compiled for any length
    after two of them, a recurrent loop for each length.
    """

    def __init__(self, step: TrainingStep, backend: str | Callable[..., Any] = "inductor") -> None:
        compile_recurrences()
        step = replace(step, masked="real" in needs_of(step.loss))
        self.program = torch.compile(step.sums, backend=backend)

    def __call__(self, model: Seq2Seq, batch: Batch, step: int) -> tuple[Tensor, Terms]:
        """Return what the `TrainingStep` returns.

        Raises:
            UserError: the compiler failed.
        """
        try:
            objective, terms = self.program(model, batch, step)
        except RuntimeError as error:
            if not type(error).__module__.startswith(COMPILERS):
                raise
            reason = str(error).partition("\n")[0]
            raise UserError(f"trainer.compile: {reason}; set it to false") from error
        return objective, terms
