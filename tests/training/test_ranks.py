"""Two real processes against one, in float64."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import torch

PROCESS = """
import os, sys, torch, torch.distributed as dist
from dialog.data.batching import collate
from dialog.models.seq2seq import Seq2Seq
from dialog.training.module import DialogModule

rank, world = int(sys.argv[1]), int(sys.argv[2])
if world > 1:
    dist.init_process_group("gloo", rank=rank, world_size=world)
torch.manual_seed(0)
lstm = {"name": "lstm_luong", "size": 6, "attention": {"name": "additive", "size": 6}}
parts = {"encoder": {"name": "lstm", "size": 6}, "decoder": lstm, "turn_tokens": (4, 5)}
head = {"name": "pointer_generator", "coverage": 0.5}
model = Seq2Seq(20, padding=0, embedding_size=6, head=head, **parts).double()
module = DialogModule(model, padding=0, objectives=[{"name": "reverse", "weight": 0.3}])
rows = [([4, 7, 8, 2], [1, 9, 2]), ([4, 9, 2], [1, 9, 10, 11, 12, 13, 14, 2]), ([4, 7, 2], [1, 6, 2])]
mine = rows if world == 1 else rows[:1] if rank == 0 else rows[1:]
module.training_step(collate(mine, range(len(mine))), 0).backward()
gradients = torch.cat([each.grad.flatten() for each in model.parameters()])
if world > 1:
    dist.all_reduce(gradients)  # as DDP does
torch.save(gradients / world, sys.argv[3])
"""


def gradients(folder: Path, world: int) -> torch.Tensor:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environment = {**os.environ, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "OMP_NUM_THREADS": "1"}
    files = [folder / f"{world}-{rank}.pt" for rank in range(world)]
    processes = [
        subprocess.Popen(
            [sys.executable, "-W", "ignore", "-c", PROCESS, str(rank), str(world), str(file)], env=environment
        )
        for rank, file in enumerate(files)
    ]
    assert [each.wait(120) for each in processes] == [0] * world
    one, *others = (torch.load(file, weights_only=True) for file in files)
    assert all(torch.equal(one, other) for other in others)
    return one


def test_processes_weigh_their_tokens_alike(tmp_path: Path) -> None:
    """The mean of each process's mean is not the mean over all tokens."""
    torch.testing.assert_close(gradients(tmp_path, 2), gradients(tmp_path, 1), rtol=0, atol=1e-12)
