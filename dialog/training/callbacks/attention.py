"""The attention of a fixed handful of validation examples, after each validation."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import torch
from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.callbacks import Callback
from lightning.pytorch.loggers import WandbLogger

from dialog.analysis.maps import attention_maps, maps_to_json, turn_indices
from dialog.atomic import write_text
from dialog.data.store.store import Store
from dialog.data.tokenizers.tokenizer import BOS, PAD, SPECIAL_TOKENS
from dialog.report.drawing.image import heatmap_grid
from dialog.training.distributed.fsdp import gathered_weights, is_sharded
from dialog.training.module import DialogModule


class AttentionRecorder(Callback):
    """Writes ``attention/step-<n>/<example>.json`` and shows the heat maps in Weights & Biases.

    Maps of every layer and head under teacher forcing, rows and columns labelled with tokens; the examples are drawn
    from the longer half of the validation split and stay the same. The training path is not touched, and only rank 0
    draws.
    """

    def __init__(self, folder: Path, store: Store, *, examples: int = 4) -> None:
        self.folder = folder / "attention"
        self.store = store
        long = range(len(store) // 2, len(store))  # by their sources' lengths
        places = random.Random(0).sample(long, min(examples, len(long)))
        self.rows = sorted(store.classes.order[places].tolist())

    def on_validation_end(self, trainer: Trainer, module: LightningModule) -> None:
        """Record one step."""
        assert isinstance(module, DialogModule)
        if trainer.sanity_checking or not self.rows or not (trainer.is_global_zero or is_sharded(module)):
            return
        found = self.maps(module)
        if not trainer.is_global_zero:
            return
        step = trainer.global_step
        for row, maps in zip(self.rows, found, strict=True):
            path = self.folder / f"step-{step}" / f"{row}.json"
            path.parent.mkdir(parents=True, exist_ok=True)
            write_text(path, json.dumps(maps, ensure_ascii=False))
            for logger in trainer.loggers:
                if isinstance(logger, WandbLogger):
                    log_images(logger, maps, row, step)

    def maps(self, module: DialogModule) -> list[dict[str, Any]]:
        """The maps of each example, as ``dialog attention`` writes them."""
        batch = self.store.batch(self.rows)
        source, target = batch.source.to(module.device), batch.target.to(module.device)
        training = module.training
        module.eval()
        with gathered_weights(module):
            found = attention_maps(module.model, source, source != PAD, target[:, :-1])
        module.train(training)
        shown = [(self._labels(one), self._labels(other[1:])) for one, other in zip(source, target, strict=True)]
        return [
            maps_to_json(found, place, read, said, turn_indices(module.model, source[place], len(read)))
            for place, (read, said) in enumerate(shown)
        ]

    def _labels(self, tokens: torch.Tensor) -> list[str]:
        return [self.store.tokenizer.label(token) for token in tokens.tolist() if token != PAD]


def log_images(logger: WandbLogger, maps: dict[str, Any], row: int, step: int) -> None:
    """One image for each module, with a panel for each head."""
    import wandb

    said = maps["response_tokens"]
    rows = {"source": maps["context_tokens"], "turns": maps.get("context_turns", []), "target": said}
    columns = {**rows, "target": [SPECIAL_TOKENS[BOS], *said[:-1]]}
    images = {}
    for each in maps["maps"]:
        axes = {"rows": rows[each["side"]], "columns": columns[each["columns"]]}
        picture = heatmap_grid(each["weights"], **axes, title=each["name"])
        images[f"attention/{row}/{each['name']}"] = wandb.Image(picture)
    logger.experiment.log({**images, "trainer/global_step": step})
