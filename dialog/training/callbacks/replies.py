"""Replies to a few validation contexts, for the tracker."""

from __future__ import annotations

import sys

from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.callbacks import Callback

from dialog.config.schema import GenerationConfig
from dialog.data.store.store import Store
from dialog.generation.responder import Responder
from dialog.training.callbacks.attention_recorder import sample_of
from dialog.training.distributed.fsdp import gathered_weights, is_sharded
from dialog.training.loggers import MediaLogger, trackers
from dialog.training.module import DialogModule

ANSWERED = 8
"""Number of contexts."""
COLUMNS = ["step", "id", "context", "reference", "reply", "score"]
GREEDY = {"name": "greedy"}
"""Draws no random number, so training is not affected."""


class Replies(Callback):
    """Logs greedy replies as the table ``validation/replies`` at each validation.

    The contexts depend on the validation split alone, so all runs of a comparison answer the same
    ones; ``id`` is the row in the split. The score is the log-probability of the reply.

    Args:
        store: The validation split.
        generation: Limits and constraints of the recipe.
    """

    def __init__(self, store: Store, generation: GenerationConfig) -> None:
        self.store = store
        self.generation = generation
        self.rows = sorted(sample_of(store, ANSWERED))

    def on_validation_end(self, trainer: Trainer, module: LightningModule) -> None:
        """Log the replies of this step, if a tracker takes tables."""
        loggers = [
            (logger, logger.tracker)
            for logger in trackers(trainer.loggers)
            if isinstance(logger.tracker, MediaLogger)
        ]
        takes_part = trainer.is_global_zero or is_sharded(module)
        if trainer.sanity_checking or not loggers or not self.rows or not takes_part:
            return
        assert isinstance(module, DialogModule)
        step = trainer.global_step
        with gathered_weights(module):
            table = self.table(module, step)
        for logger, tracker in loggers:
            logger.submit(tracker.log_table, "validation/replies", COLUMNS, table, step)

    def table(self, module: DialogModule, step: int) -> list[list[str | int | float]]:
        """Return a row of `COLUMNS` for each context."""
        training = module.training
        module.eval()
        # the store's sources are truncated already
        responder = Responder(module.model, self.store.tokenizer, sys.maxsize, self.generation)
        replies = responder.generate(self.store.batch(self.rows).source, GREEDY)
        module.train(training)
        decode = self.store.tokenizer.decode
        table: list[list[str | int | float]] = []
        for row, (reply, *_) in zip(self.rows, replies, strict=True):
            facts, turns = self.store.lines(row)
            context = "\n".join(decode(ids) for _, ids in (*facts, *turns))
            reference = decode(self.store.target(row)[1:-1].tolist())
            table.append([step, row, context, reference, reply.text, round(reply.score, 4)])
        return table
