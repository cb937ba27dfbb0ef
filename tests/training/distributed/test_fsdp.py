"""Sharded parameters in real processes: runs equal those of ddp, resume exactly, and reject what
cannot be sharded.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch.distributed as dist
from kills import command, train, train_with_kills
from processes import Server
from safetensors.torch import load_file
from torch.distributed.device_mesh import init_device_mesh
from torch.testing._internal.distributed.fake_pg import FakeStore
from torch.utils._python_dispatch import TorchDispatchMode

from dialog.data.batching import collate
from dialog.data.tokenizers.tokenizer import BOS, EOS, PAD, SELF
from dialog.models.seq2seq import Seq2Seq
from dialog.runs.load import load
from dialog.runs.proof import compare
from dialog.training.checkpoints.checkpoint_io import LAST, SafeCheckpointIO
from dialog.training.distributed.fsdp import full_tensor, is_sharded, local_shard, shard
from dialog.training.module import DialogModule

STEPS = 8
SETTINGS = {
    # without optimizer states
    "lstm": ["optimizer=sgd_plateau", "optimizer.momentum=0", "optimizer.nesterov=false"],
    "transformer": ["trainer.precision=bf16-mixed"],
}
Run = Callable[[str, str], Path]
FAMILIES = pytest.mark.parametrize("family", SETTINGS)


@pytest.fixture(scope="module")
def trained(server: Server) -> Run:
    """``trained(family, strategy)``: a run of two processes, with preflight."""

    @cache
    def run(family: str, strategy: str) -> Path:
        overrides = (f"trainer.strategy={strategy}", "preflight=true", *SETTINGS[family])
        return train(
            server, family, 2, server.folder / f"{family}-{strategy}", *overrides, steps=STEPS
        )

    return run


def record(folder: Path) -> list[dict[str, float]]:
    return [
        json.loads(line)
        for line in (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    ]


@pytest.mark.endurance
@FAMILIES
def test_sharded_run_equals_ddp(trained: Run, family: str) -> None:
    """Record, shapes of checkpoints and weights, names of attention maps."""
    tolerance = 2e-2 if family == "transformer" else 1e-4
    folders = [trained(family, strategy) for strategy in ("fsdp", "ddp")]
    for line, expected in zip(*map(record, folders), strict=True):
        assert line.keys() == expected.keys()
        for name in line.keys() - {"time", "train/tokens_per_second"}:
            assert line[name] == pytest.approx(expected[name], rel=tolerance, abs=tolerance), name
    states = [
        SafeCheckpointIO().load_checkpoint(folder / "checkpoints" / LAST)["state_dict"]
        for folder in folders
    ]
    shapes = [{name: value.shape for name, value in state.items()} for state in states]
    assert shapes[0] == shapes[1]
    best = [load_file(folder / "model.safetensors") for folder in folders]
    assert best[0].keys() == best[1].keys()
    model = load(folders[0]).model
    assert sum(value.numel() for value in model.parameters()) == sum(
        value.numel() for value in best[0].values()
    )
    maps = [
        sorted(path.relative_to(folder) for path in folder.glob("attention/*/*.json"))
        for folder in folders
    ]
    assert maps[0] == maps[1]
    assert maps[0]


@pytest.mark.endurance
@FAMILIES
def test_sharded_run_resumes_exactly(server: Server, trained: Run, family: str) -> None:
    folder = server.folder / f"{family}-killed"
    overrides = ("trainer.strategy=fsdp", *SETTINGS[family])
    train_with_kills(server, family, 2, folder, *overrides, kills=1, steps=STEPS, seed=0)
    comparison = compare(folder, trained(family, "fsdp"))
    assert comparison.same, comparison


@pytest.mark.endurance
@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("optimizer=adafactor_inverse_sqrt", "adafactor: needs unsharded parameters"),
        (
            "checkpoint.averaging={name: ema}",
            "checkpoint.averaging needs all weights in each process",
        ),
    ],
)
def test_unshardable_settings_leave_no_run(server: Server, override: str, message: str) -> None:
    folder = server.folder / re.sub(r"\W", "", override)
    training = server.start(
        *command("lstm", 2, STEPS, folder, "trainer.strategy=fsdp", override), world=2
    )
    assert all(training.wait())
    assert message in training.output
    assert "Traceback" not in training.output
    assert not folder.exists()


TRANSFORMER = {"name": "transformer", "heads": 2, "feed_forward_size": 12, "layers": 1}
EXAMPLES = [([SELF, *range(6, last), EOS], [BOS, *range(9, last), EOS]) for last in (10, 14, 18)]


class Gathered(TorchDispatchMode):
    """Counts the bytes of all-gathers by type."""

    def __init__(self) -> None:
        super().__init__()
        self.bytes: Counter[torch.dtype] = Counter()

    def __torch_dispatch__(
        self, operator: Any, types: Any, arguments: Any = (), named: Any = None
    ) -> Any:
        if "allgather" in str(operator):
            self.bytes[arguments[0].dtype] += arguments[0].nbytes
        return operator(*arguments, **(named or {}))


def step_of(
    precision: str, *, world: int, sharded: bool
) -> tuple[float, dict[str, torch.Tensor], Counter[torch.dtype]]:
    """Return loss, gradients and bytes gathered of a step of a Transformer; one rank of several
    gets no answers from the others.
    """
    torch.manual_seed(0)
    model = Seq2Seq(20, padding=PAD, embedding_size=6, encoder=TRANSFORMER, decoder=TRANSFORMER)
    for name, value in model.named_parameters():
        if "norm" in name:
            torch.nn.init.uniform_(value, 0.5, 1.5)
    module = DialogModule(model, padding=PAD)
    trainer = SimpleNamespace(
        precision=precision, strategy=SimpleNamespace(root_device=module.device), global_step=0
    )
    # what a step reads of a trainer; Lightning's own would start processes
    module.trainer = trainer  # type: ignore[assignment]
    if sharded:
        names = ("data_parallel", "tensor_parallel")
        shard(module, init_device_mesh("cpu", (world, 1), mesh_dim_names=names))
    with Gathered() as gathered, torch.autocast("cpu", enabled=precision == "bf16-mixed"):
        loss = module.training_step(collate(EXAMPLES, range(len(EXAMPLES))), 0)
        loss.backward()
    gradients = {
        name: full_tensor(value.grad)
        for name, value in module.named_parameters()
        if value.grad is not None
    }
    return loss.item(), gradients, gathered.bytes


@pytest.fixture
def group() -> Iterator[Callable[[str, int], None]]:
    """``group(backend, world)``: join a process group as its first rank."""

    def join(backend: str, world: int) -> None:
        store = FakeStore() if backend == "fake" else dist.HashStore()
        dist.init_process_group(backend, store=store, rank=0, world_size=world)

    yield join
    dist.destroy_process_group()


@pytest.mark.filterwarnings("ignore:FSDP2-wrapped module:UserWarning")  # it is not written to
@pytest.mark.parametrize("precision", ["32-true", "bf16-mixed"])
def test_sharded_step_is_the_plain_step(group: Callable[[str, int], None], precision: str) -> None:
    """In bf16-mixed up to the rounding of the norms' weights to bfloat16."""
    loss, gradients, _ = step_of(precision, world=1, sharded=False)
    group("gloo", 1)
    sharded_loss, sharded_gradients, _ = step_of(precision, world=1, sharded=True)
    tolerance = 1e-6 if precision == "32-true" else 1e-2
    assert sharded_loss == pytest.approx(loss, rel=tolerance)
    assert gradients.keys() == sharded_gradients.keys()
    for name, gradient in gradients.items():
        assert sharded_gradients[name].dtype is torch.float32
        difference = (sharded_gradients[name] - gradient).norm() / gradients_norm(gradients)
        assert difference < tolerance, name


def gradients_norm(gradients: Mapping[str, torch.Tensor]) -> torch.Tensor:
    return torch.stack([gradient.norm() for gradient in gradients.values()]).norm()


@pytest.mark.filterwarnings("ignore:FSDP2-wrapped module:UserWarning")  # it is not written to
def test_layers_are_gathered_in_the_type_of_products(group: Callable[[str, int], None]) -> None:
    """In bf16-mixed half as many bytes; the others are gathered once, in float32."""
    group("fake", 2)
    _, _, exact = step_of("32-true", world=2, sharded=True)
    _, _, mixed = step_of("bf16-mixed", world=2, sharded=True)
    assert set(mixed) == {torch.float32, torch.bfloat16}
    assert exact[torch.float32] - mixed[torch.float32] == 2 * mixed[torch.bfloat16]
    assert mixed[torch.bfloat16] > 5 * mixed[torch.float32]


def test_plain_tensors_are_their_own_shards() -> None:
    tensor = torch.ones(2)
    assert local_shard(tensor) is tensor
    assert full_tensor(tensor) is tensor
    assert not is_sharded(torch.nn.Linear(1, 1))
