"""Measurements of ``dialog benchmark``, and their text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from dialog.benchmark.generation import measure_generation
from dialog.benchmark.training import measure_training
from dialog.config.components import lookup
from dialog.config.compose import Composed
from dialog.report.formats.numbers import count, decimals, duration, hardware, magnitude, percent
from dialog.runs.check import check_recipe
from dialog.runs.folder import environment
from dialog.runs.load import PRECISIONS

Results = Mapping[str, Any]
WIDTH = 26


def benchmark(
    composed: Composed, *, steps: int, warm_up: int, precision: str | None, imported: float
) -> dict[str, Any]:
    """Measure training, and generation in a precision of `load` if one is given.

    Figures are in seconds, bytes, FLOP/s and fractions of 1.

    Raises:
        UserError: the recipe is invalid, or for several processes; or an unknown or unsupported
            precision.
    """
    check_recipe(composed.recipe)
    if precision is not None:
        lookup(PRECISIONS, precision, "precision")  # before training
    trained = measure_training(composed.recipe, steps=steps, warm_up=warm_up, imported=imported)
    results: dict[str, Any] = {
        "recipe": composed.name,
        "environment": environment(),
        "training": trained.figures,
    }
    if precision is not None:
        results["generation"] = measure_generation(
            trained.module.model, trained.store, trained.device, precision
        )
    return results


def to_text(results: Results) -> str:
    """Return the figures, one per line."""
    return "".join(f"{name:<{WIDTH}}{text}\n" for name, text in _lines(results))


def _lines(results: Results) -> Iterator[tuple[str, str]]:
    training = results["training"]
    machine = results["environment"]
    yield "recipe", results["recipe"]
    yield "machine", f"{hardware(machine)}, threads {machine['threads']}, torch {machine['torch']}"
    yield "precision", f"{training['precision']} on {training['device']}"
    yield "parameters", count(training["parameters"])
    yield from _training(training)
    for row in results.get("generation", ()):
        name = f"{row['search']}, batch {row['batch']}"
        own = "" if row["precision"] == "float32" else f" in {row['precision']}"
        speed = (
            f"{decimals(1)(row['responses_per_second'])} responses/s,"
            f" {count(row['tokens_per_second'])} tokens/s"
        )
        yield (
            name,
            f"{speed}, {_milliseconds(row['seconds'])} for {row['tokens']:.0f} tokens each{own}",
        )
        memory = (
            row["memory_bytes"] if row["cuda_memory_bytes"] is None else row["cuda_memory_bytes"]
        )
        bound = f"of {magnitude(row['gemm_flops_per_second'], 'FLOP/s')}"
        yield "", f"{_mebibytes(memory)} at the peak, {percent(row['share_of_bound'])} {bound}"


def _training(training: Results) -> Iterator[tuple[str, str]]:
    low, high = training["step_quartiles"]
    size = (
        f"{count(training['target_tokens_per_step'])} target tokens in"
        f" {count(training['rows_per_step'])} examples"
    )
    overall = f"median; {count(training['target_tokens_per_second_overall'])} over all"
    yield "steps", f"{training['steps']} after {training['warm_up']} of warm-up, {size} each"
    yield "target tokens/s", f"{count(training['target_tokens_per_second'])} ({overall})"
    yield "source + target tokens/s", count(training["tokens_per_second"])
    yield (
        "step",
        (
            f"{_milliseconds(training['step_seconds'])}, half of all {_milliseconds(low)} to"
            f" {_milliseconds(high)}"
        ),
    )
    yield "arithmetic", f"{magnitude(training['flops_per_second'], 'FLOP/s')} of real tokens"
    bound = (
        f"of {magnitude(training['gemm_flops_per_second'], 'FLOP/s')}, a large matrix product in"
        " this precision"
    )
    yield "share of the bound", f"{percent(training['share_of_bound'])} {bound}"
    yield "padding", percent(training["padding"])
    yield "loading", f"{percent(training['loading'])} of the time"
    yield "peak memory", _mebibytes(training["memory_bytes"])
    if training["cuda_memory_bytes"] is not None:
        yield "peak memory of the GPU", _mebibytes(training["cuda_memory_bytes"])
    yield (
        "start-up",
        f"first step done {duration(training['first_step_seconds'])} after the imports",
    )


def _milliseconds(seconds: float) -> str:
    return f"{decimals(0 if seconds >= 0.1 else 1)(1000 * seconds)} ms"


def _mebibytes(size: int) -> str:
    return f"{count(size / 2**20)} MiB"
