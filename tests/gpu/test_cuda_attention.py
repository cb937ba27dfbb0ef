"""On a GPU: attention in every precision agrees with the CPU and with its formula.

python -m pytest -m gpu tests/gpu
"""

from __future__ import annotations

import copy
import time
from typing import Any

import pytest
import torch
from torch import Tensor

from dialog.models.attention import MultiHeadAttention
from dialog.models.attention.attention import ATTENTIONS, build_attention
from dialog.models.contracts import Encoded
from dialog.training.optimization.allocator import tune_process

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.filterwarnings("ignore:Synchronization debug mode is a prototype"),
    pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors is in prototype"),
]
CASES: dict[str, dict[str, Any]] = {
    "additive": {"size": 16},
    "dot": {},
    "scaled_dot": {},
    "bilinear": {},
    "multi_head": {"heads": 4},
    "fine_grained": {"size": 16},
    "location": {"size": 16},
    "local": {"size": 16},
    "interactive": {"scorer": {"name": "additive", "size": 16}},
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("case", CASES)
def test_every_attention_equals_the_cpus(case: str, dtype: torch.dtype) -> None:
    """Weights are float32 and sum to 1, contexts are near float64; rows without real tokens are
    finite.
    """
    assert {*CASES, "none"} == set(ATTENTIONS)
    torch.manual_seed(1)
    attention = build_attention({"name": case, **CASES[case]}, query_size=32, key_size=32).to(dtype)
    query, states = torch.randn(3, 2, 32).to(dtype), torch.randn(3, 50, 32).to(dtype)
    mask = torch.arange(50) < torch.tensor([[50], [20], [0]])
    found, shown = read(copy.deepcopy(attention).cuda(), query.cuda(), states.cuda(), mask.cuda())
    expected, _ = read(copy.deepcopy(attention).double(), query.double(), states.double(), mask)
    assert shown.dtype is torch.float32
    real = shown[:2].sum(-1)
    torch.testing.assert_close(real, torch.ones_like(real), rtol=0, atol=1e-5)
    tolerance = {torch.float32: 1e-5, torch.bfloat16: 0.05, torch.float16: 0.01}[dtype]
    torch.testing.assert_close(found.double().cpu(), expected, rtol=tolerance, atol=tolerance)


def read(
    attention: Any,
    query: Tensor,
    states: Tensor,
    mask: Tensor,
) -> tuple[Tensor, Tensor]:
    shown: list[Tensor] = []
    encoded = Encoded(states.masked_fill(~mask.unsqueeze(-1), 0), mask, states[:, 0])
    contexts, _ = attention(
        query, *attention.start(encoded), lambda _, weights: shown.append(weights)
    )
    return contexts, shown[0]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("groups", [None, 2])
@pytest.mark.parametrize("causal", [False, True])
def test_fused_kernels_equal_the_formula(
    dtype: torch.dtype, groups: int | None, causal: bool
) -> None:
    torch.manual_seed(1)
    attention = MultiHeadAttention(64, 4, key_value_heads=groups).cuda().to(dtype)
    states = torch.randn(3, 40, 64, device="cuda", dtype=dtype)
    mask = (
        None
        if causal
        else (torch.arange(40, device="cuda") < torch.tensor([[40], [9], [1]]).cuda())[
            :, None, None
        ]
    )
    keys_values = attention.keys_values(states)
    fused = attention(states, *keys_values, mask, causal)
    formula = attention(states, *keys_values, mask, causal, lambda *_: None)
    tolerance = {torch.float32: 1e-5, torch.bfloat16: 0.03, torch.float16: 0.005}[dtype]
    torch.testing.assert_close(fused, formula, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_long_sources_need_no_mask(monkeypatch: pytest.MonkeyPatch, dtype: torch.dtype) -> None:
    """Outputs and gradients of flash attention at real tokens are those with a mask."""
    torch.manual_seed(1)
    attention = MultiHeadAttention(64, 4).cuda().to(dtype)
    states = torch.randn(4, 600, 64, device="cuda").to(dtype).requires_grad_()
    lengths = torch.tensor([[600], [520], [1], [0]], device="cuda")
    real = torch.arange(600, device="cuda") < lengths
    results = []
    for longest in (512, 1000):
        monkeypatch.setattr("dialog.models.attention.right_padding.LONG", longest)
        torch.cuda.set_sync_debug_mode("error")
        try:
            keys, values = attention.keys_values(states)
            mixed = attention(states, keys, values, real[:, None, None], right_padded=True)
            kept = mixed.masked_fill(~real.unsqueeze(-1), 0.0)
            leaves = [states, *attention.parameters()]
            gradients = torch.autograd.grad(kept.float().square().sum(), leaves)
        finally:
            torch.cuda.set_sync_debug_mode("default")
        results.append([part.double() for part in (kept, *gradients)])
    for one, other in zip(*results, strict=True):
        assert one.isfinite().all()
        assert (one - other).norm() <= 0.03 * other.norm()


def test_attention_needs_no_plan_for_a_new_shape() -> None:
    """cuDNN's kernels would build one for each; see `avoid_cudnn_attention`."""
    tune_process()
    attention = MultiHeadAttention(64, 4).cuda().bfloat16()

    def step(tokens: int) -> None:
        states = torch.randn(2, tokens, 64, device="cuda", dtype=torch.bfloat16)
        attention(states, *attention.keys_values(states)).sum().backward()
        torch.cuda.synchronize()

    step(9)
    began = time.monotonic()
    for tokens in range(10, 50):
        step(tokens)
    assert time.monotonic() - began < 5
