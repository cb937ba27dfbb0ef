from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from itertools import combinations
from typing import Any

import pytest

HOSTILE = (
    "</script></title></svg><img src=//evil.example onerror=alert(1)> ' \" | `x` **b** \x1b[2J"
    " \u202e [a](http://e.example)"
)
LANGUAGES = (
    "你好,今天天气真好,我们一起去公园散步吧。" * 12,
    "שלום, מה שלומך היום? " * 9,
    "مرحبا، كيف حالك؟",
    "Sure , I ' d love to . When do you want to meet ?",
    "",
    "<b>bold</b> & <script>alert(1)</script>",
)
LIKELIHOOD = {
    "bits_per_byte": 1.31,
    "perplexity_word": 46.1,
    "perplexity_token": 33.2,
    "token_accuracy": 0.352,
}
GENERATION = {
    "f1": 14.2, "sacrebleu": 1.05, "chrf": 11.9, "rouge_l": 13.3, "distinct_1": 0.021, "distinct_2": 0.11,
    "unique_ratio": 0.41, "length_mean": 9.4, "repetition_3": 0.012, "my_lab.warmth": 12.3456789,
}  # fmt: skip
REFERENCES = ("human", "random", "most_frequent", "copy", "nearest", "nearest_clean")


def _curve(bits: float, speed: float) -> list[dict[str, Any]]:
    return [
        {
            "step": 10 * step,
            "epoch": step // 8,
            "target_tokens": 25_000 * step,
            "seconds": speed * step,
            "train/loss": 3 + 4.0 / step,
            "validation/bits_per_byte": None if step % 2 else bits + 0.9 / step,
        }
        for step in range(1, 41)
    ]


def _trial(model: str, values: str, *, number: int) -> dict[str, Any]:
    """Return a trial; the first was chosen, the last has diverged."""
    return {
        "model": model,
        "values": values,
        "seed": 0,
        "bits_per_byte": None if number == 2 else 1.4 + number,
        "diverged": number == 2,
        "chosen": number == 0,
        "seconds": None if number == 2 else 20.0,
        "folder": f"tuning/{values}",
    }


def _run(model: int, seed: int, shift: float, diverged: bool) -> dict[str, Any]:
    rng = random.Random(1000 * model + seed)
    worse = shift + rng.gauss(0, 0.004) + 5 * diverged
    metrics = {name: value * (1 + worse) for name, value in (LIKELIHOOD | GENERATION).items()}
    bleu = "nrefs:1|case:lc|tok:13a|smooth:exp"
    signatures = {"sacrebleu": bleu, "bleu_1": bleu, "bleu_2": bleu, "chrf": "nrefs:1|nc:6|nw:0"}
    metrics["sacrebleu"] = {"score": metrics["sacrebleu"], "signature": bleu}
    return {
        "seed": seed,
        "folder": f"runs/{model}/seed-{seed}",
        "evaluation": "evaluation/test",
        "steps": 400,
        "seconds": 1400.0 + 300 * model + 7 * seed,
        "target_tokens": 1_000_000,
        "diverged": diverged,
        "metrics": {"examples": 7740, "dialogues": 1000, **metrics, "signatures": signatures},
        "curve": _curve(1.31 * (1 + worse), 35.0 + 8 * model + rng.random()),
    }


def _summary(runs: Sequence[dict[str, Any]], subset: float) -> dict[str, Any]:
    entries = {}
    for name in LIKELIHOOD | GENERATION:
        values = [run["metrics"][name] for run in runs if not run["diverged"]]
        numbers = [
            subset * (value["score"] if isinstance(value, dict) else value) for value in values
        ]
        mean = sum(numbers) / len(numbers)
        squares = sum((number - mean) ** 2 for number in numbers)
        std = (squares / (len(numbers) - 1)) ** 0.5 if len(numbers) > 1 else None
        entries[name] = {"mean": mean, "std": std, "n": len(numbers)}
    return entries


def _model(
    index: int, name: str, seeds: int, subsets: dict[str, float], diverged: bool
) -> dict[str, Any]:
    runs = [
        _run(index, seed, 0.03 * index, diverged and seed == seeds - 1) for seed in range(seeds)
    ]
    return {
        "name": name,
        "kind": "recipe",
        "parameters": {
            "total": 8_540_000 + 560_000 * index,
            "embeddings": 5_120_000,
            "rest": 3_420_000 + 9 * index,
        },
        "flops_per_target_token": 5.1e7 + 9e6 * index,
        "state_bytes": {"100": 102_400 * (1 + index), "1000": 1_024_000 if index else None},
        "tokenizer": "t" * 64,
        "trials": 1 if index else None,
        "runs": runs,
        "summary": {subset: _summary(runs, factor) for subset, factor in subsets.items()},
        "cost": {
            "tokens_per_second": 742.0 - 100 * index,
            "seconds_to": (
                {"bits_per_byte": 1.4, "seconds": 300.0 + 90 * index} if index < 2 else None
            ),
            "milliseconds_per_response": 11.3 + index,
            "peak_memory_bytes": 1_730_000_000,
        },
    }


def responses_model(name: str, subsets: dict[str, float]) -> dict[str, Any]:
    """Return a contender that is a file of responses: no likelihood, no training."""
    model = _model(1, name, 1, subsets, False)
    (run,) = model["runs"]
    run |= {"curve": [], "steps": 0, "seconds": 0.0, "target_tokens": 0}
    for entries in (*model["summary"].values(), run["metrics"]):
        for metric in LIKELIHOOD:
            del entries[metric]
    none = {
        "parameters": {"total": 0, "embeddings": 0, "rest": 0},
        "flops_per_target_token": None,
        "state_bytes": {},
        "trials": None,
    }
    cost = dict.fromkeys(
        ("tokens_per_second", "seconds_to", "milliseconds_per_response", "peak_memory_bytes")
    )
    return model | none | {"kind": "responses", "cost": cost}


def _difference(a: dict[str, Any], b: dict[str, Any], subset: str, metric: str) -> dict[str, Any]:
    means = [model["summary"][subset][metric]["mean"] for model in (a, b)]
    one = len(a["runs"]) == 1
    difference, error = means[0] - means[1], abs(means[0]) * 0.006
    decided = metric in LIKELIHOOD
    wide = 2 * error if decided else abs(difference) + error
    return {
        "metric": metric,
        "a": a["name"],
        "b": b["name"],
        "difference": difference,
        "interval": [difference - wide, difference + wide],
        "p": 0.0004 if decided else 0.21,
        "p_holm": 0.0008 if decided else 0.84,
        "decided": decided,
        "subset": subset,
        "method": (
            "paired bootstrap over dialogues" if one else "t with Satterthwaite degrees of freedom"
        ),
        "standard_error": error,
        "degrees_of_freedom": None if one else 6.2,
        "improvement_probability": None if one else 0.92 if decided else 0.61,
        "detectable_difference": 2.8 * error,
    }


def _texts(index: int, text: str, names: Sequence[str]) -> dict[str, Any]:
    rng = random.Random(index)
    words = [text, *LANGUAGES]
    return {
        "id": f"d{index}#{text}",
        "context": [rng.choice(words) for _ in range(index % 7)],
        "reference": rng.choice(words),
        "responses": [words[(index + shift) % len(words)] for shift, _ in enumerate(names)],
    }


def _by_model(models: Sequence[dict[str, Any]], value: float, std: float) -> dict[str, Any]:
    means = {
        model["name"]: value * (1 + index)
        for index, model in enumerate(models)
        if model["kind"] != "responses"
    }
    several = len(models[0]["runs"]) > 1
    return {
        name: {
            "mean": mean,
            "std": std if several else None,
            "interval": [mean - std, mean + std],
            "n": 3,
        }
        for name, mean in means.items()
    }


def _context_use(models: Sequence[dict[str, Any]]) -> dict[str, Any]:
    perturbations = (
        "only the last turn",
        "shuffle the turns",
        "reverse the turns",
        "drop the last turn",
        "word drop",
    )
    rows = [
        {"perturbation": what, "changed": 1900, "values": _by_model(models, 0.02 * n - 0.01, 0.004)}
        for n, what in enumerate(perturbations)
    ]
    distance = [
        {"distance": n, "examples": 500, "values": _by_model(models, 0.08 / n**2, 0.003)}
        for n in range(1, 7)
    ]
    return {"examples": 2000, "rows": rows, "distance": distance}


def _breakdown(models: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    labels = {
        "context turns": ("1", "2", "3–4", "5+"),
        "context words": ("0-7", "8-15", "16-31"),
        "response words": ("1–3", "4–8", "9–16", "17+"),
        "rarest word": ("top 100", "top 1,000", "rarer", "unseen"),
        "act": ("inform", "question", "directive", "commissive"),
    }
    names = [model["name"] for model in models if model["kind"] != "responses"]
    return [
        {
            "by": by,
            "buckets": [
                {
                    "label": label,
                    "examples": 900 * (n + 1),
                    "values": {name: 1.2 + 0.07 * n + 0.04 * m for m, name in enumerate(names)},
                    "f1": dict.fromkeys(names),
                    "exact": {name: {"mean": 0.9 - 0.1 * n, "std": 0.02} for name in names},
                }
                for n, label in enumerate(buckets)
            ],
        }
        for by, buckets in labels.items()
    ]


def _calibration(models: Sequence[dict[str, Any]]) -> dict[str, Any]:
    return {
        model["name"]: {
            "error": 0.021 + 0.01 * index,
            "bins": [
                {
                    "confidence": 0.05 + 0.1 * n,
                    "accuracy": 0.05 + 0.1 * n - 0.03 * index,
                    "tokens": 9000 // (n + 1),
                }
                for n in range(10)
            ],
        }
        for index, model in enumerate(models)
        if model["kind"] != "responses"
    }


def _attention(names: Sequence[str], text: str) -> dict[str, Any]:
    tokens = {
        "context_tokens": [text, "b", "</s>"],
        "response_tokens": ["x", text],
        "context_lines": [0, 0, -1],
    }
    kinds = {
        "context_kinds": ["word", "word", "end"],
        "turns": [{"speaker": "other", "text": text}],
    }
    maps = [
        {"name": "decoder.attention", "kind": "cross", "side": "target", "columns": "source",
         "weights": [[[0.2, 0.8, 0.0], [0.1, 0.3, 0.6]]]}
    ]  # fmt: skip
    models = [
        {"model": name, "seed": seed, **tokens, **kinds, "maps": maps}
        for seed in range(2)
        for name in names
    ]
    examples = [
        {"id": f"{n}{text}", "context": [text], "response": text, "models": models}
        for n in range(2)
    ]
    return {
        "examples": examples,
        "statistics": [_statistics(name, seed) for name in names for seed in range(2)],
    }


def _statistics(name: str, seed: int) -> dict[str, Any]:
    rows = [
        {
            "module": module,
            "head": head,
            "entropy": entropy + 0.02 * seed,
            "mass_end": 0.1,
            "erasure": -0.2,
        }
        for module, head, entropy in (
            ("decoder.attention", 0, 0.2),
            ("decoder.attention", 1, 0.6),
            ("mean", None, 0.4),
        )
    ]
    return {
        "model": name,
        "seed": seed,
        "rows": [*rows, {"module": "uniform", "head": None, "entropy": 1.0}],
    }


def _parity(names: Sequence[str], text: str) -> list[dict[str, Any]]:
    return [
        {"what": "vocabulary", "equal": True, "must": True, "values": [8000] * len(names)},
        {"what": "precision", "equal": True, "must": False, "values": ["32-true"] * len(names)},
        {
            "what": "optimizer.lr",
            "equal": False,
            "must": False,
            "values": ([0.001, 0.0005, 0.1] * len(names))[: len(names)],
        },
        {"what": f"data {text}", "equal": False, "must": True, "values": [text] * len(names)},
    ]


def _ranking(models: Sequence[dict[str, Any]], metric: str) -> list[dict[str, Any]]:
    means = {
        model["name"]: model["summary"]["all"][metric]["mean"]
        for model in models
        if metric in model["summary"]["all"]
    }
    return [
        {"name": name, "mean": mean, "groups": "abcdefgh"[place // 2]}
        for place, (name, mean) in enumerate(means.items())
    ]


def example_results(
    names: Sequence[str] = ("lstm", "transformer"),
    *,
    seeds: int = 3,
    text: str = "hello",
    subsets: bool = True,
    responses: str = "",
    diverged: bool = False,
) -> dict[str, Any]:
    """Return a results.json with `text` wherever text of users or models can occur.

    `responses` names a further contender that is a file of responses; `diverged`: the last run of
    the first contender.
    """
    factors = {"all": 1.0, "clean": 1.06, "leaked": 0.8} if subsets else {"all": 1.0}
    models = [
        _model(index, name, seeds, factors, diverged and not index)
        for index, name in enumerate(names)
    ]
    models += [responses_model(responses, factors)] if responses else []
    names = [model["name"] for model in models]
    verdict = f"{names[0]} is better than {names[1]} by 0.021 bits per byte.\nA note."
    ngrams = {f"ngram_{order}": {"bits_per_byte": 2.4 - 0.2 * order} for order in range(1, 6)}
    bits = [0.5, *[None] * (len(names) - 1)]
    rows = {
        name: {metric: value * 0.8 for metric, value in GENERATION.items()} for name in REFERENCES
    }
    return {
        "version": 6,
        "command": f"dialog compare {text}",
        "environment": {"torch": "2.13.0", "cpu": text, text: 3},
        "split": "test",
        "fingerprint": "0123456789abcdef" * 4,
        "dialogues": 1000,
        "examples": 7740,
        "seconds": 4000.0,
        "verdict": verdict,
        "primary": "bits_per_byte",
        "looks": [],
        "ranking": {
            "bits_per_byte": _ranking(models, "bits_per_byte"),
            "f1": _ranking(models, "f1"),
        },
        "warnings": [f"{names[0]}: seed {seeds - 1} diverged {text}"] if diverged else [],
        "models": models,
        "tuning": [_trial(names[0], f"lr=0.{n} {text}", number=n) for n in range(3)],
        "references": dict.fromkeys(factors, rows | ngrams),
        "parity": _parity(names, text),
        "differences": [
            _difference(a, b, subset, metric)
            for subset in factors
            for a, b in combinations(models, 2)
            for metric in a["summary"]["all"]
            if metric in b["summary"]["all"]
        ],
        "statistics": {
            "level": 0.95,
            "resamples": 10000,
            "looks": 1,
            "seeds": dict.fromkeys(names, seeds),
        },
        "crossings": [
            {
                "a": names[0],
                "b": names[-1],
                "axis": "seconds",
                "text": f"{names[0]} leads until 18 s {text}",
                "crosses": True,
            }
        ],
        "context_use": _context_use(models),
        "breakdown": _breakdown(models),
        "calibration": _calibration(models),
        "samples": [_texts(index, text, names) for index in range(4)],
        "disagreements": [
            _texts(index, text, names) | {"bits_per_byte": bits} for index in range(4, 8)
        ],
        "attention": _attention(names, text),
        "ratings": {},
        "judges": [],
    }


@pytest.fixture
def results_of() -> Callable[..., dict[str, Any]]:
    return example_results


@pytest.fixture
def results() -> dict[str, Any]:
    return example_results()


@pytest.fixture
def one_seed() -> dict[str, Any]:
    return example_results(seeds=1)


@pytest.fixture
def three() -> dict[str, Any]:
    """Two recipes with three seeds, one of which diverged, and a file of responses."""
    return example_results(responses="plato.jsonl", diverged=True)


@pytest.fixture
def hostile() -> dict[str, Any]:
    return example_results((HOSTILE, "b" + HOSTILE), text=HOSTILE)


@pytest.fixture
def bare() -> dict[str, Any]:
    """Smallest results: one seed, every field that may be empty is empty."""
    results = example_results(seeds=1, subsets=False)
    for model in results["models"]:
        model |= {
            "flops_per_target_token": None,
            "state_bytes": {},
            "trials": None,
            "cost": dict.fromkeys(model["cost"]),
        }
        for run in model["runs"]:
            run["curve"], run["metrics"] = [], {}
    empty = (
        "parity",
        "samples",
        "disagreements",
        "differences",
        "warnings",
        "looks",
        "tuning",
    )
    results |= {
        "context_use": {"examples": 0, "rows": [], "distance": []},
        "environment": {},
        "verdict": "",
        "ranking": {},
    }
    results |= {
        "references": {},
        "calibration": {},
        "crossings": [],
        "breakdown": [],
        "attention": {},
    }
    return results | {name: [] for name in empty}
