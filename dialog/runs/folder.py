"""Run folder: its files, its lock, and what is written before and after training."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from dialog.atomic import replacing, run_lock, write_json, write_text
from dialog.config.compose import compose
from dialog.config.schema import Recipe, to_yaml
from dialog.errors import UserError, disk_error
from dialog.json_files import read_json
from dialog.paths import make_folder

if TYPE_CHECKING:
    from dialog.data.store.store import Store
    from dialog.models.seq2seq import Seq2Seq
    from dialog.training.trainer import Trainer

RECIPE = "recipe.yaml"  # composed, can be run again unchanged
ENVIRONMENT = "environment.json"  # versions, hardware, seed, fingerprints of data and tokenizer
TOKENIZER = "tokenizer.json"
METRICS = "metrics.jsonl"  # one line per logged step
CHECKPOINTS = "checkpoints"
WEIGHTS = "model.safetensors"  # the best weights alone
SUMMARY = "summary.json"  # written when training ends; missing while a run can be resumed


@dataclass(frozen=True)
class Trained:
    """Summary of a finished training."""

    folder: Path
    seconds: float
    steps: int
    target_tokens: int


def read_recipe(folder: Path, overrides: Sequence[str] = ()) -> Recipe:
    """Compose the recipe of a run folder.

    Raises:
        UserError: not a run folder, or an invalid recipe or override.
    """
    if not (folder / RECIPE).is_file():
        raise UserError(f"{folder} is not a run folder: it has no {RECIPE}")
    return compose(str(folder / RECIPE), overrides).recipe


@contextmanager
def opened(folder: Path, recipe: Recipe, store: Store, *, first: bool, resumed: bool) -> Iterator[None]:
    """Hold the lock of a run folder during training; rank 0 creates the folder, or removes what a kill left behind."""
    from dialog.runs.environment import environment
    from dialog.training.checkpoints.checkpoint_io import clean_up, newest

    if not first:
        yield
        return
    fingerprints = {"data": store.manifest["fingerprint"], "tokenizer": store.tokenizer.fingerprint}
    if resumed:
        check_same_data(folder, fingerprints)
    else:
        make_folder(folder)
    with run_lock(folder):
        if not resumed:
            store.tokenizer.save(folder / TOKENIZER)
            write_json(folder / ENVIRONMENT, {**environment(), "seed": recipe.seed, **fingerprints})
        (folder / SUMMARY).unlink(missing_ok=True)  # of a finished run whose training is extended
        clean_up(folder / CHECKPOINTS)
        if newest(folder / CHECKPOINTS) is None:
            (folder / METRICS).unlink(missing_ok=True)
        write_text(folder / RECIPE, to_yaml(recipe))
        try:
            yield
        except OSError as error:
            if expected := disk_error(error, f"continue with: dialog-seq2seq train --resume {folder}"):
                raise expected from error
            raise


def finish(folder: Path, lightning: Trainer, model: Seq2Seq, *, seconds: float, target_tokens: int) -> Trained:
    """Write the best weights and the summary; ``model`` is an unsharded network that receives the weights."""
    from safetensors.torch import save_model

    from dialog.training import trainer
    from dialog.training.checkpoints.checkpoint_io import SafeCheckpointIO

    best = folder / CHECKPOINTS / "best.ckpt"
    if not best.is_file():
        raise UserError(f"{folder}: no validation was run, so there are no best weights; train longer")
    if not math.isfinite(trainer.best_value(lightning)):
        raise UserError(f"{folder}: training diverged, no validation loss is finite; lower optimizer.lr")
    state = SafeCheckpointIO().load_checkpoint(best, map_location="cpu")["state_dict"]
    weights = {name.removeprefix("model."): value for name, value in state.items() if name.startswith("model.")}
    model.to(next(value.dtype for value in weights.values() if value.is_floating_point())).load_state_dict(weights)
    with replacing(folder / WEIGHTS) as new:
        save_model(model, str(new))
    trained = Trained(folder, seconds, lightning.global_step, target_tokens)
    summary = {key: value for key, value in asdict(trained).items() if key != "folder"}
    write_json(folder / SUMMARY, summary)
    return trained


def read_summary(folder: Path) -> Trained | None:
    """Return the summary of a finished training, or None."""
    path = folder / SUMMARY
    if not path.is_file():
        return None
    summary = read_json(path, "seconds", "steps", "target_tokens")
    return Trained(folder, summary["seconds"], summary["steps"], summary["target_tokens"])


def check_same_data(folder: Path, fingerprints: Mapping[str, str]) -> None:
    """Check that prepared data and tokenizer are those with which a run was started."""
    started = read_json(folder / ENVIRONMENT, *fingerprints)
    for name, fingerprint in fingerprints.items():
        if started[name] != fingerprint:
            raise UserError(
                f"{folder}: was trained on other {name} ({started[name][:12]}, now {fingerprint[:12]}); "
                "give data.path=DIR of the unchanged corpus"
            )
