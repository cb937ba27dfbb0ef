"""Run folder: its files, its lock, and what is written before and after training.

    recipe.yaml          composed; can be run again unchanged
    environment.json     versions, hardware, git state, seed, fingerprints of data and tokenizer
    tokenizer.json       with tokenizer_config.json for transformers
    resumed.json         commits of resumed processes, if they differ from environment.json
    initial.json         what came from another run or from word vectors, if anything did
    manifest.json        SHA-256 of the files above but the last, and of the weights
    checkpoints/         best.ckpt, last.ckpt, previous.ckpt, and a manifest.json of their own
    model.safetensors    the weights of the best validation so far, written with best.ckpt
    metrics.jsonl        one line per logged step
    summary.json         steps, target tokens, seconds, peak memory; written when training ends
    attention/           maps of a few validation examples
    evaluation/<split>/  metrics.json, responses.jsonl, statistics.safetensors, cost.json and their
                         manifest.json; with other settings or data another folder

A file of a manifest is checked whenever it is loaded. While a run is trained, its folder can be
read.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dialog.atomic import remove_partial_folders, run_lock, write_json, write_text
from dialog.config.compose import compose
from dialog.config.schema import Recipe, to_yaml
from dialog.config.trust import NO_TRUST, Trust
from dialog.errors import DivergedError, UserError, disk_error
from dialog.json_files import read_json, read_json_lines
from dialog.paths import created_folder
from dialog.training.checkpoints.manifest import (
    MANIFEST,
    check_intact,
    list_files,
    read_manifest,
    remove_temporaries,
    replacing_listed,
)
from dialog.version import __version__

if TYPE_CHECKING:
    from dialog.data.store.store import Store
    from dialog.training.trainer import Trainer

RECIPE = "recipe.yaml"
ENVIRONMENT = "environment.json"
RESUMED = "resumed.json"
INITIAL = "initial.json"
TOKENIZER = "tokenizer.json"
METRICS = "metrics.jsonl"
CHECKPOINTS = "checkpoints"
BEST = "checkpoints/best.ckpt"
WEIGHTS = "model.safetensors"
SUMMARY = "summary.json"
LISTED = (RECIPE, ENVIRONMENT, TOKENIZER, "tokenizer_config.json", WEIGHTS)
"""Files in the manifest: those that results depend on."""

END_KEYS = ("trainer.max_epochs", "trainer.max_steps", "trainer.max_time", "checkpoint.patience")
"""Keys that decide when training ends; changing one lets a finished run continue."""

CHANGEABLE = (
    *END_KEYS, "trainer.accelerator", "trainer.devices", "trainer.num_nodes",
    "trainer.enable_progress_bar", "trainer.graphs", "trainer.compile",
    "trainer.log_every_n_steps", "checkpoint", "logger", "data.path",
)  # fmt: skip
"""Keys and sections that may change within a run: they determine where it is computed and what is
recorded.
"""


@dataclass(frozen=True)
class Trained:
    """Summary of a finished training."""

    folder: Path
    seconds: float
    steps: int
    target_tokens: int


def read_recipe(folder: Path, overrides: Sequence[str] = (), *, trust: Trust = NO_TRUST) -> Recipe:
    """Compose the recipe of a run folder; `trust` allows it to import parts.

    Raises:
        UserError: not a run folder, a recipe that has changed, or an invalid recipe or override.
    """
    if not (folder / RECIPE).is_file():
        raise UserError(f"{folder} is not a run folder: it has no {RECIPE}{_run_below(folder)}")
    check_intact(folder / RECIPE, "restore it; to change a setting, pass it as key=value")
    path = folder / RECIPE
    if overrides or not os.access(path, os.R_OK):
        return compose(str(path), overrides, trust=trust).recipe
    return trust.allow(_whole_recipe(str(path), path.read_bytes()))  # a copy, so callers share none


@lru_cache(maxsize=1024)
def _whole_recipe(path: str, content: bytes) -> Recipe:
    """Compose the recipe of a run without trust; a comparison asks a dozen times for each of its
    runs.
    """
    assert content is not None  # tells a recipe from an earlier one at this path
    return compose(path).recipe


def _run_below(folder: Path) -> str:
    """Return a hint at a run folder below, as those of a recipe, a sweep or a comparison have;
    empty without one.
    """
    recipes = sorted(
        path for depth in ("*", "*/*", "*/*/*") for path in folder.glob(f"{depth}/{RECIPE}")
    )
    return f"; a run folder below it is {recipes[-1].parent}" if recipes else ""


def weights_remedy(folder: Path) -> str:
    """Return what to do about missing or damaged weights."""
    if (folder / BEST).is_file():
        return f"rebuild it from {BEST}: python -m dialog train --resume {folder}"
    if (folder / SUMMARY).is_file():
        return f"{BEST} is missing too; restore one from a copy, or train again"
    again = f"python -m dialog train --resume {folder}"
    return f"no validation has saved weights yet; continue with {again}"


def hash_of(value: object) -> str:
    """Return the SHA-256 of plain values."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


@contextmanager
def opened(
    folder: Path, recipe: Recipe, store: Store, *, first: bool, resumed: bool
) -> Iterator[None]:
    """Create or continue a run folder, and hold its lock during training; ranks other than the
    first do nothing.
    """
    if not first:
        yield
        return
    fingerprints = {
        "data": store.manifest["fingerprint"],
        "tokenizer": store.tokenizer.fingerprint,
        "corpus": hash_of(store.manifest["settings"]["sources"]),
        "data_format": store.manifest["format"],
    }
    if resumed:
        check_same_data(folder, fingerprints)
    else:
        create(folder, recipe, store, fingerprints)
    with run_lock(folder):
        if resumed:
            prepare_to_resume(folder, recipe)
        try:
            yield
        except OSError as error:
            if expected := disk_error(
                error, f"continue with: python -m dialog train --resume {folder}"
            ):
                raise expected from error
            raise


def create(folder: Path, recipe: Recipe, store: Store, fingerprints: Mapping[str, Any]) -> None:
    """Create a run folder; it appears with all that resuming needs, so a kill leaves no folder or
    one to resume.

    Raises:
        UserError: it exists or cannot be created.
    """
    with created_folder(folder) as new:
        store.tokenizer.save(new / TOKENIZER)
        write_json(new / ENVIRONMENT, {**environment(), "seed": recipe.seed, **fingerprints})
        write_text(new / RECIPE, to_yaml(with_absolute_path(recipe)))
        list_files(new, LISTED)


def prepare_to_resume(folder: Path, recipe: Recipe) -> None:
    """Record recipe and commit of the run to resume, and remove what a kill left behind and what is
    out of date.
    """
    from dialog.training.checkpoints.checkpoint_io import clean_up, newest

    remove_partial_folders(folder)
    remove_temporaries(folder, (*LISTED, RESUMED, INITIAL, METRICS, SUMMARY))
    for step in (folder / "attention").glob("step-*"):
        remove_temporaries(step, ("*.json", "*.npz"))
    if (commits := commits_of(folder))[-1] != (commit := environment()["git"]):
        write_json(folder / RESUMED, {"commits": [*commits[1:], commit]})
    if read_manifest(folder) is None:  # of a version without manifests
        list_files(folder, LISTED)
    (folder / SUMMARY).unlink(missing_ok=True)  # of a finished run whose training is extended
    clean_up(folder / CHECKPOINTS)
    if newest(folder / CHECKPOINTS) is None:
        (folder / METRICS).unlink(missing_ok=True)
    with replacing_listed(folder / RECIPE) as new:
        new.write_text(to_yaml(with_absolute_path(recipe)), encoding="utf-8", newline="\n")


def with_absolute_path(recipe: Recipe) -> Recipe:
    """Return a recipe whose `data.path` holds from every working directory."""
    if not recipe.data.path:
        return recipe
    return replace(recipe, data=replace(recipe.data, path=os.path.abspath(recipe.data.path)))


def finish(folder: Path, lightning: Trainer, *, seconds: float, target_tokens: int) -> Trained:
    """Write the summary, with the peak of memory since training or its last resume; best weights
    are already written.

    Raises:
        UserError: no validation was run.
        DivergedError: the monitored metric was finite in no validation.
    """
    from dialog.training.callbacks.memory import peak_memory

    if not (folder / WEIGHTS).is_file():
        record = folder / METRICS
        if record.is_file() and any("validation/loss" in line for line in read_json_lines(record)):
            raise DivergedError(
                f"{folder}: checkpoint.monitor was finite in no validation, so there are no best"
                " weights; lower optimizer.lr, or monitor another metric"
            )
        raise UserError(
            f"{folder}: no validation was run, so there are no best weights; train longer"
        )
    trained = Trained(folder, seconds, lightning.global_step, target_tokens)
    summary = {key: value for key, value in asdict(trained).items() if key != "folder"}
    write_json(
        folder / SUMMARY,
        {**summary, "peak_memory_bytes": peak_memory(lightning.strategy.root_device)},
    )
    return trained


def model_files(folder: Path) -> list[Path]:
    """Return the files with which a run answers elsewhere; none before the first best weights."""
    if not (folder / WEIGHTS).is_file():
        return []
    return [folder / name for name in (*LISTED, MANIFEST) if (folder / name).is_file()]


def read_summary(folder: Path) -> Trained | None:
    """Return the summary of a finished training, or None."""
    path = folder / SUMMARY
    if not path.is_file():
        return None
    summary = read_json(path, "seconds", "steps", "target_tokens")
    values = [summary[key] for key in ("seconds", "steps", "target_tokens")]
    if not all(isinstance(value, int | float) and 0 <= value < 2**63 for value in values):
        raise UserError(
            f"{path}: damaged; seconds, steps and target_tokens must be numbers of at least 0"
        )
    return Trained(folder, *values)


def commits_of(folder: Path) -> list[str]:
    """Return the commit at which a run was started, and those at which it was resumed."""
    started = read_json(folder / ENVIRONMENT).get("git", "unknown")
    return [
        started,
        *(
            read_json(folder / RESUMED, "commits")["commits"]
            if (folder / RESUMED).is_file()
            else ()
        ),
    ]


def check_same_data(folder: Path, now: Mapping[str, Any]) -> None:
    """Check that prepared data and tokenizer are those with which a run was started.

    Raises:
        UserError: the corpus has changed, or this version of the package prepares it in another
            way.
    """
    check_intact(folder / ENVIRONMENT)
    started = read_json(folder / ENVIRONMENT, "data", "tokenizer")
    changed = [name for name in ("data", "tokenizer") if started[name] != now[name]]
    if not changed:
        return
    before = started.get("data_format", "not recorded")
    after = now["data_format"]
    if before != after or started.get("corpus") == now["corpus"]:
        raise UserError(
            f"{folder}: this version of dialog prepares the data in another way (format {after})"
            f" than the one that started the run (format {before}); resume with that version"
            f" ({started.get('dialog', 'unknown')}, git {started.get('git', 'unknown')}), or train"
            " again"
        )
    raise UserError(
        f"{folder}: was trained on other {changed[0]} ({started[changed[0]][:12]}, now"
        f" {now[changed[0]][:12]}); give data.path=DIR of the unchanged corpus"
    )


# ------------------------------------------------------------------ environment


def environment() -> dict[str, Any]:
    """Return versions, hardware, git state and time; neither user data nor secrets."""
    import torch

    from dialog.training.optimization.precision import processor

    packages = ("torch", "lightning", "tokenizers", "omegaconf", "numpy", "wandb")
    return {
        "dialog": __version__,
        "python": platform.python_version(),
        **{name: version(name) for name in packages},
        "cpu": processor(),
        "cores": os.cpu_count() or 0,
        "threads": torch.get_num_threads(),
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else "none",
        "git": _git(),
        "time": datetime.now().astimezone().isoformat(timespec="seconds"),
    }


def _git() -> str:
    """Return the commit of the working folder, with -dirty if it has changes."""
    try:
        described = subprocess.run(
            ["git", "describe", "--always", "--dirty", "--abbrev=12"],
            capture_output=True,
            text=True,
            timeout=5,
        )
    except (OSError, subprocess.TimeoutExpired):
        return "unknown"
    return described.stdout.strip() or "unknown"
