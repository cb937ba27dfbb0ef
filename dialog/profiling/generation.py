"""Speed of generation, for single contexts and batches."""

from __future__ import annotations

import time
from collections.abc import Sequence
from statistics import median
from typing import Any

from dialog.config.components import Component
from dialog.config.schema import GenerationConfig
from dialog.data.store.store import Store
from dialog.generation.responder import Responder
from dialog.models.seq2seq import Seq2Seq
from dialog.runs.load import in_precision

TOKENS = 32
"""Length of every response, minimum and maximum, so that untrained models can be compared."""
BATCHES = {1: 5, 32: 3}
"""Repetitions by batch size."""
SEARCHES: Sequence[Component] = ({"name": "greedy"}, {"name": "beam", "width": 5})


def measure_generation(model: Seq2Seq, store: Store, device: str, precision: str) -> list[dict[str, Any]]:
    """Measure generation for training contexts of similar length; medians over repetitions after one warm-up.

    Converts the model to the precision.
    """
    limits = GenerationConfig(min_length=TOKENS, max_length=TOKENS)
    model = in_precision(model.to(device), precision)
    responder = Responder(model, store.tokenizer, store.max_source, limits, int8=precision == "int8")
    return [
        {"precision": precision, **_measured(responder, store, search, batch, times)}
        for search in SEARCHES
        for batch, times in BATCHES.items()
    ]


def _measured(responder: Responder, store: Store, search: Component, batch: int, times: int) -> dict[str, Any]:
    middle = len(store) // 2
    seconds = []
    for number in range(times + 1):
        places = [(middle + number * batch + row) % len(store) for row in range(batch)]
        source = store.batch(store.classes.order[places]).source
        began = time.perf_counter()
        responses = responder.generate(source, search)
        seconds.append(time.perf_counter() - began)
    taken = median(seconds[1:])
    tokens = sum(best.tokens for best, *_ in responses)
    return {
        "search": search["name"],
        "batch": batch,
        "tokens": tokens / batch,
        "seconds": taken,
        "responses_per_second": batch / taken,
        "tokens_per_second": tokens / taken,
    }
