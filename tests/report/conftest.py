from __future__ import annotations

from typing import Any

import pytest

HOSTILE = "</script></title></svg><img src=//evil.example onerror=alert(1)> ' \" | `x` **b** \x1b[2J \u202e [a](http://e.example)"


def _run(model: int, seed: int) -> dict[str, Any]:
    bits = 1.5 + 0.1 * model + 0.01 * seed
    curve = [
        {
            "step": 10 * step,
            "epoch": 0,
            "target_tokens": 1000 * step,
            "seconds": 2.5 * step,
            "train/loss": 4.0 / step,
            "validation/bits_per_byte": None if step % 2 else bits + 1 / step,
        }
        for step in range(1, 9)
    ]
    metrics = {
        "examples": 1234,
        "bits_per_byte": bits,
        "f1": 10.0,
        "sacrebleu": {"score": 1.25, "signature": "nrefs:1|tok:13a"},
        "baselines": {"human": {"distinct_1": 0.0695}},
    }
    return {
        "seed": seed,
        "folder": f"runs/{model}/{seed}",
        "seconds": 100.0 + seed,
        "steps": 80,
        "target_tokens": 8000,
        "metrics": metrics,
        "curve": curve,
    }


def _model(index: int, name: str, seeds: int) -> dict[str, Any]:
    std = 0.01 if seeds > 1 else None
    summary = {
        "bits_per_byte": {"mean": 1.51 + 0.1 * index, "std": std, "n": seeds},
        "token_accuracy": {"mean": 0.412, "std": std, "n": seeds},
        "distinct_1": {"mean": 0.03 + 0.01 * index, "std": std, "n": seeds},
        "my_lab.warmth": {"mean": 12.3456789, "std": std, "n": seeds},
    }
    return {
        "name": name,
        "parameters": {"total": 1_234_567, "embeddings": 234_567, "rest": 1_000_000},
        "runs": [_run(index, seed) for seed in range(seeds)],
        "summary": summary,
    }


def fake(names: tuple[str, ...] = ("lstm", "transformer"), *, seeds: int = 3, text: str = "hello") -> dict[str, Any]:
    """Return a results.json with `text` wherever text of users or models can occur."""
    return {
        "format": 1,
        "command": f"dialog compare {text}",
        "environment": {"torch": "2.13.0", "cpu": text, text: 3},
        "split": "test",
        "seconds": 4000.0,
        "models": [_model(index, name, seeds) for index, name in enumerate(names)],
        "parity": [
            {"what": "vocabulary", "equal": True, "must": True, "values": [8000] * len(names)},
            {"what": "optimizer.lr", "equal": False, "must": False, "values": [0.001, 0.0005, 0.1][: len(names)]},
            {"what": f"data {text}", "equal": False, "must": True, "values": [text] * len(names)},
        ],
        "samples": [
            {"id": f"d{text}#1", "context": ["hi", text], "reference": text, "responses": [text] * len(names)},
            {"id": "d2#0", "context": [], "reference": "hi", "responses": [""] * len(names)},
        ],
        "attention": [
            {
                "model": name,
                "name": "decoder.attention",
                "head": None,
                "context_tokens": [text, "b", "</s>"],
                "response_tokens": ["x", text],
                "weights": [[0.2, 0.8, 0.0], [0.1, 0.3, 0.6]],
            }
            for name in names
        ],
    }


@pytest.fixture
def results() -> dict[str, Any]:
    return fake()


@pytest.fixture
def one_seed() -> dict[str, Any]:
    return fake(seeds=1)


@pytest.fixture
def hostile() -> dict[str, Any]:
    return fake((HOSTILE, "b" + HOSTILE), text=HOSTILE)


@pytest.fixture
def bare() -> dict[str, Any]:
    """Smallest results: one seed, no validation, no samples, no maps."""
    results = fake(seeds=1)
    for model in results["models"]:
        for run in model["runs"]:
            run["curve"], run["metrics"] = [], {}
    return results | {"parity": [], "samples": [], "attention": [], "environment": {}}
