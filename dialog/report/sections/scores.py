"""Tables of likelihood and of generation metrics: contenders, differences and reference systems."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from dialog.report.formats.metrics import (
    LOSSY_NOTE,
    lossy_mark,
    metric_display,
    metric_value,
    sort_metrics,
)
from dialog.report.formats.results import ModelResults, Results
from dialog.report.sections.differences import (
    BEST_NOTE,
    DECIDED_NOTE,
    difference_cells,
    difference_head,
    differences_of,
    matrix,
    pair_note,
    pairwise,
    winner,
    without_probabilities,
    without_untested,
)
from dialog.report.tables import (
    NONE,
    SUBSETS,
    ReportCell,
    ReportSection,
    ReportTable,
    Row,
    RowGroup,
    has_several_seeds,
    metric_label,
    optional,
    spread_text,
    subsets_of,
    table_of_groups,
)

LIKELIHOOD = (
    "bits_per_byte",
    "perplexity_word",
    "perplexity_token",
    "nll_nats",
    "token_accuracy",
    "unknown_ratio",
    "hits_1_of_20",
    "calibration_error",
)
"""Metrics of reading the references; all others are metrics of generated responses."""

REFERENCE_LABELS = {
    "human": "human",
    "random": "random",
    "most_frequent": "most frequent",
    "copy": "copy",
    "nearest": "nearest",
    "nearest_clean": "nearest, no leak",
    **{f"ngram_{order}": f"{order}-gram" for order in range(1, 6)},
}

LIKELIHOOD_SUBJECT = "Metrics of the reference responses under teacher forcing."
LIKELIHOOD_ROWS = "n-grams: Witten-Bell models that do not read the context."
GENERATION_SUBJECT = "Metrics of the generated responses."
GENERATION_ROWS = (
    "Reference systems: human responses, random and most frequent training responses, a copy of the"
    ' context, and the response to the nearest training context (TF-IDF); "no leak": without the'
    " training dialogues that leak."
)

PLATO_NOTE = (
    " NLTK's method 7 averages neighbouring precisions, with one more than the first in front of"
    " it, so a copy of the reference has a BLEU of up to 133."
)


def likelihood(results: Results) -> ReportSection:
    """Return the table of likelihood metrics on all, clean and leaked dialogues."""
    metrics = [name for name in metric_names(results) if name in LIKELIHOOD]
    return _section(results, "Likelihood", metrics, LIKELIHOOD_SUBJECT, LIKELIHOOD_ROWS)


def generation(results: Results) -> ReportSection:
    """Return the tables of generation metrics on all, clean and leaked dialogues."""
    metrics = [name for name in metric_names(results) if name not in LIKELIHOOD]
    note = PLATO_NOTE if any(name.startswith("bleu_plato") for name in metrics) else ""
    return _section(
        results, "Generated responses", metrics, GENERATION_SUBJECT, GENERATION_ROWS + note
    )


def summary(results: Results, metrics: Collection[str]) -> tuple[ReportTable, ...]:
    """Return the table of some metrics on all dialogues, without reference systems."""
    pair = _is_tested_pair(results)
    head = ("", *results.names, *(difference_head(results) if pair else ()))
    names = [name for name in metric_names(results) if name in metrics]
    return without_probabilities(
        table_of_groups(head, [RowGroup("", tuple(_rows(results, "all", names, (), pair)))])
    )


def metric_names(results: Results) -> list[str]:
    """Return the metrics of all contenders, in display order."""
    summaries = (entries for model in results.models for entries in model.summary.values())
    return sort_metrics({name for entries in summaries for name in entries})


def references_of(results: Results, metrics: Sequence[str]) -> list[str]:
    """Return the reference systems that have a value of one of these metrics on any subset."""
    systems = dict.fromkeys(name for subset in results.references.values() for name in subset)
    order = [*REFERENCE_LABELS, *(name for name in systems if name not in REFERENCE_LABELS)]

    def is_measured(system: str) -> bool:
        return any(
            _reference(results, subset, system, metric) is not None
            for subset in SUBSETS
            for metric in metrics
        )

    return [name for name in order if is_measured(name)]


def _section(
    results: Results, title: str, metrics: list[str], subject: str, systems: str
) -> ReportSection:
    names = results.names
    references = references_of(results, metrics)
    pair = _is_tested_pair(results)
    head = (
        "",
        *names,
        *(difference_head(results) if pair else ()),
        *(REFERENCE_LABELS.get(r, r) for r in references),
    )
    groups = [
        RowGroup(title, tuple(_rows(results, subset, metrics, references, pair)))
        for subset, title in subsets_of(results).items()
    ]
    several = has_several_seeds(results)
    spread = " Mean over seeds ± standard deviation." if several else ""
    note = ""
    if results.differences:
        note = f" {pair_note(results, metrics) if pair else BEST_NOTE}"
    lossy = any(lossy_mark(name, run.metrics) for name in metrics for run in results.runs)
    caption = (
        f"{subject}{spread} ↓ lower is better, ↑ higher is"
        f" better.{note}{LOSSY_NOTE if lossy else ''}"
    )
    options = {
        "contenders": len(names),
        "references": len(references),
        "reference_note": systems if references else "",
        "metrics": tuple(metrics),
    }
    tables = without_probabilities(table_of_groups(head, groups, caption=caption, **options))
    if len(names) > 2 and results.differences:
        tables += matrix(results, metrics, DECIDED_NOTE)
        tables += pairwise(
            results, metrics, f"Pairs of contenders: {title.lower()}. {pair_note(results, metrics)}"
        )
    return ReportSection(title, tables)


def _is_tested_pair(results: Results) -> bool:
    return len(results.models) == 2 and bool(results.differences)


def _rows(
    results: Results, subset: str, metrics: Sequence[str], references: Sequence[str], pair: bool
) -> Iterator[Row]:
    """Yield a row per metric that has a value on this subset."""
    for name in metrics:
        row = _row(results, subset, name, references, pair)
        if any(cell.text != NONE for cell in row[1:]):
            yield row


def _row(results: Results, subset: str, name: str, references: Sequence[str], pair: bool) -> Row:
    metric = metric_display(name)
    differences = differences_of(results, subset, name)
    measured = [model.name for model in results.models if name in model.means(subset)]
    best = winner(differences, measured)
    cells = [_contender(model, subset, name, model.name == best) for model in results.models]
    shown = without_untested(results, differences[:1]) if pair else []
    tests = difference_cells(shown[0] if shown else None) if pair else ()
    values = (_reference(results, subset, system, name) for system in references)
    return (
        ReportCell(metric_label(name)),
        *cells,
        *tests,
        *(ReportCell(optional(v, metric.format)) for v in values),
    )


def _contender(model: ModelResults, subset: str, name: str, decided: bool) -> ReportCell:
    entry = model.means(subset).get(name)
    mark = max((lossy_mark(name, run.metrics) for run in model.runs), default="")
    text = spread_text(entry.mean, entry.std, metric_display(name).format) if entry else NONE
    return ReportCell(text + mark, "decided" if decided else "")


def _reference(results: Results, subset: str, system: str, metric: str) -> float | None:
    return metric_value(results.references.get(subset, {}).get(system, {}).get(metric))
