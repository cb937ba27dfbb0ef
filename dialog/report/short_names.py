"""Short names of contenders, with which reports show results."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from itertools import takewhile

from dialog.escaping import map_texts
from dialog.report.formats.results import Results

UNNAMED = ("command", "environment", "samples", "disagreements", "attention")
"""Fields with texts of users, in which words are no names of contenders."""


@dataclass(frozen=True)
class ShownResults(Results):
    """Results with short names of the contenders; `shared` is what the names have in common."""

    shared: str = ""


def displayed(results: Results) -> ShownResults:
    """Return results with short names, as keys and values and in sentences; names stay as they are
    if those of other systems, which the user has given, are among them.
    """
    given = any(model.kind == "responses" for model in results.models)
    shared, labels = ("", results.names) if given else short_labels(results.names)
    names = dict(zip(results.names, labels, strict=True))
    sentence = partial(relabelled, labels=names)

    def label(text: str) -> str:
        return names.get(text, text)

    parts = {item.name: getattr(results, item.name) for item in fields(results)}
    parts |= map_texts({key: parts[key] for key in parts if key not in UNNAMED}, label)
    parts |= {
        "verdict": sentence(results.verdict),
        "warnings": tuple(map(sentence, results.warnings)),
        "crossings": tuple(replace(one, text=sentence(one.text)) for one in parts["crossings"]),
        "attention": replace(
            results.attention,
            examples=tuple(
                replace(
                    example,
                    models=tuple(
                        {**entry, "model": label(entry["model"])} for entry in example.models
                    ),
                )
                for example in results.attention.examples
            ),
            statistics=map_texts(results.attention.statistics, label),
        ),
    }
    return ShownResults(**parts, shared=shared)


def relabelled(sentence: str, labels: Mapping[str, str]) -> str:
    """Return a sentence with labels in place of names, but not in paths."""
    longest_first = "|".join(map(re.escape, sorted(labels, key=len, reverse=True)))
    return re.sub(
        rf"(?<![\w/])(?:{longest_first})(?![\w/])", lambda match: labels[match[0]], sentence
    )


def short_labels(names: Sequence[str]) -> tuple[str, list[str]]:
    """Return what names have in common, their folder, first words or recipe, and their labels
    without it.

    ``task/lstm[attention=dot]`` and ``task/lstm[attention=none]`` share ``task/lstm``;
    ``task/lstm`` and ``task/gru`` share ``task``, and so do ``task-lstm`` and ``task-gru``.
    """
    if len(names) < 2:
        return "", list(names)
    recipes = [name.partition("[")[0] for name in names]
    if len(set(recipes)) == 1 and all(name.endswith("]") for name in names):
        return recipes[0], [name[len(recipes[0]) + 1 : -1] for name in names]
    start = _shared_start(recipes, "/")
    start += _shared_start([recipe[len(start) :].partition("/")[0] for recipe in recipes], "-")
    return start[:-1], [name[len(start) :] for name in names]


def _shared_start(texts: Sequence[str], separator: str) -> str:
    """Return the parts with which all texts start, each with its separator."""
    parts = zip(*(text.split(separator)[:-1] for text in texts), strict=False)
    return "".join(
        f"{equal[0]}{separator}" for equal in takewhile(lambda column: len(set(column)) == 1, parts)
    )
