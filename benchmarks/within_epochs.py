"""Measure how the validation loss moves within epochs, and why.

    DIALOG_DATA=DIR python benchmarks/within_epochs.py [--orders epochs,drawn] [--rates 1e-3,2.5e-4] [--epochs 5] ...

Trains a small LSTM with attention on the first `--dialogues` dialogues of DailyDialog with a constant learning rate and
prints, four times an epoch, mean losses in nats per target token:

* clean, leaked: on the validation dialogues that do not leak from this training data, and on those that do;
* averaged: on the clean ones, with the mean of the weights of the last `AVERAGED` steps;
* short, long: standard deviations, over the last `WATCHED` steps, of the loss of a sample of clean responses of at most
  8 tokens and of 16 to 32;
* training: on the batches of the last quarter of an epoch, before each update.

The last line of an order is the correlation of the changes of short and long over the watched steps: it is negative if
a step mainly moves the lengths that the network expects.

Orders: `epochs` permutes the examples again in each epoch, as training does; `drawn` takes each batch from an order of
its own, so that an example can come twice before another comes once.
"""

from __future__ import annotations

import argparse
import copy
import json
import tempfile
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from dialog.analysis.baselines.training_sample import survey_training
from dialog.build import build_corpus, build_job, build_module
from dialog.config.compose import compose
from dialog.config.schema import Recipe
from dialog.data.batching import Batch
from dialog.data.dialogue import Dialogue
from dialog.data.store.plan import Plan
from dialog.data.store.store import Store
from dialog.runs.prepare import prepare_data
from dialog.training.module import DialogModule

SMALL = [
    "model.embedding_size=256",
    "model.encoder={name: lstm, size: 256}",
    "model.decoder={name: lstm, size: 256, attention: {name: additive, size: 128}}",
    "model.dropout=0.3",
    "model.tie_embeddings=all",
    "optimizer=adamw_constant",
]
BUDGET, CLIP, PARTS = 3072, 1.0, 4
AVERAGED, WATCHED, SAMPLE = 50, 10, 4
COLUMNS = ("clean", "averaged", "leaked", "short", "long", "training")


def divided_corpus(folder: Path, dialogues: int) -> Path:
    """Write the beginning of DailyDialog; `validation` are dialogues that do not leak into it, `test` those that do."""
    recipe = compose("dailydialog/lstm_bahdanau").recipe
    corpus = build_corpus(recipe)
    write(folder / "train.jsonl", islice(usable(corpus.dialogues("train")), dialogues))
    validation = list(usable(corpus.dialogues("validation")))
    for split in ("validation", "test"):
        write(folder / f"{split}.jsonl", validation)
    leaked = set(survey_training(build_job(small(folder, 1e-3)), validation, limit=1).report.leaked)
    write(folder / "validation.jsonl", (dialogue for dialogue in validation if dialogue.id not in leaked))
    write(folder / "test.jsonl", (dialogue for dialogue in validation if dialogue.id in leaked))
    print(
        f"{dialogues:,} training dialogues; {len(leaked):,} of {len(validation):,} validation dialogues leak",
        flush=True,
    )
    return folder


def usable(entries: Iterator[object]) -> Iterator[Dialogue]:
    """Yield the dialogues without empty turns; skip malformed records."""
    return (
        entry for entry in entries if isinstance(entry, Dialogue) and all(turn.text.strip() for turn in entry.turns)
    )


def write(file: Path, dialogues: Iterator[Dialogue] | list[Dialogue]) -> None:
    """Write dialogues as JSON lines."""
    with file.open("w", encoding="utf-8") as lines:
        for dialogue in dialogues:
            turns = [{"speaker": turn.speaker, "text": turn.text} for turn in dialogue.turns]
            lines.write(json.dumps({"id": dialogue.id, "turns": turns}) + "\n")


def small(folder: Path, rate: float) -> Recipe:
    """Return the recipe of a small LSTM with attention."""
    data = [f"data.path={folder}", "data.corpus={name: jsonl}", "logger=none"]
    return compose("dailydialog/lstm_bahdanau", [*data, *SMALL, f"optimizer.lr={rate}"]).recipe


def batches(store: Store, order: str, seed: int) -> Iterator[Batch]:
    """Yield training batches without end."""
    draw = np.random.default_rng(seed)
    epoch = 0
    while True:
        plan = Plan(store.classes, budget=BUDGET, seed=seed, epoch=epoch, shuffle=True)
        if order == "epochs":
            yield from map(store.batch, plan.batches())
        else:
            yield store.batch(plan.rows(int(draw.integers(len(plan)))))
        epoch += 1


def mean_loss(module: DialogModule, batches: Iterable[Batch]) -> float:
    """Return nats per target token."""
    module.eval()
    total = tokens = 0.0
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
        for batch in batches:
            total += float(module.step.validate(module.model, batch)[0])
            tokens += batch.target_tokens
    module.train()
    return total / tokens


def all_batches(store: Store) -> list[Batch]:
    """Return the batches of a split."""
    return [store.batch(rows) for rows in Plan(store.classes, budget=BUDGET).batches()]


def of_lengths(batches: Iterable[Batch], shortest: int, longest: int) -> list[Batch]:
    """Return some batches whose responses have that many tokens."""
    widths = range(shortest + 1, longest + 2)  # of targets, which begin with a start token
    return [batch for batch in batches if batch.target.shape[1] in widths][::3][:SAMPLE]


class Averaged(NamedTuple):
    """The mean of the weights over some steps."""

    sums: list[torch.Tensor]
    steps: int

    @classmethod
    def begin(cls, module: DialogModule) -> Averaged:
        """Start with no step."""
        return cls([torch.zeros_like(weight) for weight in module.parameters()], 0)

    def add(self, module: DialogModule) -> Averaged:
        """Add the weights."""
        for total, weight in zip(self.sums, module.parameters(), strict=True):
            total += weight.detach()
        return self._replace(steps=self.steps + 1)

    def copy_of(self, module: DialogModule) -> DialogModule:
        """Return a copy of the module with these weights."""
        copied = copy.deepcopy(module)
        with torch.no_grad():
            for weight, total in zip(copied.parameters(), self.sums, strict=True):
                weight.copy_(total / self.steps)
        return copied


def train(folder: Path, order: str, rate: float, epochs: int, seed: int) -> Iterator[tuple[float, dict[str, float]]]:
    """Train; yield the epoch and the losses four times an epoch, at the end epoch 0 and the correlation."""
    recipe = small(folder, rate)
    data = prepare_data(recipe, quiet=True)
    training = Store(data, "train")
    clean, leaked = (all_batches(Store(data, split)) for split in ("validation", "test"))
    samples = of_lengths(clean, 1, 8), of_lengths(clean, 16, 32)
    torch.manual_seed(seed)
    module = build_module(recipe, len(training.tokenizer)).train()
    parts: Any = module.configure_optimizers()
    optimizer, schedule = parts["optimizer"], parts["lr_scheduler"]["scheduler"]
    length = len(Plan(training.classes, budget=BUDGET))
    stream, watched = batches(training, order, seed), []
    for position in range(1, PARTS * epochs + 1):
        seen, average = 0.0, Averaged.begin(module)
        steps, losses = length * position // PARTS - length * (position - 1) // PARTS, []
        for left, batch in zip(reversed(range(steps)), stream, strict=False):
            optimizer.zero_grad(set_to_none=True)
            with torch.autocast("cpu", dtype=torch.bfloat16):
                loss = module.step(module.model, batch, 0)[0] / batch.target_tokens
            loss.backward()
            torch.nn.utils.clip_grad_norm_(module.parameters(), CLIP)
            optimizer.step()
            schedule.step()
            seen += float(loss.detach())
            if left < AVERAGED:
                average = average.add(module)
            if left < WATCHED:
                losses.append([mean_loss(module, sample) for sample in samples])
        watched.append(np.diff(losses, axis=0))
        short, long = np.std(losses, axis=0, ddof=1)
        values = {
            "clean": mean_loss(module, clean),
            "averaged": mean_loss(average.copy_of(module), clean),
            "leaked": mean_loss(module, leaked),
            "short": short,
            "long": long,
            "training": seen / steps,
        }
        yield position / PARTS, values
    yield 0, {"correlation": float(np.asarray(np.corrcoef(np.concatenate(watched).T))[0, 1])}


def main() -> None:
    """Print one row per quarter of an epoch."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--orders", default="epochs,drawn")
    parser.add_argument("--rates", default="1e-3,2.5e-4", help="learning rates")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--dialogues", type=int, default=2800, help="training dialogues, of 11,118")
    parser.add_argument("--seeds", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        corpus = divided_corpus(Path(folder), options.dialogues)
        print(f"| order | learning rate | seed | epoch | {' | '.join(COLUMNS)} |")
        print("| --- |" + " ---: |" * (3 + len(COLUMNS)))
        for seed in range(1, options.seeds + 1):
            for rate in map(float, options.rates.split(",")):
                for order in options.orders.split(","):
                    for epoch, values in train(corpus, order, rate, options.epochs, seed):
                        figures = " | ".join(f"{value:.4f}" for value in values.values())
                        print(f"| {order} | {rate:g} | {seed} | {epoch or 'correlation'} | {figures} |", flush=True)


if __name__ == "__main__":
    main()
