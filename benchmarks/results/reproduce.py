"""Check whether the present code gives the results of older code; what it reproduces is listed in reproduced.json.

A recorded run is not current once the code of training or evaluation has changed. Few changes change a result. So the
recipe is trained and evaluated for a short time by the code of the run and by the present one, on this machine. The
present code reproduces the older one if

    prepared data  have the fingerprint that the run recorded,
    weights        are equal bit for bit after three epochs of 8 batches with a validation each, and
    metrics        of the first 500 test examples, with responses of at most 8 tokens, differ by at most
                   1e-6 max(1, |value|).

The file, ``recipes/reproduced.json``, has an entry for each recipe and commit; `dialog.recipes.measured` reads it.
"""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from entries import Entry
from record_table import to_markdown, write_table
from records import analyses_of, numbers, record_path
from safetensors.torch import load_file

from dialog.analysis.measured import RESPONSES
from dialog.atomic import write_text
from dialog.comparison.compare import RESULTS
from dialog.config.yaml_layers import read_yaml
from dialog.data.reading.files import sha256
from dialog.errors import RunError, UserError
from dialog.escaping import to_json
from dialog.json_files import read_json
from dialog.recipes.measured import (
    DIRTY,
    REPRODUCED,
    WITHOUT_EFFECT,
    outdated,
    present_hash,
    program,
    reproducing,
    reproductions,
)
from dialog.report.formats.numbers import hardware
from dialog.runs.environment import environment
from dialog.runs.evaluation.files import METRICS
from dialog.runs.folder import ENVIRONMENT, RECIPE, SUMMARY, WEIGHTS, hash_of

SHORT = (
    "trainer.max_epochs=3",
    "trainer.limit_train_batches=8",
    "trainer.limit_val_batches=3",
    "trainer.val_check_interval=1.0",
    "trainer.check_val_every_n_epoch=1",
    "trainer.enable_progress_bar=false",
    "generation.max_length=8",
    "logger=none",
)
"""Overrides of a short run. The settings of a run folder apply to its evaluation too."""
TOLERANCE = 1e-6
"""Of a metric that is at most 1, else of its value: rounding may depend on the order of a sum."""
SHORTENED = 12
"""Characters of a hash in the names of folders."""
FIRST_EXAMPLES = str(Path(__file__).with_name("first_examples.py"))
EXTRAS = ("history", "attention")
"""Measurements of a comparison."""
log = logging.getLogger("dialog")


def reproduce(entries: Sequence[Entry], recipes: Path, root: Path) -> None:
    """Check all recorded runs of the entries that are not current; write what is reproduced, and the tables.

    Args:
        entries: Of the queue; those without a record are skipped.
        recipes: Folder of the records.
        root: The checkout of the present code.

    Raises:
        UserError: the checkout has uncommitted changes, so the present code has no name.
        RunError: results of some commits are not reproduced. The others are listed.
    """
    now = environment()
    if str(now["git"]).endswith(DIRTY):
        raise UserError("--reproduce: the checkout has uncommitted changes; commit them first")
    differing = []
    with TemporaryDirectory(prefix="dialog-") as folder:
        runs = ShortRuns(Path(folder), root, str(now["git"]))
        for entry in entries:
            path = record_path(entry, recipes)
            record = read_json(path, "recipes") if path.is_file() else {"recipes": []}
            for row in record["recipes"]:
                for commit, run in old_runs(row):
                    reason = runs.difference(row, run, commit)
                    log.info("%s at %s: %s", row["name"], commit, reason or "reproduced")
                    if reason:
                        differing.append(f"{row['name']} at {commit}: {reason}")
                    else:
                        add(recipes / REPRODUCED, entry_of(row, commit, now))
            if path.is_file():
                write_table(recipes / entry.corpus / "README.md", entry.name, to_markdown(record))
    if differing:
        raise RunError(f"not reproduced: {'; '.join(differing)}")


def old_runs(row: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield each commit to compare with the present code, and the first run of a row whose results it gives.

    These are the commits of runs that are not current, or the last one that is known to give the same results.
    """
    if present_hash(row) != row["hash"]:
        log.info("%s: the recipe has changed since", row["name"])
        return
    seen = set()
    for run in row["runs"]:
        for commit in run["commits"]:
            if not commit.endswith(DIRTY) and outdated(commit, row["hash"]):
                last = reproducing(commit, row["hash"])[-1]
                if last not in seen:
                    yield last, run
                seen.add(last)


def entry_of(row: Mapping[str, Any], commit: str, now: Mapping[str, Any]) -> dict[str, Any]:
    """Return the entry of a recipe whose results at a commit the present code reproduces."""
    return {
        "recipe": row["recipe"],
        "overrides": row["overrides"],
        "hash": row["hash"],
        "commit": commit,
        "at": now["git"],
        "date": f"{datetime.now():%Y-%m-%d}",
        "hardware": hardware(now),
        "torch": now["torch"],
    }


def add(path: Path, entry: Mapping[str, Any]) -> None:
    """Add an entry to the file, in the order of recipe and commit."""
    entries = [*(read_json(path, "entries")["entries"] if path.is_file() else []), entry]
    entries.sort(key=lambda one: (one["recipe"], one["overrides"], one["commit"], one["at"]))
    write_text(path, to_json({"entries": entries}, indent=1) + "\n")
    reproductions.cache_clear()


class ShortRuns:
    """Short runs of several versions of the code.

    All runs of a recipe have the precision of the first one: `precision: auto` measures the machine, so it may choose
    another one while other work runs.

    Args:
        folder: For checkouts, prepared data and runs; nothing is shared between two versions.
        root: The checkout of the present code.
        now: Its commit.
    """

    def __init__(self, folder: Path, root: Path, now: str) -> None:
        self.folder = folder
        self.root = root
        self.now = now
        self.versions: dict[str, str] = {}
        self.precisions: dict[str, tuple[str, ...]] = {}

    def difference(self, row: Mapping[str, Any], run: Mapping[str, Any], commit: str) -> str:
        """Return how a recipe's results differ between a commit and the present code, or an empty text."""
        try:
            before, after = (self.trained(row, code) for code in (commit, self.now))
            data = [str(read_json(folder / ENVIRONMENT, "data")["data"]) for folder in (before, after)]
            if data != [run["data"]] * 2:
                return "other prepared data"
            weights, others = (load_file(folder / WEIGHTS) for folder in (before, after))
            if weights.keys() != others.keys() or not all(torch.equal(weights[name], others[name]) for name in weights):
                return "other weights"
            old, new = (self.metrics(folder, code, run) for folder, code in ((before, commit), (after, self.now)))
        except RunError as error:
            return str(error)
        for extra in EXTRAS:
            if extra in run["metrics"] and not any(name.startswith(f"{extra}.") for name in new):
                return f"{extra} not measured"
        for name in sorted(flat(run["metrics"]).keys() & old.keys()):
            if name not in new:
                return f"no {name}"
            if not abs(old[name] - new[name]) <= TOLERANCE * max(1.0, abs(old[name])):  # nor if one is no number
                return f"{name} {old[name]:.8g}, now {new[name]:.8g}"
        return ""

    def trained(self, row: Mapping[str, Any], commit: str) -> Path:
        """Return the folder of a short run of a recipe with the code of a commit."""
        run = self.folder / f"{self.version(commit)}-{row['hash'][:SHORTENED]}"
        if not (run / SUMMARY).is_file():
            same = self.precisions.get(row["hash"], ())
            self.call(commit, "train", row["recipe"], *row["overrides"], *SHORT, *same, "--output", str(run))
            chosen = read_yaml(run / RECIPE).values["trainer"]["precision"]
            self.precisions.setdefault(row["hash"], (f"trainer.precision={chosen}",))
        return run

    def metrics(self, folder: Path, commit: str, run: Mapping[str, Any]) -> dict[str, float]:
        """Return the metrics of a short run, with what a comparison measures if the recorded run has it."""
        pattern = f"evaluation/test*/{METRICS}"
        if not any(folder.glob(pattern)):
            self.call(commit, "evaluate", str(folder))
        evaluation = next(folder.glob(pattern)).parent
        if not (folder / "comparison" / RESULTS).is_file() and any(name in run["metrics"] for name in EXTRAS):
            responses = str(evaluation / RESPONSES)  # a file of responses is the simplest second contender
            self.call(commit, "compare", str(folder), responses, "--output", str(folder / "comparison"))
        return flat({**numbers(read_json(evaluation / METRICS)), **analyses_of(evaluation)})

    def call(self, commit: str, verb: str, *arguments: str) -> None:
        """Run a verb of ``dialog`` with the code of a commit; but for training, on the first examples only.

        Raises:
            RunError: it fails.
        """
        tree = self.tree(commit)
        cache = self.folder / f"{self.version(commit)}-cache"
        environ = {**os.environ, "PYTHONPATH": str(tree), "DIALOG_CACHE": str(cache)}
        start = ("-m", "dialog") if verb == "train" else (FIRST_EXAMPLES,)
        command = [sys.executable, *start, verb, *arguments]
        ended = subprocess.run(command, cwd=tree, env=environ, capture_output=True, encoding="utf-8", check=False)
        if ended.returncode:
            lines = ended.stderr.strip().splitlines() or ["no message"]
            raise RunError(f"{verb} at {commit} failed: {lines[-1]}")

    def version(self, commit: str) -> str:
        """Return a hash of the code of a commit that can change a result; equal versions share their short runs."""
        if commit not in self.versions:
            package = self.tree(commit) / "dialog"
            files = {path.relative_to(package).as_posix(): path for path in package.rglob("*") if path.is_file()}
            parts = {name: content(path) for name, path in files.items() if has_effect(name)}
            self.versions[commit] = hash_of(parts)[:SHORTENED]
        return self.versions[commit]

    def tree(self, commit: str) -> Path:
        """Return a folder with the files of a commit.

        Raises:
            RunError: the checkout lacks the commit.
        """
        if commit == self.now:
            return self.root
        tree = self.folder / commit
        if not tree.is_dir():
            archive = self.folder / f"{commit}.tar"
            command = ["git", "-C", str(self.root), "archive", "--output", str(archive), commit]
            ended = subprocess.run(command, capture_output=True, encoding="utf-8", check=False)
            if ended.returncode:
                raise RunError(ended.stderr.strip())
            with tarfile.open(archive) as files:
                files.extractall(tree, filter="data")
        return tree


def has_effect(name: str) -> bool:
    """Return whether a file of the package can change a result."""
    is_shown = any(name == part or name.startswith(f"{part}/") for part in WITHOUT_EFFECT)
    return not is_shown and not name.endswith(".pyc")


def content(path: Path) -> str:
    """Return the program of a Python file, or the SHA-256 of another one."""
    return program(path.read_text(encoding="utf-8")) if path.suffix == ".py" else sha256(path)


def flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, float]:
    """Return nested numbers by dotted name."""
    leaves: dict[str, float] = {}
    for key, value in values.items():
        leaves |= flat(value, f"{prefix}{key}.") if isinstance(value, Mapping) else {f"{prefix}{key}": float(value)}
    return leaves
