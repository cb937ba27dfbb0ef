"""Empty values of the fields of results.json, so that a report leaves out what was not measured."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dialog.report.tables import Results

FIELDS: Mapping[str, Any] = {
    "fingerprint": "",
    "dialogues": 0,
    "examples": 0,
    "verdict": "",
    "verdicts": (),
    "warnings": (),
    "references": {},
    "parity": (),
    "differences": (),
    "statistics": {},
    "crossings": (),
    "history": {},
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
RUN_FIELDS: Mapping[str, Any] = {"seed": None, "diverged": False, "metrics": {}, "curve": (), "folder": ""}
SPENT = ("seconds", "steps", "target_tokens")


def complete(results: Results) -> dict[str, Any]:
    """Return results.json with the empty value of every field that it lacks; `null` counts as lacking."""
    models = [_model(model) for model in results["models"]]
    metrics: Mapping[str, Any] = next(
        (run["metrics"] for model in models for run in model["runs"] if run["metrics"]), {}
    )
    attention = results.get("attention")
    sizes = {key: metrics[key] for key in ("fingerprint", "examples", "dialogues") if key in metrics}
    present = {**FIELDS, **sizes, **_present(results), "models": models}
    return present if isinstance(attention, Mapping) else {**present, "attention": {}}  # a list in format 2


def _model(model: Mapping[str, Any]) -> dict[str, Any]:
    summary = model.get("summary") or {}
    if any("mean" in entry for entry in summary.values()):
        summary = {"all": summary}  # format 1
    runs = [{**RUN_FIELDS, **dict.fromkeys(SPENT), **_present(run)} for run in model["runs"]]
    cost = {**dict.fromkeys(COSTS), **(model.get("cost") or {})}
    return {**MODEL_FIELDS, **_present(model), "runs": runs, "summary": summary, "cost": cost}


def _present(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in fields.items() if value is not None}
