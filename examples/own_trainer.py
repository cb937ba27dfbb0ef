"""Train with your own Lightning Trainer, logger and callbacks.

Run `python examples/own_trainer.py [KEY=VALUE ...]`. docs/python.md has a DataLoader of own texts.
"""

import sys

from lightning import LightningModule, Trainer
from lightning.pytorch.callbacks import Callback, EarlyStopping
from lightning.pytorch.loggers import CSVLogger

import dialog
from dialog.data.store.store import Store
from dialog.runs.prepare import prepare_data


class Print(Callback):
    """A callback of your own."""

    def on_validation_end(self, trainer: Trainer, module: LightningModule) -> None:
        """Print loss, bits per byte, perplexity and accuracy."""
        print({name: round(value.item(), 3) for name, value in trainer.callback_metrics.items()})


if __name__ == "__main__":
    recipe = dialog.compose("quickstart/transformer", sys.argv[1:]).recipe
    folder = prepare_data(recipe)
    data = dialog.DialogDataModule(folder, batch_tokens=recipe.data.batch_tokens)
    tokenizer = Store(folder, "train").tokenizer
    model = dialog.build_model(recipe.model, vocabulary=len(tokenizer))
    module = dialog.DialogModule(model, padding=0, optimizer=recipe.optimizer, tokenizer=tokenizer)
    trainer = Trainer(
        max_steps=recipe.trainer.max_steps,
        use_distributed_sampler=False,  # the data module divides batches among processes itself
        logger=CSVLogger("runs", name="own_trainer"),
        callbacks=[Print(), EarlyStopping("validation/loss", patience=2)],
    )
    trainer.fit(module, data)
    trainer.test(module, data)
