"""What a comparison found, as plain data: results.json."""

from __future__ import annotations

import json
import random
import statistics
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from dialog.runs.run import Run

COUNTS = {"examples", "dialogues", "nll_nats", "tokens", "words", "bytes", "questions", "copied_tokens"}
"""Metrics that count the test set rather than judge a model."""


def curve(folder: Path) -> list[dict[str, Any]]:
    """The learning curve of a run, from its metrics.jsonl."""
    points, tokens = [], 0
    for line in (folder / "metrics.jsonl").read_text(encoding="utf-8").split("\n"):
        if not line:
            continue
        values = json.loads(line)
        tokens = int(values.get("train/tokens", tokens))
        if "train/loss" in values or "validation/bits_per_byte" in values:
            points.append(
                {
                    "step": values["step"],
                    "epoch": values["epoch"],
                    "target_tokens": tokens,
                    "seconds": values["time"],
                    "train/loss": values.get("train/loss"),
                    "validation/bits_per_byte": values.get("validation/bits_per_byte"),
                }
            )
    return points


def summary(runs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Mean, sample standard deviation and count over seeds of every metric that judges a model in one number."""
    found = {}
    for name, value in runs[0]["metrics"].items():
        values = [number(run["metrics"].get(name)) for run in runs]
        if number(value) is None or name in COUNTS:
            continue
        known = [each for each in values if each is not None]
        std = statistics.stdev(known) if len(known) > 1 else None
        found[name] = {"mean": statistics.fmean(known), "std": std, "n": len(known)}
    return found


def number(value: object) -> float | None:
    """A metric as one number: itself, or the score that it holds."""
    if isinstance(value, dict):
        value = value.get("score")
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def samples(folders: Sequence[Path], split: str, *, count: int = 12) -> list[dict[str, Any]]:
    """The same examples of a split for every model, drawn from those with a context where there are any."""
    files = [folder / "evaluation" / split / "responses.jsonl" for folder in folders]
    with files[0].open(encoding="utf-8") as lines:
        contexts = [bool(json.loads(line)["context"]) for line in lines]
    places = [place for place, context in enumerate(contexts) if context] or list(range(len(contexts)))
    chosen = set(random.Random(0).sample(places, min(count, len(places))))
    rows = [picked(file, chosen) for file in files]
    return [
        {
            **{key: same[0][key] for key in ("id", "context", "reference")},
            "responses": [each["response"] for each in same],
        }
        for same in zip(*rows, strict=True)
    ]


def telling(samples: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The sample to show attention on: one that all models got right where there is one, short, of a long context."""

    def merits(sample: dict[str, Any]) -> tuple[bool, bool, int]:
        said = sample["responses"]
        right = all(each == sample["reference"] for each in said)
        return right, max(len(each.split()) for each in said) <= 20, len(sample["context"])

    return max(samples, key=merits)


def picked(file: Path, places: set[int]) -> list[dict[str, Any]]:
    """The lines at the given places."""
    with file.open(encoding="utf-8") as lines:
        return [json.loads(line) for place, line in enumerate(islice(lines, max(places) + 1)) if place in places]


def attention(
    run: Run, name: str, metrics: dict[str, Any], sample: dict[str, Any], place: int
) -> dict[str, Any] | None:
    """One map of a model saying its own response: the head that aligns best where that is known, else a mean.

    The mean is over the heads of the last cross-attention; a model without one has no map.
    """
    found = run.attention(sample["context"], sample["responses"][place])
    cross = [each for each in found["maps"] if (each["kind"], each["columns"]) == ("cross", "source")]
    if not cross:
        return None
    best = metrics.get("alignment_head")
    if best is not None:
        module, _, digit = str(best).rpartition(".")
        head: int | None = int(digit)
        weights = next(each["weights"] for each in cross if each["name"] == module)[int(digit)]
    else:
        module, heads = cross[-1]["name"], cross[-1]["weights"]
        head = 0 if len(heads) == 1 else None
        weights = [[statistics.fmean(cell) for cell in zip(*lines, strict=True)] for lines in zip(*heads, strict=True)]
    return {
        "model": name,
        "name": module,
        "head": head,
        "context_tokens": found["context_tokens"],
        "response_tokens": found["response_tokens"],
        "weights": weights,
    }
