"""Cost of the contenders, and one row per run."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dialog.report.formats.metrics import metric_display, metric_value
from dialog.report.formats.numbers import count, decimals, duration, magnitude
from dialog.report.formats.results import ModelResults, Results, RunResults
from dialog.report.sections.scores import metric_names
from dialog.report.tables import (
    NONE,
    ReportCell,
    ReportSection,
    Row,
    RowGroup,
    has_several_seeds,
    mean_and_deviation,
    optional,
    spread_text,
    table_of_contenders,
    table_of_groups,
    text_row,
)

NOTES = {
    "State after 100 tokens": "State: what generation keeps for one context.",
    "Training time": "Training time includes validations and checkpoints.",
    "Target tokens per second": "Target tokens per second: median of the training steps.",
    "Time per response": "Time per response: generation in the batches of the evaluation.",
}
"""Notes in the caption on rows of the table."""


def cost(results: Results) -> ReportSection:
    """Return size, training cost and generation cost, one column per contender."""
    models = results.models
    rows = (
        ("Parameters", [_parameters(model, "total") for model in models]),
        ("… in embeddings", [_parameters(model, "embeddings") for model in models]),
        ("… in other layers", [_parameters(model, "rest") for model in models]),
        (
            "FLOPs per target token",
            [optional(model.flops_per_target_token, magnitude) for model in models],
        ),
        *state_rows(models),
        ("Tuning trials", [optional(model.trials, count) for model in models]),
        ("Seeds", [str(len(model.runs)) if model.trained else NONE for model in models]),
        ("Diverged runs", _diverged(models)),
        (
            "Training time",
            _means(models, lambda run: run.seconds, duration),
        ),
        (
            "Target tokens seen",
            _means(models, lambda run: run.target_tokens, count),
        ),
        (
            "Optimizer steps",
            _means(models, lambda run: run.steps, count),
        ),
        (
            "Target tokens per second",
            [optional(model.cost.tokens_per_second, count) for model in models],
        ),
        (_quality(models), [_seconds_to(model) for model in models]),
        (
            "Time per response",
            [optional(model.cost.milliseconds_per_response, _milliseconds) for model in models],
        ),
        ("Peak memory", [optional(model.cost.peak_memory_bytes, _bytes) for model in models]),
    )
    filled = tuple(text_row(label, *texts) for label, texts in rows if set(texts) != {NONE})
    spread = " Mean over seeds ± standard deviation." if has_several_seeds(results) else ""
    notes = [NOTES[row[0].text] for row in filled if row[0].text in NOTES]
    caption = " ".join([f"Size and cost of the contenders.{spread}", *notes])
    return ReportSection("Cost", table_of_contenders(results, [RowGroup("", filled)], caption))


def state_rows(models: Sequence[ModelResults]) -> list[tuple[str, list[str]]]:
    """Return the bytes of each contender's state, one row for each length of a context."""
    lengths = sorted({key for model in models for key in model.state_bytes}, key=int)
    return [
        (f"State after {length} tokens", [_state_bytes(model, length) for model in models])
        for length in lengths
    ]


def _state_bytes(model: ModelResults, length: str) -> str:
    return optional(model.state_bytes.get(length), _bytes)


def trials(results: Results) -> ReportSection:
    """Return one row per trial of ``--tune``: values, lowest validation bits per byte, and whether
    they were chosen.
    """
    to_text = metric_display("bits_per_byte").format
    rows: dict[str, list[Row]] = {}
    for trial in results.tuning:
        loss = "diverged" if trial.diverged else optional(trial.bits_per_byte, to_text)
        spent = optional(trial.seconds, duration)
        chosen = "chosen" if trial.chosen else ""
        row = text_row(trial.model, trial.values, loss, chosen, spent, trial.folder)
        rows.setdefault(trial.model, []).append(row)
    head = ("Contender", "Values", "Best validation", "Choice", "Time", "Folder")
    groups = [RowGroup("", tuple(some)) for some in rows.values()]
    seed = f", with seed {results.tuning[0].seed}" if results.tuning else ""
    caption = (
        f"One row per trial{seed}. Best validation: lowest bits per byte on the validation split."
        " The chosen trial is the run of this seed."
    )
    return ReportSection(
        "Tuning", table_of_groups(head, groups, caption=caption, folded="All trials")
    )


def runs(results: Results) -> ReportSection:
    """Return one row per run: seed, cost, lowest validation bits per byte, and the first two
    metrics.
    """
    names = metric_names(results)[:2]
    scores = (metric_display(name).label for name in names)
    head = (
        "Contender",
        "Seed",
        "Time",
        "Steps",
        "Target tokens",
        "Best validation",
        *scores,
        "Folder",
    )
    groups = [
        RowGroup("", tuple(_run_row(model, run, names) for run in model.runs))
        for model in results.models
    ]
    caption = "One row per run. Best validation: lowest bits per byte on the validation split."
    return ReportSection("Runs", table_of_groups(head, groups, caption=caption, folded="All runs"))


def _parameters(model: ModelResults, key: str) -> str:
    return optional(model.parameters.get(key) if model.trained else None, count)


def _diverged(models: Sequence[ModelResults]) -> list[str]:
    """Count the diverged runs; dashes if none diverged."""
    counts = [sum(run.diverged for run in model.runs) for model in models]
    return list(map(str, counts)) if any(counts) else [NONE] * len(counts)


def _means(
    models: Sequence[ModelResults],
    spent: Callable[[RunResults], float | None],
    to_text: Callable[[float], str],
) -> list[str]:
    """Return mean ± standard deviation over the runs of each contender."""
    return [_mean([*map(spent, model.runs)] if model.trained else [], to_text) for model in models]


def _mean(costs: Sequence[float | None], to_text: Callable[[float], str]) -> str:
    """Return mean ± standard deviation, without a deviation that is invisible in this format."""
    values = [value for value in costs if value is not None]
    if not values:
        return NONE
    mean, std = mean_and_deviation(values)
    if to_text(mean + (std or 0.0)) == to_text(mean):
        std = None
    return spread_text(mean, std, to_text)


def _quality(models: Sequence[ModelResults]) -> str:
    """Return the label of `_seconds_to`, with the quality, which is the same for all contenders."""
    reached = (model.cost.seconds_to for model in models)
    return next(
        (f"Time to {entry.bits_per_byte:.3f} bits per byte" for entry in reached if entry), ""
    )


def _seconds_to(model: ModelResults) -> str:
    reached = model.cost.seconds_to
    return optional(reached.seconds if reached else None, duration)


def _milliseconds(value: float) -> str:
    return f"{value:,.1f} ms"


def _bytes(value: float) -> str:
    if value >= 2**30:
        return f"{decimals(2)(value / 2**30)} GiB"
    for unit, size in (("MiB", 2**20), ("KiB", 2**10)):
        if value >= size:
            return f"{count(value / size)} {unit}"
    return f"{count(value)} bytes"


def _run_row(model: ModelResults, run: RunResults, names: Sequence[str]) -> Row:
    losses = [point.bits_per_byte for point in run.curve]
    lowest = min((loss for loss in losses if loss is not None), default=None)
    scores = [(metric_display(name), metric_value(run.metrics.get(name))) for name in names]
    spent = (
        optional(value if model.trained else None, to_text)
        for value, to_text in (
            (run.seconds, duration),
            (run.steps, count),
            (run.target_tokens, count),
        )
    )
    seed = f"{run.seed} (diverged)" if run.diverged else str(run.seed)
    texts = (
        *(model.name, seed if model.trained else NONE, *spent),
        optional(lowest, metric_display("bits_per_byte").format),
        *(optional(value, metric.format) for metric, value in scores),
        run.folder,
    )
    return tuple(ReportCell(text) for text in texts)
