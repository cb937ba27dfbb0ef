"""Record the training steps of a peer system from inside its own trainer; runs in the peers'
environments.

A step lasts from the end of one call of a torch optimizer to the end of the next, including all
work of the trainer in between. Only shapes of batches are read: real tokens, and positions
including padding.
"""

from __future__ import annotations

import json
import os
import re
import sys
import time
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.optim.optimizer import register_optimizer_step_post_hook


class Recorder:
    """Record steps; after the last one, write the figures and end the process."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self.settings = settings
        self.marks: list[float] = []
        self.batches: list[list[tuple[int, int, int, int]]] = [[]]
        self.parameters = 0
        self.first = 0.0
        register_optimizer_step_post_hook(self._step)

    def watch(
        self, model: type[torch.nn.Module], read: Callable[..., tuple[Tensor, Tensor]]
    ) -> None:
        """Record the training forward passes of a model class; `read` returns masks [B, S], [B, T]
        of real tokens.
        """
        forward = model.forward

        @wraps(forward)  # trainers inspect its signature
        def watched(itself: torch.nn.Module, *arguments: Any, **named: Any) -> Any:
            if itself.training:
                self.parameters = self.parameters or sum(
                    parameter.numel() for parameter in itself.parameters()
                )
                self.batch(*read(*arguments, **named))
            return forward(itself, *arguments, **named)

        model.forward = watched  # type: ignore[method-assign]  # replaced to record the peer

    def batch(self, source: Tensor, target: Tensor) -> None:
        """Add a batch with masks [B, S], [B, T] to the current step."""
        shape = (len(source), int(source.sum()), int(target.sum()), source.numel() + target.numel())
        self.batches[-1].append(shape)

    def _step(self, *_: object) -> None:
        if self.settings["device"] == "cuda":
            torch.cuda.synchronize()
        self.marks.append(time.perf_counter())
        self.first = self.first or time.time()
        self.batches.append([])
        if len(self.marks) == self.settings["warm_up"] + self.settings["steps"]:
            self._finish()

    def _finish(self) -> None:
        skipped = self.settings["warm_up"]
        spans = [end - start for start, end in zip(self.marks, self.marks[1:], strict=False)][
            skipped - 1 :
        ]
        steps = [
            dict(
                zip(
                    ("rows", "source_tokens", "target_tokens", "places"),
                    map(sum, zip(*shapes, strict=True)),
                    strict=True,
                )
            )
            for shapes in self.batches[skipped:-1]
        ]
        figures = {
            "each_step": [
                {"seconds": span, **step} for span, step in zip(spans, steps, strict=True)
            ],
            "memory_bytes": peak(self.settings["device"]),
            "device": self.settings["device"],
            "parameters": self.parameters,
            "first_step_seconds": self.first - self.settings["launched"],
            "torch": torch.__version__,
            "threads": torch.get_num_threads(),
        }
        Path(self.settings["output"]).write_text(json.dumps(figures))
        sys.stdout.flush()
        os._exit(0)


def peak(device: str) -> int:
    """Return the peak resident memory in bytes; on a GPU, the peak of its allocator."""
    if device == "cuda":
        return torch.cuda.max_memory_allocated()
    match = re.search(r"^VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text(), re.MULTILINE)
    return int(match[1]) * 1024 if match else 0


def settings() -> dict[str, Any]:
    """Return the settings written by benchmarks/training.py; end the process if its torch lacks
    their device.
    """
    read: dict[str, Any] = json.loads(Path(sys.argv[1]).read_text())
    if read["device"] == "cuda" and not torch.cuda.is_available():
        sys.exit(f"torch {torch.__version__} of this environment finds no CUDA device")
    return read


def lines(path: str) -> list[list[int]]:
    """Return the ids in a file of texts."""
    return [
        [int(word[1:]) for word in line.split()] for line in Path(path).read_text().splitlines()
    ]
