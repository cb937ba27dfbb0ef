"""Results as a report shows them: missing fields are empty, and contenders have short names."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import takewhile
from typing import Any

from dialog.report.tables import Results, model_names

FIELDS: Mapping[str, Any] = {
    "fingerprint": "",
    "dialogues": 0,
    "examples": 0,
    "verdict": "",
    "verdicts": (),
    "rankings": (),
    "warnings": (),
    "references": {},
    "parity": (),
    "differences": (),
    "statistics": {},
    "crossings": (),
    "context_use": {},
    "breakdown": (),
    "calibration": {},
    "samples": (),
    "disagreements": (),
    "attention": {},
    "rating": (),
    "ratings": {},
}
MODEL_FIELDS: Mapping[str, Any] = {
    "kind": "recipe",
    "parameters": {},
    "tokenizer": None,
    "flops_per_target_token": None,
    "trials": None,
}
COSTS = ("tokens_per_second", "seconds_to", "milliseconds_per_response", "peak_memory_bytes")
RUN_FIELDS: Mapping[str, Any] = {
    "seed": None,
    "diverged": False,
    "metrics": {},
    "curve": (),
    "folder": "",
}
SPENT = ("seconds", "steps", "target_tokens")


TEXTS = ("verdict", "text", "warnings")
"""Fields with sentences, in which names of contenders occur."""
UNNAMED = ("command", "environment", "samples", "disagreements", "rating")
"""Fields without names of contenders, which may have texts of users."""


def displayed(results: Results) -> dict[str, Any]:
    """Return complete results with short names of the contenders; "shared" is what the names had in
    common.
    """
    completed = complete(results)
    names = model_names(completed)
    shared, labels = short_labels(names)
    named = {key: value for key, value in completed.items() if key not in UNNAMED}
    return {
        **completed,
        **_renamed(named, dict(zip(names, labels, strict=True)), ""),
        "shared": shared,
    }


def short_labels(names: Sequence[str]) -> tuple[str, list[str]]:
    """Return what names have in common, their folder, first words or recipe, and their labels
    without it.

    ``task/lstm[attention=dot]`` and ``task/lstm[attention=none]`` share ``task/lstm``;
    ``task/lstm`` and ``task/gru`` share ``task``, and so do ``task-lstm`` and ``task-gru``.
    """
    if len(names) < 2:
        return "", list(names)
    recipes = [name.partition("[")[0] for name in names]
    if len(set(recipes)) == 1 and all(name.endswith("]") for name in names):
        return recipes[0], [name[len(recipes[0]) + 1 : -1] for name in names]
    start = _shared_start(recipes, "/")
    start += _shared_start([recipe[len(start) :].partition("/")[0] for recipe in recipes], "-")
    return start[:-1], [name[len(start) :] for name in names]


def _shared_start(texts: Sequence[str], separator: str) -> str:
    """Return the parts with which all texts start, each with its separator."""
    parts = zip(*(text.split(separator)[:-1] for text in texts), strict=False)
    return "".join(
        f"{equal[0]}{separator}" for equal in takewhile(lambda column: len(set(column)) == 1, parts)
    )


def _renamed(value: Any, labels: Mapping[str, str], field: str) -> Any:
    """Replace names of contenders: whole keys and values, and words of the sentences in `TEXTS`,
    but not in paths.
    """
    if isinstance(value, Mapping):
        return {labels.get(key, key): _renamed(item, labels, key) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_renamed(item, labels, field) for item in value]
    if isinstance(value, str) and field in TEXTS:
        longest_first = "|".join(map(re.escape, sorted(labels, key=len, reverse=True)))
        return re.sub(
            rf"(?<![\w/])(?:{longest_first})(?![\w/])", lambda match: labels[match[0]], value
        )
    return labels.get(value, value) if isinstance(value, str) else value


def complete(results: Results) -> dict[str, Any]:
    """Return results.json with the empty value of every field that it lacks; `null` counts as
    lacking.
    """
    models = [_model(model) for model in results["models"]]
    metrics: Mapping[str, Any] = next(
        (run["metrics"] for model in models for run in model["runs"] if run["metrics"]), {}
    )
    attention = results.get("attention")
    sizes = {
        key: metrics[key] for key in ("fingerprint", "examples", "dialogues") if key in metrics
    }
    present = {**FIELDS, **sizes, **_present(results), "models": models}
    # a list in format 2
    return present if isinstance(attention, Mapping) else {**present, "attention": {}}


def _model(model: Mapping[str, Any]) -> dict[str, Any]:
    summary = model.get("summary") or {}
    if any("mean" in entry for entry in summary.values()):
        summary = {"all": summary}  # format 1
    runs = [{**RUN_FIELDS, **dict.fromkeys(SPENT), **_present(run)} for run in model["runs"]]
    cost = {**dict.fromkeys(COSTS), **(model.get("cost") or {})}
    return {**MODEL_FIELDS, **_present(model), "runs": runs, "summary": summary, "cost": cost}


def _present(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in fields.items() if value is not None}
