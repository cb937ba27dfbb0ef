"""A run folder, from its making to the end of its training: complete in itself, held by one process."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from dialog.atomic import replacing, run_lock, write_json, write_text
from dialog.config.schema import Recipe, to_yaml
from dialog.errors import UserError
from dialog.paths import make_folder

if TYPE_CHECKING:
    from dialog.data.store.store import Store
    from dialog.models.seq2seq import Seq2Seq
    from dialog.training.trainer import Trainer


@dataclass(frozen=True)
class Trained:
    """What a training run leaves."""

    folder: Path
    seconds: float
    steps: int
    target_tokens: int


@contextmanager
def opened(folder: Path, recipe: Recipe, store: Store, *, first: bool, resumed: bool) -> Iterator[None]:
    """A run folder for the time of a training; the first process makes it, or tidies up what a kill has left."""
    from dialog.runs.environment import environment
    from dialog.training.checkpoints.checkpoint_io import newest, sweep

    if not first:
        yield
        return
    marks = {"data": store.manifest["fingerprint"], "tokenizer": store.tokenizer.fingerprint}
    if resumed:
        refuse_other_data(folder, marks)
    else:
        make_folder(folder)
    with run_lock(folder):
        if not resumed:
            store.tokenizer.save(folder / "tokenizer.json")
            write_json(folder / "environment.json", {**environment(), "seed": recipe.seed, **marks})
        (folder / "summary.json").unlink(missing_ok=True)  # of a run that is now to be longer
        sweep(folder / "checkpoints")
        if newest(folder / "checkpoints") is None:
            (folder / "metrics.jsonl").unlink(missing_ok=True)
        write_text(folder / "recipe.yaml", to_yaml(recipe))
        yield


def finish(folder: Path, lightning: Trainer, model: Seq2Seq, *, seconds: float, target_tokens: int) -> Trained:
    """Write the best weights alone, by way of a network that can hold them all, and what the training was."""
    from safetensors.torch import save_model

    from dialog.training import trainer
    from dialog.training.checkpoints.checkpoint_io import SafeCheckpointIO

    best = folder / "checkpoints" / "best.ckpt"
    if not best.is_file():
        raise UserError(f"{folder}: no validation took place, so there are no best weights; train longer")
    if not math.isfinite(trainer.best_value(lightning)):
        raise UserError(f"{folder}: training diverged, no validation loss is finite; lower optimizer.lr")
    state = SafeCheckpointIO().load_checkpoint(best, map_location="cpu")["state_dict"]
    weights = {name.removeprefix("model."): each for name, each in state.items() if name.startswith("model.")}
    model.to(next(each.dtype for each in weights.values() if each.is_floating_point())).load_state_dict(weights)
    with replacing(folder / "model.safetensors") as new:
        save_model(model, str(new))
    trained = Trained(folder, seconds, lightning.global_step, target_tokens)
    summary = {key: value for key, value in asdict(trained).items() if key != "folder"}
    write_json(folder / "summary.json", summary)
    return trained


def outcome(folder: Path) -> Trained | None:
    """What a training has left, if it has come to its end."""
    path = folder / "summary.json"
    return Trained(folder, **json.loads(path.read_text(encoding="utf-8"))) if path.is_file() else None


def refuse_other_data(folder: Path, marks: Mapping[str, str]) -> None:
    """Refuse prepared data, or a tokenizer, that are not those that a run was begun with."""
    known = json.loads((folder / "environment.json").read_text(encoding="utf-8"))
    for name, mark in marks.items():
        if known[name] != mark:
            raise UserError(
                f"{folder}: was trained on other {name} ({known[name][:12]}, now {mark[:12]}); "
                "give data.path=DIR of the corpus as it was"
            )
