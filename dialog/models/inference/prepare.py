"""Prepare a trained network for generation."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import NamedTuple

import torch
from torch import Tensor

from dialog.models.seq2seq import Seq2Seq

DTYPES = (torch.float32, torch.bfloat16, torch.float16)
OWN_PARTS = ("torch.nn.modules.", "dialog.models.")
"""Beginnings of the names of modules whose classes compute their own formula: no adapter and no
parametrization.
"""
SAMPLED = 64
"""Smallest number of values of a weight that are compared."""


def can_prepare(model: Seq2Seq) -> bool:
    """Return whether decoder and head have a faster form, no part is adapted or watched by a hook,
    and the network is not in training.
    """
    return (
        type(model) is Seq2Seq
        and model.decoder.preparable
        and model.head.preparable
        and next(model.parameters()).dtype in DTYPES
        and all(
            type(part).__module__.startswith(OWN_PARTS)
            and not (part.training or part._forward_hooks or part._forward_pre_hooks)
            for part in model.modules()
        )
    )


def prepare(model: Seq2Seq, *, int8: bool = False) -> Seq2Seq:
    """Return a network that generates the same in less time; it shares the parts that it does not
    prepare.
    """
    prepared = copy(model)
    prepared._modules = dict(model._modules)
    prepared.encoder = model.encoder.prepared(int8=int8)
    prepared.decoder = model.decoder.prepared(int8=int8)
    prepared.head = model.head.prepared(int8=int8)
    return prepared.eval()


class WeightMarks(NamedTuple):
    """Marks by which a change of weights is found."""

    versions: list[tuple[int, int]]  # address and version of each weight
    sample: Tensor  # values of all weights, equally spaced

    def equals(self, other: WeightMarks) -> bool:
        """Return whether all marks are equal."""
        return self.versions == other.versions and torch.equal(self.sample, other.sample)


@torch.no_grad()
def weight_marks(model: Seq2Seq) -> WeightMarks:
    """Return the marks of a network's weights."""
    weights = list(model.parameters())
    versions = [
        (weight.data_ptr(), 0 if weight.is_inference() else weight._version) for weight in weights
    ]
    return WeightMarks(versions, torch.cat([_sample(weight) for weight in weights]))


def _sample(weight: Tensor) -> Tensor:
    """Return values at equal distances in memory."""
    distance = max(1, weight.numel() // SAMPLED)
    return weight.as_strided((-(-weight.numel() // distance),), (distance,))


class PreparedNetworks:
    """Networks prepared when they are first used, and again when their weights have changed.

    Changes are found by address, version and sampled values: fused optimizers and ``weight.data``
    count no version.
    A network that cannot be prepared, or under autocast, stands for itself.
    """

    def __init__(self, models: Sequence[Seq2Seq], *, int8: bool = False) -> None:
        self.models = tuple(models)
        self.int8 = int8
        self._prepared: dict[int, tuple[WeightMarks, Seq2Seq]] = {}

    def current(self) -> tuple[Seq2Seq, ...]:
        """Return the networks to generate with."""
        networks = []
        for place, model in enumerate(self.models):
            autocast = torch.is_autocast_enabled(next(model.parameters()).device.type)
            if autocast or not can_prepare(model):
                networks.append(model)
                continue
            marks = weight_marks(model)
            if place not in self._prepared or not self._prepared[place][0].equals(marks):
                self._prepared[place] = marks, prepare(model, int8=self.int8)
            networks.append(self._prepared[place][1])
        return tuple(networks)
