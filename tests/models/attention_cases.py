"""Attentions with every scorer, at small sizes, for the tests of attention."""

from collections.abc import Callable
from dataclasses import fields
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from dialog.models.attention import Attention
from dialog.models.contracts import AttentionHook, Encoded
from dialog.models.state import Rows

Draw = Callable[..., Tensor]
Stir = Callable[[nn.Module], nn.Module]
Agree = Callable[..., None]

FORMATS = [torch.float64, torch.float32, torch.bfloat16, torch.float16]
QUERY, MEMORY, STEPS = 3, 4, 4
LENGTHS = [5, 2, 1]
ADDITIVE = {"name": "additive", "size": 2}
CASES: dict[str, dict[str, Any]] = {
    "additive": {"size": 3},
    "dot": {},
    "scaled_dot": {},
    "bilinear": {},
    "multi_head": {"heads": 2},
    "multi_head, six wide": {"heads": 2, "size": 6},
    "multi_head, mean": {"heads": 3, "size": 6, "join": "mean"},
    "multi_head, max": {"heads": 3, "size": 3, "join": "max"},
    "fine_grained": {"size": 3},
    "location": {"size": 3, "filters": 2, "width": 3},
    "location, wide": {"size": 2, "filters": 1, "width": 11},
    "local": {"size": 2, "window": 1},
    "local, wide": {"size": 2, "window": 3},
    "local, additive": {"size": 2, "window": 2, "scorer": ADDITIVE},
    "local, dot": {"size": 2, "window": 2, "scorer": {"name": "dot"}},
    "interactive": {"scorer": ADDITIVE},
    "interactive, scaled_dot": {"scorer": {"name": "scaled_dot"}},
}
every_scorer = pytest.mark.parametrize("case", CASES)


def query_size(case: str) -> int:
    return MEMORY if "dot" in case else QUERY


def attention_of(case: str) -> Attention:
    component = {"name": case.partition(",")[0], **CASES[case]}
    return Attention(component, query_size=query_size(case), key_size=MEMORY)


def encoded(states: Tensor, lengths: list[int]) -> Encoded:
    return Encoded(
        states, torch.arange(states.shape[1]) < torch.tensor(lengths).unsqueeze(1), states[:, 0]
    )


def seen_by(shown: list[Tensor], attention: nn.Module) -> AttentionHook:
    def hook(module: nn.Module, weights: Tensor) -> None:
        assert module is attention
        shown.append(weights)

    return hook


def tensors(bundle: Rows) -> list[Tensor]:
    values: list[Tensor] = []
    for field in fields(bundle):
        value = getattr(bundle, field.name)
        values += value if isinstance(value, tuple) else [value]
    return values
