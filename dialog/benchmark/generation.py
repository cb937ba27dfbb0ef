"""Speed and memory of generation, for single contexts and batches."""

from __future__ import annotations

import copy
import time
from collections.abc import Sequence
from statistics import fmean, median
from typing import Any

from dialog.analysis.flops import forward_flops
from dialog.benchmark.bound import gemm_peak
from dialog.config.components import Component
from dialog.config.schema import GenerationConfig
from dialog.data.store.store import Store
from dialog.data.tokenizers.tokenizer import PAD
from dialog.generation.responder import Responder
from dialog.models.seq2seq import Seq2Seq
from dialog.runs.load import in_precision
from dialog.training.callbacks import memory

TOKENS = 32
"""Length of every response, minimum and maximum, so that untrained models can be compared."""
BATCHES = {1: 5, 32: 3}
"""Repetitions by batch size."""
SEARCHES: Sequence[Component] = ({"name": "greedy"}, {"name": "beam", "width": 5})


def measure_generation(
    model: Seq2Seq, store: Store, device: str, precision: str
) -> list[dict[str, Any]]:
    """Measure generation for training contexts of similar length; medians over repetitions after
    one warm-up.

    FLOPs are those of one forward pass over contexts and returned responses: other hypotheses of a
    beam do not count. Converts the model to the precision.
    """
    counted = copy.deepcopy(model).cpu().eval()
    bound = gemm_peak(precision, device)
    limits = GenerationConfig(min_length=TOKENS, max_length=TOKENS)
    model = in_precision(model.to(device), precision)
    responder = Responder(
        model, store.tokenizer, store.max_source, limits, int8=precision == "int8"
    )
    rows = []
    for search in SEARCHES:
        for batch, times in BATCHES.items():
            memory.reset_peak()
            figures, length = _measured(responder, store, search, batch, times)
            flops = batch * forward_flops(counted, length, TOKENS + 1) / figures["seconds"]
            rows.append(
                {
                    "precision": precision,
                    **figures,
                    "memory_bytes": memory.process_peak(),
                    "cuda_memory_bytes": memory.cuda_peak() if device == "cuda" else None,
                    "flops_per_second": flops,
                    "gemm_flops_per_second": bound,
                    "share_of_bound": flops / bound,
                }
            )
    return rows


def _measured(
    responder: Responder, store: Store, search: Component, batch: int, times: int
) -> tuple[dict[str, Any], int]:
    """Return the figures of a search, and the mean number of tokens of its contexts."""
    middle = len(store) // 2
    seconds = []
    lengths = []
    for number in range(times + 1):
        places = [(middle + number * batch + row) % len(store) for row in range(batch)]
        source = store.batch(store.classes.order[places]).source
        began = time.perf_counter()
        responses = responder.generate(source, search)
        seconds.append(time.perf_counter() - began)
        lengths.append(float((source != PAD).sum(1).float().mean()))
    taken = median(seconds[1:])
    tokens = sum(best.tokens for best, *_ in responses)
    figures = {
        "search": search["name"],
        "batch": batch,
        "tokens": tokens / batch,
        "seconds": taken,
        "responses_per_second": batch / taken,
        "tokens_per_second": tokens / taken,
    }
    return figures, round(fmean(lengths))
