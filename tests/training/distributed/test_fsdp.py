"""Parameters that are shared out among real processes: checkpoints, resuming, and what is refused."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from kills import command, killed
from processes import Server, serving
from safetensors.torch import load_file

from dialog.runs.load import load
from dialog.training.checkpoints.checkpoint_io import LAST, SafeCheckpointIO

STEPS = 8


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(tmp_path_factory.mktemp("sharded")) as made:
        yield made


def record(folder: Path) -> list[dict[str, float]]:
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]


def trained(server: Server, family: str, strategy: str, precision: str) -> Path:
    """A run of two processes, its heaviest batches tried first."""
    folder = server.folder / f"{family}-{strategy}"
    changes = (f"trainer.strategy={strategy}", f"trainer.precision={precision}", "preflight=true")
    training = server.start(*command(family, 2, STEPS, str(folder), *changes), world=2)
    assert training.wait() == [0, 0], training.said
    return folder


@pytest.mark.parametrize(
    ("family", "precision", "tolerance"), [("lstm", "32-true", 1e-4), ("transformer", "bf16-mixed", 2e-2)]
)
def test_a_run_of_shards_is_a_run_as_any_other(server: Server, family: str, precision: str, tolerance: float) -> None:
    """The same record as with ddp, the same files of the same sizes, weights that load, maps of attention."""
    sharded, copied = (trained(server, family, name, precision) for name in ("fsdp", "ddp"))
    for one, other in zip(record(sharded), record(copied), strict=True):
        assert one.keys() == other.keys()
        for name in one.keys() - {"time", "train/tokens_per_second"}:
            assert one[name] == pytest.approx(other[name], rel=tolerance, abs=tolerance), name
    kept = [SafeCheckpointIO().load_checkpoint(each / "checkpoints" / LAST)["state_dict"] for each in (sharded, copied)]
    assert {name: each.shape for name, each in kept[0].items()} == {name: each.shape for name, each in kept[1].items()}
    best = [load_file(each / "model.safetensors") for each in (sharded, copied)]
    assert best[0].keys() == best[1].keys()
    model = load(sharded).model
    assert sum(each.numel() for each in model.parameters()) == sum(each.numel() for each in best[0].values())
    pictures = [
        sorted(path.relative_to(each) for path in each.glob("attention/*/*.json")) for each in (sharded, copied)
    ]
    assert pictures[0] == pictures[1]
    assert pictures[0]


@pytest.mark.parametrize(
    ("family", "changes"),
    [("transformer", []), ("lstm", ["optimizer=sgd_plateau", "optimizer.momentum=0", "optimizer.nesterov=false"])],
    ids=["transformer", "an optimizer without states"],
)
def test_a_run_of_shards_goes_on_where_it_was(server: Server, family: str, changes: list[str]) -> None:
    """Killed, with every number of the record and every weight the same, to the last bit."""
    found = killed(server, family, 2, "trainer.strategy=fsdp", *changes, kills=2, steps=20, seed=0)
    assert found.same, found


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("trainer.precision=16-mixed", "strategy fsdp does not go with precision 16-mixed"),
        ("optimizer=adafactor_inverse_sqrt", "adafactor: needs unsharded parameters"),
        ("checkpoint.averaging={name: ema}", "checkpoint.averaging needs all weights in each process"),
    ],
)
def test_what_cannot_be_shared_out_is_refused(server: Server, override: str, message: str) -> None:
    folder = server.folder / re.sub(r"\W", "", override)
    training = server.start(*command("lstm", 2, STEPS, str(folder), "trainer.strategy=fsdp", override), world=2)
    assert all(training.wait())
    assert message in training.said
    assert "Traceback" not in training.said
    assert not folder.exists()


def test_plain_tensors_are_their_own_parts() -> None:
    from dialog.training.distributed.fsdp import is_sharded, own, whole

    tensor = torch.ones(2)
    assert own(tensor) is tensor
    assert whole(tensor) is tensor
    assert not is_sharded(torch.nn.Linear(1, 1))
