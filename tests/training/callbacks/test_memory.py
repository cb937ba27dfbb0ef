"""Preflight runs the heaviest batches and changes nothing; an out-of-memory error names the
batch.
"""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.callbacks import Callback
from lightning.pytorch.loggers import Logger
from torch import Tensor

from dialog.build import build_corpus, build_module, build_trainer
from dialog.config.compose import Composed
from dialog.config.schema import Recipe
from dialog.data.batching import Batch
from dialog.data.datamodule import BatchLoader
from dialog.data.store.length_classes import by_length
from dialog.data.store.plan import Plan
from dialog.data.store.store import Store
from dialog.errors import UserError, out_of_memory
from dialog.runs.prepare import example_ids, prepare_data
from dialog.runs.train import train
from dialog.training.callbacks.memory import Memory, untouched
from dialog.training.module import DialogModule

LIMITED_MEMORY = """
import resource, sys
from dialog.cli import main
from dialog.training.callbacks.memory import Memory
begin = Memory.on_train_start
def tighten(self, trainer, module):
    pages = int(open("/proc/self/statm").read().split()[0])
    limit = pages * resource.getpagesize() + 300 * 2**20
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    begin(self, trainer, module)
Memory.on_train_start = tighten
main()
"""


def steps(*overrides: str) -> list[str]:
    return [
        "trainer.max_steps=4",
        "trainer.val_check_interval=2",
        "trainer.log_every_n_steps=1",
        *overrides,
    ]


def record(folder: Path) -> list[dict[str, Any]]:
    """Return the logged values, without times."""
    lines = map(json.loads, (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines())
    return [
        {key: line[key] for key in line if key not in ("time", "train/tokens_per_second")}
        for line in lines
    ]


# ------------------------------------------------------------------ the heaviest batches


PAIRS = [(1, 1), (1, 1), (1, 2), (1, 2), (1, 2), (1, 3), (2, 1), (8, 1), (8, 4)]


@example(PAIRS, 60, 3)  # a batch is halved
@settings(max_examples=25)
@given(
    st.lists(st.tuples(st.integers(1, 90), st.integers(1, 40)), min_size=4, max_size=150),
    st.integers(60, 600),
    st.integers(1, 3),
)
def test_plan_returns_its_heaviest_batches(
    pairs: list[tuple[int, int]], budget: int, world: int
) -> None:
    sources, targets = torch.tensor(pairs).T.numpy()
    rounded = by_length(sources, targets)
    exact: dict[int, tuple[int, int]] = {}
    order = iter(rounded.order.tolist())
    for source, target, count in zip(rounded.sources, rounded.targets, rounded.counts, strict=True):
        exact.update(
            {next(order): (int(source), int(target)) for _ in range(count)}
        )  # in the order of the length classes
    for rank in range(world):
        try:
            plan = Plan(rounded, budget=budget, seed=3, shuffle=True, rank=rank, world=world)
        except UserError:
            return
        batches = [[exact[row] for row in rows.tolist()] for rows in plan.batches()]
        costs = [
            len(rows) * (max(s for s, _ in rows) + max(t for _, t in rows)) for rows in batches
        ]
        targets = [sum(target for _, target in rows) for rows in batches]
        most_tokens, most_target_tokens, relative_cost = plan.heaviest()
        assert targets[most_target_tokens] == max(targets)
        assert relative_cost >= 1
        assert costs[most_tokens] == max(costs)


# ------------------------------------------------------------------ no effect on training


@pytest.mark.parametrize(
    "family", [pytest.param("lstm", marks=pytest.mark.endurance), "transformer"]
)
def test_training_is_the_same_without_preflight(
    family: str, tiny: Callable[..., Composed], tmp_path: Path
) -> None:
    own = steps("model.dropout=0.3", "trainer.accumulate_grad_batches=2", "data.batch_tokens=300")
    for preflight in ("true", "false"):
        train(tiny(family, *own, f"preflight={preflight}"), tmp_path / preflight, quiet=True)
    assert record(tmp_path / "true") == record(tmp_path / "false")
    found, expected = (
        torch.load(tmp_path / each / "checkpoints" / "last.ckpt", weights_only=True)
        for each in ("true", "false")
    )
    torch.testing.assert_close(found["state_dict"], expected["state_dict"], rtol=0, atol=0)
    for each in ("optimizer_states", "lr_schedulers", "loops"):
        assert str(found[each]) == str(expected[each])


def test_gradients_counts_and_random_numbers_are_restored(tiny: Callable[..., Composed]) -> None:
    module = build_module(tiny("lstm").recipe, 400)
    held = [torch.ones_like(parameter) for parameter in module.parameters()]
    for parameter, gradient in zip(module.parameters(), held, strict=True):
        parameter.grad = gradient
    torch.manual_seed(1)
    expected = torch.rand(3)
    torch.manual_seed(1)
    with untouched(module):
        assert all(parameter.grad is None for parameter in module.parameters())
        module.log("anything", torch.rand(5).sum())
        module.target_tokens += 7
    assert torch.equal(torch.rand(3), expected)
    assert module.target_tokens == 0
    assert all(
        parameter.grad is each for parameter, each in zip(module.parameters(), held, strict=True)
    )
    assert "log" not in vars(module)


def test_heaviest_batch_is_run_and_logged(
    tiny: Callable[..., Composed],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    run: list[Batch] = []
    step = DialogModule.training_step

    def recorded(module: DialogModule, batch: Batch, index: int) -> Tensor:
        run.append(batch)
        return step(module, batch, index)

    monkeypatch.setattr(DialogModule, "training_step", recorded)
    with caplog.at_level(logging.INFO, logger="dialog"):
        train(tiny("transformer", *steps()), tmp_path / "run", quiet=True)
    (line,) = [each.getMessage() for each in caplog.records if "preflight" in each.getMessage()]
    loader = BatchLoader(
        Store(prepare_data(tiny("lstm").recipe), "train"), batch_tokens=1200, seed=1, shuffle=True
    )
    sizes = [each.source.numel() + each.target[:, 1:].numel() for each in loader]
    size = run[0].source.numel() + run[0].target[:, 1:].numel()
    assert size >= 0.9 * max(sizes)  # the plan rounds lengths
    rows, source = run[0].source.shape
    assert f"{rows} x ({source} + {run[0].target.shape[1] - 1}) tokens: peak memory" in line
    assert "GiB" in line
    assert "target tokens/s; 4 steps, about " in line


# ------------------------------------------------------------------ out of memory


class OutOfMemory(Callback):
    """Fails at the second step."""

    def on_before_backward(self, trainer: Trainer, module: LightningModule, loss: object) -> None:
        if trainer.global_step == 1:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")


def test_out_of_memory_in_a_later_step_names_its_batch(
    tiny: Callable[..., Composed], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build = build_trainer

    def build_failing(
        recipe: Recipe,
        folder: Path,
        loggers: list[Logger],
        callbacks: Sequence[Callback],
        *rest: object,
    ) -> Trainer:
        return build(recipe, folder, loggers, [*callbacks, OutOfMemory()], *rest)

    monkeypatch.setattr("dialog.runs.train.build_trainer", build_failing)
    composed = tiny("transformer", *steps("data.batch_tokens=300"))
    with pytest.raises(
        UserError, match=r"^out of memory with \d+ x \(\d+ \+ \d+\) tokens of train, "
    ) as caught:
        train(composed, tmp_path / "run", quiet=True)
    ids = str(caught.value).partition("the longest being ")[2].partition(";")[0].split(", ")
    dialogues = {dialogue.id for dialogue in build_corpus(composed.recipe).dialogues("train")}
    assert 1 <= len(ids) <= 3
    assert {each.rpartition("#")[0] for each in ids} <= dialogues
    for key in (
        "data.batch_tokens (300)",
        "activation_checkpointing=true",
        "accumulate_grad_batches (1)",
    ):
        assert key in str(caught.value)


def test_example_ids_are_those_of_the_rows(tiny: Callable[..., Composed]) -> None:
    for filters in ("[]", "[{name: length, min_words: 3}]"):
        recipe = tiny("lstm", f"data.filters={filters}").recipe
        store = Store(prepare_data(recipe), "train")
        rows = [0, len(store) // 2, len(store) - 1]
        names = example_ids(recipe, "train", rows)
        turns = {each.id: each.turns for each in build_corpus(recipe).dialogues("train")}
        for row in rows:
            dialogue, _, response = names[row].rpartition("#")
            text = store.tokenizer.decode(store.target(row)[1:-1].tolist())
            assert turns[dialogue][int(response)].text.strip() == text.strip()


@pytest.mark.parametrize(
    "error", [RuntimeError("mat1 and mat2 shapes cannot be multiplied"), ValueError("no")]
)
def test_other_errors_are_raised_unchanged(error: Exception) -> None:
    memory = Memory()
    with pytest.raises(type(error)) as caught, memory.explained(lambda split, rows: {}, remedy=""):
        raise error
    assert caught.value is error
    assert not out_of_memory(error)


@pytest.fixture
def limited(tmp_path: Path) -> Path:
    path = tmp_path / "limited.py"
    path.write_text(LIMITED_MEMORY, encoding="utf-8")
    return path


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs Linux to limit memory")
def test_process_out_of_memory_prints_one_line(limited: Path, tmp_path: Path) -> None:
    sizes = [f"model.{side}.feed_forward_size=4096" for side in ("encoder", "decoder")]
    own = [
        "data.corpus.size=200",
        "data.tokenizer.vocabulary=400",
        "data.batch_tokens=40000",
        "trainer.max_steps=1",
    ]
    done = subprocess.run(
        [
            sys.executable,
            limited,
            "train",
            "quickstart/transformer",
            *sizes,
            *own,
            "--output",
            str(tmp_path / "run"),
        ],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 2, done.stderr
    last = done.stderr.strip().split("\n")[-1]
    assert last.startswith("dialog: out of memory with ")
    assert "data.batch_tokens (40000)" in last
    assert not (tmp_path / "run").exists()
