"""Responsible NLP checklist of the ACL: what a comparison knows is filled in, the rest is left to
the authors.
"""

from __future__ import annotations

from typing import NamedTuple

from dialog.comparison.statistics.verdict import TITLES, listed
from dialog.data.reading.download_sources import DOWNLOADS
from dialog.paper.citations import CORPORA, cite
from dialog.paper.methods import Recipes, corpus_of, tex
from dialog.report.formats.numbers import count, counted, duration, hardware
from dialog.report.formats.results import Results
from dialog.report.tables import has_several_seeds

OPEN = r"\textbf{To be filled in:}"
NO_PEOPLE = "; or that no people took part"


class Entry(NamedTuple):
    """What is known about an item, and what the authors have to fill in."""

    known: str = ""
    missing: str = ""


def checklist(results: Results, recipes: Recipes) -> str:
    """Return the checklist as a LaTeX list: for each item what is known and what is missing.

    Args:
        results: results.json with the names that the paper shows.
        recipes: Recipes by these names.
    """
    rated = results.ratings.raters
    people = "" if rated else NO_PEOPLE
    items = {
        "A1 Limitations": Entry(missing="the section"),
        "A2 Potential risks": Entry(missing="the section"),
        "B1 Creators of artifacts": _creators(results, recipes),
        "B2 License or terms of use": _licence(recipes),
        "B3 Intended use": Entry(missing="that your use of the corpus is consistent with it"),
        "B4 Personal information and offensive content": Entry(missing="the steps taken"),
        "B5 Documentation of artifacts": _documentation(recipes),
        "B6 Statistics of the data": Entry(
            f"The {tex(results.split)} split has {_size(results)}.",
            "sizes of the training and validation splits" if recipes else "",
        ),
        "C1 Parameters, budget, infrastructure": _budget(results),
        "C2 Setup and hyperparameters": _setup(results, recipes),
        "C3 Descriptive statistics": Entry(_spread(results)),
        "C4 Existing packages": Entry("Versions and signatures are in the methods."),
        "D1 Instructions to participants": Entry(
            f"Blind rating of pairs of responses by {counted(len(rated), 'rater')}."
            if rated
            else "",
            f"the full text{people}",
        ),
        "D2 Recruitment and payment": Entry(missing=f"both{people}"),
        "D3 Consent": Entry(missing=f"of participants and of the authors of the data{people}"),
        "D4 Ethics review": Entry(missing=f"approval or exemption{people}"),
        "D5 Characteristics of annotators": Entry(missing=f"the section{people}"),
        "E1 AI assistants": Entry(missing="your use of them"),
    }
    lines = [_item(title, answer) for title, answer in items.items()]
    return "\n".join([r"\begin{description}", *lines, r"\end{description}"])


def _item(title: str, answer: Entry) -> str:
    missing = f"{OPEN} {answer.missing}." if answer.missing else ""
    return " ".join(filter(None, [rf"\item[{title}]", answer.known, missing]))


def _size(results: Results) -> str:
    responses = counted(results.examples, "response")
    return f"{responses} in {counted(results.dialogues, 'dialogue')}"


def _creators(results: Results, recipes: Recipes) -> Entry:
    corpus = corpus_of(recipes)
    if corpus in CORPORA:
        return Entry(f"{TITLES[corpus]}{cite(CORPORA[corpus])}; others are in the methods.")
    missing = "the corpus" if recipes else "the corpus and the systems"
    return Entry("Metrics and software are cited in the methods.", missing)


def _licence(recipes: Recipes) -> Entry:
    source = DOWNLOADS.get(corpus_of(recipes))
    if source is None:
        return Entry(missing="of corpus, weights and code")
    return Entry(f"Of the corpus: {tex(source.licence)}.", "of your weights and code")


def _documentation(recipes: Recipes) -> Entry:
    source = DOWNLOADS.get(corpus_of(recipes))
    if source is None:
        return Entry(missing="domains, languages, groups of people")
    languages = f"Languages (ISO 639): {', '.join(source.languages)}."
    return Entry(languages, "domains, groups of people")


def _budget(results: Results) -> Entry:
    models = results.models
    sizes = [
        f"{tex(model.name)} has {count(model.parameters['total'])} parameters"
        for model in models
        if model.parameters
    ]
    environment = results.environment
    if not environment:
        return Entry(missing="parameters, budget and infrastructure of the systems")
    known = (
        f"{listed(sizes)}. Training and analysis took {duration(results.seconds)} on"
        f" {tex(hardware(environment))}."
    )
    others = [tex(model.name) for model in models if not model.parameters]
    return Entry(known, f"those of {listed(others)}" if others else "")


def _setup(results: Results, recipes: Recipes) -> Entry:
    if not recipes:
        return Entry(missing="setup and hyperparameters of the systems")
    known = r"All settings are in the appendix on hyperparameters."
    models = [model for model in results.models if model.name in recipes]
    if any(model.trials is None for model in models):
        return Entry(known, "the number of trials of the hyperparameter search")
    tuned = [f"{count(model.trials or 0)} of {tex(model.name)}" for model in models]
    return Entry(f"{known} Trials of the hyperparameter search: {listed(tuned)}.")


def _spread(results: Results) -> str:
    level = f"{100 * results.statistics.level:g} \\%"
    if has_several_seeds(results):
        return f"Means and standard deviations over seeds, and {level} intervals of differences."
    return f"Results of single runs, with {level} intervals of differences."
