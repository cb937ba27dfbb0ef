"""Measure the same responses with 1 and with 4 processes: ``worlds.py FOLDER``.

The processes are forks that rendezvous through a file. The last of four has no responses.
"""

from __future__ import annotations

import random
import sys
import warnings
from multiprocessing import get_context
from pathlib import Path

import torch
import torch.distributed as dist
from torchmetrics import MetricCollection

from dialog.config.components import build
from dialog.metrics.family import METRICS
from dialog.metrics.measurement import NUMBERS, inputs_of
from dialog.metrics.scores.family import STANDARD, key

RESPONSES = 60


def measure(rank: int, world: int, folder: Path) -> None:
    """Write the values that one process computes from its share of the responses."""
    warnings.simplefilter("ignore")  # a process without responses
    if world > 1:
        dist.init_process_group(
            "gloo", init_method=f"file://{folder}/{world}", rank=rank, world_size=world
        )
    draw = random.Random(0)
    rows = []
    for _ in range(RESPONSES):
        texts = [" ".join(draw.choices("abcdefgh", k=draw.randint(0, 12))) for _ in range(2)]
        numbers = {field: draw.randint(1, 9) for field in NUMBERS.values()} | {
            "nll": draw.expovariate(0.01)
        }
        rows.append({"response": texts[0], "reference": texts[1], "context": [], **numbers})
    components = {key(component): component for component in STANDARD}
    metrics = MetricCollection(
        {name: build(METRICS, component, language="und") for name, component in components.items()},
        compute_groups=False,
    )
    own = [
        row
        for number, row in enumerate(rows)
        if world == 1 or (rank < world - 1 and number % (world - 1) == rank)
    ]
    for row in own:
        metrics.update(**inputs_of([row]))
    values = {name: value.item() for name, value in metrics.compute().items()}
    torch.save(values, folder / f"{world}-{rank}.pt")


if __name__ == "__main__":
    torch.set_num_threads(1)
    for world in (1, 4):
        fork = get_context("fork").Process
        processes = [
            fork(target=measure, args=(rank, world, Path(sys.argv[1]))) for rank in range(world)
        ]
        for process in processes:
            process.start()
        for process in processes:
            process.join()
        if any(process.exitcode for process in processes):
            sys.exit(1)
