"""The methods of a comparison as paragraphs, from its settings and records."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from dialog.comparison.decisions.family import SHARE
from dialog.comparison.decisions.primary import OVERLAP, requested_primary
from dialog.comparison.parity import UNSTATED
from dialog.comparison.statistics.differences import (
    ARCHITECTURES,
    ONE_RUN_OF_A,
    ONE_RUN_OF_B,
    TWO_RUNS,
    TWO_RUNS_JACKKNIFE,
)
from dialog.comparison.statistics.verdict import TITLES, UNIT, listed, lowered
from dialog.comparison.systems.specification import ADAPTERS
from dialog.escaping import LATEX_COMMANDS, escape_latex
from dialog.paper.citations import (
    ATTENTIONS,
    CORPORA,
    METRICS,
    NETWORKS,
    OPTIMIZERS,
    TOKENIZERS,
    cite,
)
from dialog.report.formats.metrics import LOSSY, metric_display
from dialog.report.formats.numbers import count, counted, duration, hardware
from dialog.report.formats.results import ModelResults, Results
from dialog.report.sections.scores import metric_names
from dialog.report.tables import UNKNOWN, whole_subset
from dialog.version import __version__

Recipes = Mapping[str, Mapping[str, Any]]
"""Composed recipe of each contender that has one."""

NO_SETTINGS = ("tokenizer", "data fingerprint", "test set", "test examples", "seeds")
"""Rows of the parity contract that other sentences state, or that are hashes."""
BAR = LATEX_COMMANDS["|"]
MEASURED = ("parameters", "target tokens")
"""First words of rows that are measured, not set."""


def methods(results: Results, recipes: Recipes) -> str:
    """Return the paragraphs on systems, evaluation, statistics and software.

    Args:
        results: results.json with the names that the paper shows.
        recipes: Recipes by these names.
    """
    paragraphs = {
        "Systems": systems(results, recipes),
        "Evaluation": evaluation(results, recipes),
        "Statistics": statistics(results),
        "Software and hardware": software(results),
    }
    return "\n\n".join(
        rf"\paragraph{{{title}.}}" + "\n" + "\n".join(sentences)
        for title, text in paragraphs.items()
        if (sentences := [*text])
    )


def systems(results: Results, recipes: Recipes) -> Iterator[str]:
    """Yield what the contenders are, how often they were trained, and which settings they share."""
    models = results.models
    described = [_described(model, recipes.get(model.name, {})) for model in models]
    yield f"We compare {listed(described)}."
    tools = {name: _tools(recipe) for name, recipe in recipes.items()}
    if len({*tools.values()}) == 1:
        yield f"The optimizer is {next(iter(tools.values()))}."
    elif tools:
        texts = [f"{tools[name]} of {tex(name)}" for name in tools]
        yield f"The optimizer is {listed(texts)}."
    trained = [model for model in models if model.trained]
    seeds = {_seeds(model) for model in trained}
    if len(seeds) == 1:
        named = "Each of " + listed([tex(model.name) for model in trained])
        yield f"{'Each' if len(trained) == len(models) else named} was trained with {seeds.pop()}."
    elif seeds:
        texts = [f"{tex(model.name)} was trained with {_seeds(model)}" for model in trained]
        yield f"{listed(texts)}."
    rows = [row for row in results.parity if row.must and not _is_measured(row.what)]
    shared = [f"{row.what} ({row.values[0]})" for row in rows if row.equal]
    shared = [text for text in shared if UNKNOWN not in text]
    if shared and len(trained) > 1:
        yield f"All have the same {tex(listed(shared))}."
    for row in rows:
        if not row.equal:
            values = zip(models, row.values, strict=True)
            texts = [f"{model.name}: {value}" for model, value in values if value != UNSTATED]
            yield f"They differ in {tex(row.what)}: {tex('; '.join(texts))}."


def evaluation(results: Results, recipes: Recipes) -> Iterator[str]:
    """Yield the test set and the metrics."""
    corpus = corpus_of(recipes)
    title = TITLES.get(corpus)
    citation = cite(CORPORA[corpus]) if corpus in CORPORA else ""
    of = f" of {title}{citation}" if title else ""
    examples = counted(results.examples, "context")
    yield (
        f"The systems answered the {examples} of the {tex(results.split)} split{of}"
        f" ({counted(results.dialogues, 'dialogue')})."
    )
    primary = results.primary
    entries = [entry for entry in results.differences if entry.subset == "all"]
    with_p = {entry.metric for entry in entries if entry.p is not None} - {primary}
    with_interval = {entry.metric for entry in entries if entry.interval} | {primary}
    names = metric_names(results)
    display = metric_display(primary)
    label = UNIT.get(primary) or lowered(display.label)
    named = f"{tex(label)}{cite(*METRICS.get(primary, ()))}"
    if primary == OVERLAP != requested_primary(results.command):
        yield f"The primary metric is {named}, as not all systems give likelihoods."
    else:
        yield f"The primary metric, declared before there were results, is {named}."
    if definition := display.definition.partition(LOSSY)[0].rstrip():
        yield f"Its definition: {tex(lowered(definition))}"
    if tested := [name for name in names if name in with_p]:
        yield f"Secondary metrics are {_cited(tested)}."
    if shown := with_interval - with_p - {primary}:
        yield (
            "Shown with intervals but not tested, as no direction of theirs is better or they"
            f" repeat another metric: {_cited([name for name in names if name in shown])}."
        )
    others = [name for name in names if name not in with_interval]
    if others:
        yield f"Shown without intervals: {_cited(others)}."
    if signatures := _signatures(results):
        text = tex("; ".join(signatures)).replace(BAR, rf"{BAR}\allowbreak{{}}")
        yield f"Signatures: {text}."
    if any(name.startswith("ngram") for name in results.references.get("all", {})):
        yield (
            "Reference rows include the likelihood under interpolated Witten-Bell n-gram"
            f" models{cite('witten-1991-zero')}, which do not read the context."
        )
    if results.context_use.rows:
        yield (
            "Use of the context is the increase in bits per byte of the references when the"
            f" context is perturbed{cite('sankar-2019-history')}, on"
            f" {counted(results.context_use.examples, 'example')}."
        )


def corpus_of(recipes: Recipes) -> str:
    """Return the component name of the corpus; empty without a recipe."""
    return next((str(recipe["data"]["corpus"]["name"]) for recipe in recipes.values()), "")


def statistics(results: Results) -> Iterator[str]:
    """Yield how intervals and p-values were computed and corrected."""
    level = f"{100 * results.statistics.level:g} \\%"
    entries = [entry for entry in results.differences if entry.interval]
    used = {entry.method for entry in entries}
    if not used:
        return
    if results.dialogues < results.examples:
        yield "The unit is the dialogue, since responses of one dialogue are not independent."
    else:
        yield "Each response counts as a dialogue of its own."
    if used & {ARCHITECTURES, ONE_RUN_OF_A, ONE_RUN_OF_B}:
        yield (
            f"Intervals ({level}) and p-values are those of a t test over seeds and dialogues. The"
            " variance of a difference between means over seeds adds the variance between seeds,"
            " with Satterthwaite's degrees of"
            f" freedom{cite('satterthwaite-1946-variance')}, and the jackknife variance over"
            f" dialogues{cite('efron-1981-jackknife')}; what both contain is subtracted once, as in"
            f" two-way clustered variances{cite('cameron-2011-multiway')}."
        )
    if used & {ONE_RUN_OF_A, ONE_RUN_OF_B}:
        yield (
            "The variance between seeds of a system with one run is unknown and left out, so that"
            " the result is about this run."
        )
    resamples = count(results.statistics.resamples)
    if TWO_RUNS in used:
        yield (
            f"Of two single runs, intervals ({level}) are quantiles of a paired bootstrap over"
            f" {resamples} resamples of dialogues{cite('koehn-2004-significance')}."
        )
    if TWO_RUNS_JACKKNIFE in used:
        yield (
            f"Of two single runs, intervals ({level}) of metrics that count distinct items, and of"
            " all metrics with few dialogues, are those of a t test with the jackknife variance"
            f" over dialogues{cite('efron-1981-jackknife')}."
        )
    if used & {TWO_RUNS, TWO_RUNS_JACKKNIFE}:
        yield (
            "p-values of two single runs are those of paired approximate randomization of whole"
            f" dialogues{cite('noreen-1989-intensive', 'riezler-2005-pitfalls')}, with at most"
            f" {resamples} swaps."
        )
    yield from correction(results)
    for judge in results.judges:
        items = sum(pair.items for pair in judge.pairs)
        yield (
            f"The judge {tex(judge.command)} chose between responses of two systems to"
            f" {counted(items, 'context')}, in both orders; pairs that it judges differently when"
            " they are exchanged count as ties."
        )
        if judge.agreement.items:
            yield (
                "Its agreement with the choice of most raters is measured by Cohen's"
                f" kappa{cite('cohen-1960-kappa')}."
            )
    if results.ratings.raters:
        excluded = sum(rater.excluded for rater in results.ratings.raters)
        raters = counted(len(results.ratings.raters) - excluded, "rater")
        checks = f", after {excluded} were excluded by attention checks" if excluded else ""
        yield (
            f"Pairs of responses were rated blindly by {raters}{checks}. Intervals of preferences"
            f" have variances clustered by rater and dialogue{cite('cameron-2011-multiway')};"
            f" strengths are those of Bradley and Terry{cite('bradley-1952-rank')} with a bias of"
            " each rater for the response shown first; agreement is Krippendorff's"
            f" alpha{cite('krippendorff-2011-computing')}."
        )


def correction(results: Results) -> Iterator[str]:
    """Yield the correction over pairs, metrics and looks; nothing without a test."""
    error = f"{100 * (1 - results.statistics.level):g} \\%"
    copied = whole_subset(results)  # its records are those of all dialogues
    tests = [
        entry
        for entry in results.differences
        if entry.p_holm is not None and entry.subset != copied
    ]
    first = [entry for entry in tests if (entry.metric, entry.subset) == (results.primary, "all")]
    if not first:
        return
    others = len(tests) - len(first)
    holm = f"Holm's procedure{cite('holm-1979-sequentially')}"
    if len(first) == 1:
        after = f"; if it is decided, the {others} secondary hypotheses by {holm}" if others else ""
        yield f"The primary metric is tested at {error}{after}."
    else:
        passed = (
            f" A decided pair passes {SHARE:g} of its level to the primary metrics of the other"
            f" pairs and the rest to its own secondary hypotheses, which are tested by {holm}."
            if others
            else ""
        )
        yield (
            f"The probability of any wrong decision over {len(first)} pairs and all metrics is at"
            f" most {error}, by a graphical Bonferroni procedure{cite('bretz-2009-graphical')} that"
            f" begins with the primary metrics.{passed}"
        )
    yield (
        f"A difference is decided if its corrected p is at most {error} and its interval excludes"
        " 0."
    )
    planned = results.statistics.looks
    corrected = f", so p-values are multiplied by {planned}" if planned > 1 else ""
    yield (f"Planned looks at results: {planned}{corrected}; looks taken: {len(results.looks)}.")
    if any(entry.improvement_probability is not None for entry in results.differences):
        yield (
            "The probability of improvement is the share of pairs of runs in which one system is"
            f" better than the other{cite('agarwal-2021-precipice')}."
        )


def software(results: Results) -> Iterator[str]:
    """Yield versions, hardware and time."""
    environment = results.environment
    texts = [f"dialog {tex(environment.get('dialog', __version__))}{cite('dialog')}"]
    for package, name, key in (
        ("torch", "PyTorch", "paszke-2019-pytorch"),
        ("lightning", "PyTorch Lightning", "falcon-2019-lightning"),
    ):
        if package in environment:
            texts.append(f"{name} {tex(environment[package])}{cite(key)}")
    place = f", on {tex(hardware(environment))}" if environment else ""
    yield f"All numbers were computed with {listed(texts)}{place}."
    if results.seconds and environment:
        yield f"Training and analysis took {duration(results.seconds)} in total."


def _described(model: ModelResults, recipe: Mapping[str, Any]) -> str:
    """Return a contender with its size and its publications, or where its responses come from."""
    name = tex(model.name)
    if model.trained:
        size = model.parameters.get("total")
        sizes = [f"{count(size)} parameters"] if size else []
        about = "; ".join([*networks(recipe), *sizes])
        return f"{name} ({about})" if about else name
    command = str((model.system or {}).get("command", ""))
    adapter = command.partition(":")[0]
    if adapter in ADAPTERS:
        return f"{name} ({tex(command)})"
    runs = counted(len(model.runs), "run")
    return f"{name} ({'a program' if command else f'responses of {runs}'})"


def networks(recipe: Mapping[str, Any]) -> list[str]:
    """Return encoder, decoder and attention of a recipe with their publications."""
    model = recipe.get("model", {})
    decoder = model.get("decoder")
    attention = decoder.get("attention") if isinstance(decoder, Mapping) else None
    parts = (
        ("encoder", NETWORKS, model.get("encoder")),
        ("decoder", NETWORKS, decoder),
        ("attention", ATTENTIONS, attention),
    )
    return [f"{what} {_component(part, known)}" for what, known, part in parts if part]


def _tools(recipe: Mapping[str, Any]) -> str:
    """Return optimizer and tokenizer of a recipe with their publications."""
    optimizer = _component(recipe["optimizer"], OPTIMIZERS)
    return f"{optimizer}, the tokenizer {_component(recipe['data']['tokenizer'], TOKENIZERS)}"


def _component(component: Mapping[str, Any], known: Mapping[str, str]) -> str:
    name = str(component.get("name"))
    return tex(name) + (cite(known[name]) if name in known else "")


def _seeds(model: ModelResults) -> str:
    seeds = [str(run.seed) for run in model.runs]
    return f"{counted(len(seeds), 'seed')} ({', '.join(seeds)})"


def _is_measured(what: str) -> bool:
    return what in NO_SETTINGS or what.startswith(MEASURED)


def _cited(metrics: Sequence[str]) -> str:
    """Return the labels of metrics, those of one publication together."""
    groups: dict[tuple[str, int], list[str]] = {}
    for place, name in enumerate(metrics):
        keys = METRICS.get(name, ())
        label = lowered(metric_display(name).label)
        groups.setdefault((cite(*keys), -1 if keys else place), []).append(label)
    return listed([f"{tex(listed(labels))}{citation}" for (citation, _), labels in groups.items()])


def _signatures(results: Results) -> list[str]:
    """Return "label signature" of each metric that has one, metrics of one signature together."""
    labels: dict[str, list[str]] = {}
    for model in results.models:
        for run in model.runs:
            for name, signature in run.metrics.get("signatures", {}).items():
                group = labels.setdefault(signature, [])
                group += [label for label in [metric_display(name).label] if label not in group]
    return [f"{', '.join(names)} {signature}" for signature, names in labels.items()]


def tex(text: object) -> str:
    """Return escaped text."""
    return escape_latex(str(text))
