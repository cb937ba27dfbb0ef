"""Record attention maps and statistics of fixed validation examples at each validation."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.callbacks import Callback

from dialog.analysis.attention.batch_maps import Examples
from dialog.analysis.attention.maps import attention_maps, maps_with_tokens, turn_indices
from dialog.analysis.attention.statistics import curve_statistics
from dialog.analysis.attention.token_kinds import ReadLine, TokenKinds, line_groups
from dialog.data.store.length_classes import by_length
from dialog.data.store.plan import Plan
from dialog.data.store.store import Store
from dialog.ranks import rank
from dialog.report.drawing.attention.statistics import head_label
from dialog.training.callbacks.attention_views import log_images, log_panel, log_table, write_maps
from dialog.training.distributed.fsdp import gathered_weights, is_sharded
from dialog.training.loggers import MediaLogger, trackers
from dialog.training.loggers.background import PageLogger
from dialog.training.module import DialogModule

CURVES = ("entropy", "sharpness", "mass_start", "mass_end", "coverage", "alignment_accuracy")
"""Statistics that are logged at each validation, for each head."""
MEASURED_TOKENS = 4096
"""Padded tokens of a batch that is measured; bounds the memory of its maps."""

Gold = Callable[[Sequence[int]], Mapping[int, Mapping[int, int]]]
"""Maps rows of the validation split to their gold alignments; rows without one are left out."""


class AttentionRecorder(Callback):
    """Writes the maps of a few validation examples, logs them as pictures, and logs statistics as
    curves.

    Maps under teacher forcing of every layer and head, without dropout and autocast:
    ``attention/step-<n>/<row>.json`` in the format of ``dialog attention``, and the weights as
    arrays beside it. The rows depend on the validation split alone, so all runs of a comparison
    draw the same examples. Training is not affected; only the first rank writes.

    Args:
        folder: The run folder.
        store: The validation split.
        self_attention: Whether maps of self-attention are recorded and measured too.
        gold: Gold alignments, for the curve of alignment accuracy.
    """

    def __init__(
        self,
        folder: Path,
        store: Store,
        *,
        self_attention: bool = False,
        gold: Gold = lambda rows: {},
    ) -> None:
        self.folder = folder / "attention"
        self.store = store
        self.self_attention = self_attention
        self.gold = gold
        self.rows = rows_to_draw(store)
        self._batches: list[Examples] = []

    def on_validation_epoch_end(self, trainer: Trainer, module: LightningModule) -> None:
        """Log `CURVES` as ``attention/<statistic>/<module>.<head>``."""
        if not self._takes_part(trainer, module):
            return
        assert isinstance(module, DialogModule)
        with gathered_weights(module):
            self._batches = self._batches or list(self._measured_batches())
            heads = curve_statistics(
                module.model, self._batches, self._kinds, self_attention=self.self_attention
            )
        for row in heads:
            values = {name: row[name] for name in CURVES if row.get(name) is not None}
            for name, value in values.items():
                key = f"attention/{name}/{head_label(row)}"
                module.log(key, value, rank_zero_only=True, sync_dist=False)

    def on_validation_end(self, trainer: Trainer, module: LightningModule) -> None:
        """Write and log the maps of this step."""
        if not self._takes_part(trainer, module):
            return
        assert isinstance(module, DialogModule)
        with gathered_weights(module):
            readings = self.write(module, trainer.global_step)
        if not trainer.is_global_zero or not any(reading["maps"] for reading in readings.values()):
            return
        step = trainer.global_step
        for logger in trackers(trainer.loggers):
            if isinstance(logger.tracker, MediaLogger):
                logger.submit(log_images, logger.tracker, readings, step)
            if isinstance(logger.tracker, PageLogger):
                logger.submit(log_table, logger.tracker, readings, step)
                logger.submit(log_panel, logger.tracker, self.folder, step)

    def write(self, module: DialogModule, step: int) -> dict[int, dict[str, Any]]:
        """Return the maps of the drawn rows; the first rank writes them."""
        training = module.training
        module.eval()
        readings = {row: self.reading(module, row) for row in self.rows}
        module.train(training)
        if rank() == 0:
            for row, reading in readings.items():
                write_maps(self.folder, step, row, reading)
        return readings

    def reading(self, module: DialogModule, row: int) -> dict[str, Any]:
        """Return the maps of an example, in the format of ``dialog attention``; the module must be
        in eval mode.
        """
        store = self.store
        tokenizer = self.store.tokenizer
        source, target = (ids.tolist() for ids in (store.source(row), store.target(row)))
        sources, targets = (torch.tensor([ids], device=module.device) for ids in (source, target))
        maps = attention_maps(
            module.model, sources, torch.ones_like(sources, dtype=torch.bool), targets[:, :-1]
        )
        context, response = ([*map(tokenizer.label, ids)] for ids in (source, target[1:]))
        turns = turn_indices(module.model, sources[0], len(source))
        facts, lines = (
            [ReadLine(own, tokenizer.decode(ids), len(ids)) for own, ids in part]
            for part in store.lines(row)
        )
        return {
            **maps_with_tokens(
                [one for one in maps if self._is_recorded(one.kind)], 0, context, response, turns
            ),
            "response": tokenizer.decode(target[1:-1]),
            **line_groups(
                tokenizer,
                facts,
                lines,
                source,
                target[1:],
                max_source=store.max_source,
                layout=store.layout,
            ),
        }

    @cached_property
    def _kinds(self) -> TokenKinds:
        """Kinds of the tokens; they are classified once, which takes long for a large
        vocabulary.
        """
        return TokenKinds.of(self.store.tokenizer)

    def _is_recorded(self, kind: str) -> bool:
        return self.self_attention or kind == "cross"

    def _takes_part(self, trainer: Trainer, module: LightningModule) -> bool:
        """Return whether this rank computes maps: the first one, and all of a sharded model."""
        return (
            not trainer.sanity_checking
            and bool(self.rows)
            and (trainer.is_global_zero or is_sharded(module))
        )

    def _measured_batches(self) -> Iterator[Examples]:
        """Yield the rows that are measured, in batches of similar length."""
        rows = rows_to_measure(self.store)
        gold = self.gold(rows)
        for places in Plan(
            by_length(*self.store.lengths_of(rows).T), budget=MEASURED_TOKENS
        ).batches():
            chosen = [rows[place] for place in places]
            batch = self.store.batch(chosen)
            yield Examples(batch.source, batch.target, gold=[gold.get(row, {}) for row in chosen])


# ------------------------------------------------------------------ chosen rows
# The data alone decide: neither the seed nor the tokenizer of a run changes them.


DRAWN = 4
"""Number of examples whose maps are drawn."""
CANDIDATES = 32
"""Number of examples of which those with longer responses are drawn."""
MEASURED = 32
"""Number of examples that are measured."""
FIRST = 10_000
"""Number of rows of the split that are chosen from, so that their text is read quickly."""


def rows_to_draw(store: Store) -> list[int]:
    """Return `DRAWN` rows of which at least as many others have shorter responses, in bytes, as
    longer ones.
    """
    rows = sample_of(store, CANDIDATES)
    sizes = {row: store.target_bytes([row]) for row in rows}
    median = sorted(sizes.values())[len(rows) // 2] if rows else 0
    return sorted([row for row in rows if sizes[row] >= median][:DRAWN])


def rows_to_measure(store: Store) -> list[int]:
    """Return rows without regard to their length."""
    return sample_of(store, MEASURED)


def sample_of(store: Store, count: int) -> list[int]:
    """Return rows among the first of a split, at random but always the same."""
    first = min(len(store), FIRST)
    return random.Random(0).sample(range(first), min(count, first))
