"""What a GPU would do for a training step and for a generated token, counted without one: kernels,
casts, waits. Small steps are bound by the number of kernels, so a limit that is exceeded is lost
speed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
import torch
from meta_gpu import Launches, meta_gpu
from test_models import HALF_CASES, Component, label, make

import dialog
from dialog.data.batching import Batch
from dialog.data.tokenizers.tokenizer import BOS, EOS, PAD
from dialog.generation.constraints import Constraints
from dialog.generation.network_step import NetworkStep
from dialog.generation.search import Search
from dialog.generation.searches.beam import Beam
from dialog.generation.searches.contrastive import Contrastive
from dialog.generation.searches.greedy import Greedy
from dialog.generation.searches.hypotheses import BeamSettings
from dialog.models.inference.prepare import prepare
from dialog.models.seq2seq import Seq2Seq

LSTM: dict[str, Any] = {
    "embedding_size": 256,
    "encoder": {"name": "lstm", "size": 640},
    "decoder": {"name": "lstm", "size": 640, "attention": {"name": "additive", "size": 640}},
}
PART: Component = {"name": "transformer", "layers": 4, "heads": 4, "feed_forward_size": 1024}
TRANSFORMER: dict[str, Any] = {"embedding_size": 256, "encoder": PART, "decoder": PART}
MODELS = {"lstm": LSTM, "transformer": TRANSFORMER}
"""The sizes of the recipes of DailyDialog."""
VOCABULARY = 8000
ROWS, SOURCE, TARGET = 57, 51, 21


def empty_batch(rows: int = ROWS, source: int = SOURCE, target: int = TARGET) -> Batch:
    tokens = torch.empty(rows, source, dtype=torch.long, device="meta")
    targets = torch.empty(rows, target + 1, dtype=torch.long, device="meta")
    ids = torch.empty(rows, dtype=torch.long, device="meta")
    real = rows * target - rows
    return Batch(tokens, targets, ids, rows * source, real, 4 * real, ids, turn_shape=(4, source))


def trained(module: dialog.DialogModule, batch: Batch, dtype: torch.dtype | None) -> Launches:
    """Count a step without optimizer; the backward pass is outside autocast, as in Lightning."""
    with Launches() as launches:
        with meta_gpu(dtype) as gpu:
            loss = module.training_step(batch, 1)
        loss.backward()
        module.step_sums.finish(1)
    assert gpu.cells <= {torch.float32}
    return launches


def build(model: str) -> Seq2Seq:
    with torch.device("meta"):
        return Seq2Seq(VOCABULARY, padding=PAD, **MODELS[model])


# ------------------------------------------------------------------ training


@pytest.mark.parametrize(
    ("model", "dtype", "limit", "casts"),
    [
        ("lstm", torch.bfloat16, 2055, 250),
        ("transformer", torch.bfloat16, 650, 105),
        ("transformer", None, 560, 15),
    ],
)
def test_a_training_step_launches_few_kernels(
    model: str, dtype: torch.dtype | None, limit: int, casts: int
) -> None:
    module = dialog.DialogModule(build(model), padding=PAD)
    launches = trained(module, empty_batch(), dtype)
    assert launches.total <= limit, launches.kernels
    assert launches.casts.total() <= casts, launches.casts


@pytest.mark.parametrize("case", HALF_CASES, ids=lambda case: "+".join(map(label, case)))
def test_no_model_waits_in_mixed_precision(case: tuple[Component, Component, Component]) -> None:
    """Nor is the cell state of a fused layer rounded; in float32, see test_host_waits.py."""
    with torch.device("meta"):
        module = dialog.DialogModule(make(*case), padding=PAD)
    launches = trained(module, empty_batch(4, 6, 4), torch.bfloat16)
    assert not launches.reads
    assert not launches.uploads
    assert launches.total
    assert all(parameter.grad is not None for parameter in module.parameters())


# ------------------------------------------------------------------ generation


class Counts(NamedTuple):
    launches: float
    casts: float
    reads: int
    uploads: int


def decoded(model: Seq2Seq, search: Callable[[Constraints], Search]) -> Counts:
    """Count 8 tokens of 32 responses, all others of a search taken off."""
    source = torch.ones(32, 48, dtype=torch.long, device="meta")
    step = NetworkStep((model,))

    def run(length: int) -> Launches:
        constraints = Constraints(end=EOS, special=(PAD, BOS), min_length=0, max_length=length)
        with torch.no_grad(), meta_gpu():
            memory, state = step.start(source, source != PAD)
            with Launches() as launches:
                search(constraints)(step, source[:, :1], memory, state, source)
        return launches

    run(9)  # computes the positions once
    short, long = run(1), run(9)
    return Counts(
        (long.total - short.total) / 8,
        (long.casts - short.casts).total() / 8,
        (long.reads - short.reads).total(),
        (long.uploads - short.uploads).total(),
    )


@pytest.mark.parametrize(
    ("model", "dtype", "limit", "casts"),
    [
        ("lstm", torch.float32, 38, 0),
        ("lstm", torch.bfloat16, 47, 9),
        ("transformer", torch.float32, 90, 1),
        ("transformer", torch.bfloat16, 92, 2),
    ],
)
def test_a_token_launches_few_kernels(
    model: str, dtype: torch.dtype, limit: int, casts: int
) -> None:
    """With all that greedy search does itself; the host waits once in 8 tokens."""
    counts = decoded(
        prepare(build(model).eval().to(dtype)), lambda limits: Greedy(constraints=limits)
    )
    assert counts.launches <= limit
    assert counts.casts <= casts
    assert counts.reads == 1
    assert counts.uploads == 0


@pytest.mark.parametrize(
    "search",
    [
        lambda limits: Beam(BeamSettings(width=3), constraints=limits),
        lambda limits: Contrastive(constraints=limits),
    ],
    ids=["beam", "contrastive"],
)
def test_the_host_waits_once_in_many_tokens(search: Callable[[Constraints], Search]) -> None:
    counts = decoded(build("lstm").eval(), search)
    assert counts.reads == 1
    assert counts.uploads == 0
