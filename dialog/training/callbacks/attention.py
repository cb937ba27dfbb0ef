"""Record attention maps of a few fixed validation examples after each validation."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import torch
from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.callbacks import Callback

from dialog.analysis.attention.maps import attention_maps, maps_to_json, turn_indices
from dialog.atomic import write_text
from dialog.data.store.store import Store
from dialog.data.tokenizers.tokenizer import BOS, PAD, SPECIAL_TOKENS
from dialog.report.drawing.image import heatmap_grid
from dialog.training.distributed.fsdp import gathered_weights, is_sharded
from dialog.training.loggers import MediaLogger, trackers
from dialog.training.module import DialogModule


class AttentionRecorder(Callback):
    """Writes ``attention/step-<n>/<example>.json`` and logs heat maps to the recipe's logger.

    Maps of every layer and head under teacher forcing, with tokens as row and column labels. The examples are drawn
    once from the longer half of the validation split. Training is not affected; only the first rank writes.
    """

    def __init__(self, folder: Path, store: Store, *, examples: int = 4) -> None:
        self.folder = folder / "attention"
        self.store = store
        longer_half = range(len(store) // 2, len(store))  # by source length
        places = random.Random(0).sample(longer_half, min(examples, len(longer_half)))
        self.rows = sorted(store.classes.order[places].tolist())

    def on_validation_end(self, trainer: Trainer, module: LightningModule) -> None:
        """Write and log the maps of this step."""
        assert isinstance(module, DialogModule)
        if trainer.sanity_checking or not self.rows or not (trainer.is_global_zero or is_sharded(module)):
            return
        maps_of_rows = self.maps(module)
        if not trainer.is_global_zero:
            return
        step = trainer.global_step
        for row, maps in zip(self.rows, maps_of_rows, strict=True):
            path = self.folder / f"step-{step}" / f"{row}.json"
            path.parent.mkdir(parents=True, exist_ok=True)
            write_text(path, json.dumps(maps, ensure_ascii=False))
            for logger in trackers(trainer.loggers):
                if isinstance(logger.tracker, MediaLogger):
                    logger.submit(log_images, logger.tracker, path, step)

    def maps(self, module: DialogModule) -> list[dict[str, Any]]:
        """Return the maps of each example, in the format of ``dialog attention``."""
        batch = self.store.batch(self.rows)
        source, target = batch.source.to(module.device), batch.target.to(module.device)
        training = module.training
        module.eval()
        with gathered_weights(module):
            maps = attention_maps(module.model, source, source != PAD, target[:, :-1])
        module.train(training)
        labels = [(self._labels(row), self._labels(gold[1:])) for row, gold in zip(source, target, strict=True)]
        return [
            maps_to_json(maps, place, context, response, turn_indices(module.model, source[place], len(context)))
            for place, (context, response) in enumerate(labels)
        ]

    def _labels(self, tokens: torch.Tensor) -> list[str]:
        return [self.store.tokenizer.label(token) for token in tokens.tolist() if token != PAD]


def log_images(logger: MediaLogger, path: Path, step: int) -> None:
    """Log one image per attention module of a file of maps, with one panel per head."""
    maps = json.loads(path.read_text(encoding="utf-8"))
    response = maps["response_tokens"]
    rows = {"source": maps["context_tokens"], "turns": maps.get("context_turns", []), "target": response}
    columns = {**rows, "target": [SPECIAL_TOKENS[BOS], *response[:-1]]}
    images = {}
    for one in maps["maps"]:
        axes = {"rows": rows[one["side"]], "columns": columns[one["columns"]]}
        images[f"attention/{path.stem}/{one['name']}"] = heatmap_grid(one["weights"], **axes, title=one["name"])
    logger.log_images(images, step)
