"""Train dialog's module, optimizer and batches in a loop without Lightning, to measure the cost of
its Trainer.
"""

from __future__ import annotations

import math
import warnings

import torch
from recorder import Recorder, settings
from torch import Tensor, nn

from dialog.build import build_data, build_module
from dialog.config.compose import compose
from dialog.data.batching import Batch
from dialog.data.store.store import Store
from dialog.data.tokenizers.tokenizer import PAD
from dialog.runs.prepare import prepare_data
from dialog.training.module import DialogModule
from dialog.training.optimization.allocator import tune_process

GIVEN = settings()


def read(batch: Batch, _: int) -> tuple[Tensor, Tensor]:
    """Return masks of real tokens."""
    return batch.source != PAD, batch.target[:, 1:] != PAD


def main() -> None:
    """Train."""
    warnings.filterwarnings("ignore", message=".*trainer.* reference is not registered")
    tune_process()
    recipe = compose(GIVEN["recipe"], GIVEN["overrides"]).recipe
    folder = prepare_data(recipe)
    tokenizer = Store(folder, "train").tokenizer
    recorder = Recorder(GIVEN)
    module = build_module(recipe, len(tokenizer), tokenizer).train().to(GIVEN["device"])
    recorder.parameters = sum(parameter.numel() for parameter in module.model.parameters())
    parts = module.configure_optimizers()
    optimizer = parts["optimizer"]
    schedule = parts["lr_scheduler"]["scheduler"]
    batches = build_data(recipe, folder, tokenizer).train_dataloader()
    number = 0
    while True:
        for batch in batches:
            recorder.batch(*read(batch, number))
            batch = batch._replace(
                source=batch.source.to(GIVEN["device"]), target=batch.target.to(GIVEN["device"])
            )
            step(module, batch, number, optimizer, recipe.trainer.gradient_clip_val)
            schedule.step()
            number += 1


def step(
    module: DialogModule,
    batch: Batch,
    number: int,
    optimizer: torch.optim.Optimizer,
    clip: float | None,
) -> None:
    """Train one step."""
    optimizer.zero_grad()
    with torch.autocast(
        GIVEN["device"], torch.bfloat16, enabled=GIVEN["precision"] == "bf16-mixed"
    ):
        loss = module.training_step(batch, number)
    loss.backward()
    nn.utils.clip_grad_norm_(module.model.parameters(), clip or math.inf)
    optimizer.step()


if __name__ == "__main__":
    main()
