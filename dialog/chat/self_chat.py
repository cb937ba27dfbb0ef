"""Two runs, or a run with itself, in conversation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import click

from dialog.escaping import one_line, to_json
from dialog.metrics import DistinctN, UniqueRatio
from dialog.metrics.counts import CountMetric
from dialog.report.terminal import display_width
from dialog.runs.run import Run, run_names


class NamedTurn(NamedTuple):
    """A turn and its speaker."""

    name: str
    text: str


def self_chat(runs: Sequence[Run], turns: int, start: str | None = None) -> Iterator[NamedTurn]:
    """Yield turns of two runs that alternate; one run alone generates both sides.

    Each turn answers all turns before it, truncated as in training. The first one answers
    ``start``, or an empty context.

    Raises:
        UserError: the scores of a model are not numbers.
    """
    pair = [*runs, *runs][:2]
    names = run_names(pair)
    context = [] if start is None else [start]
    for number in range(turns):
        text = pair[number % 2].respond(context).text
        context.append(text)
        yield NamedTurn(names[number % 2], text)


def repetition(turns: Sequence[NamedTurn]) -> dict[str, dict[str, float]]:
    """Return measures of repetition in [0, 1] for all turns and for each speaker, by name.

    ``repeated_turns`` and ``repeated_trigrams`` are the shares of turns and of trigrams of words
    that occurred before; ``distinct_2`` is distinct bigrams / bigrams (Li et al. 2016). Upper and
    lower case are equal.
    """
    names = dict.fromkeys(turn.name for turn in turns)
    groups = {"all": [turn.text for turn in turns]}
    groups |= {name: [turn.text for turn in turns if turn.name == name] for name in names}
    return {name: measures(texts) for name, texts in groups.items()}


def measures(texts: Sequence[str]) -> dict[str, float]:
    """Return the three measures of some turns."""
    return {
        "repeated_turns": repeated(UniqueRatio(), texts),
        "repeated_trigrams": repeated(DistinctN(3), texts),
        "distinct_2": distinct(DistinctN(2), texts),
    }


def repeated(metric: CountMetric, texts: Sequence[str]) -> float:
    """Return the share of items of a metric that occurred before; 0 without items."""
    share = distinct(metric, texts)
    return 1 - share if share else 0.0


def distinct(metric: CountMetric, texts: Sequence[str]) -> float:
    """Return distinct items / items of a metric; 0 without items, as in an evaluation."""
    counts = metric.items_of([text.lower() for text in texts]).counts()
    return len(counts) / int(counts.sum()) if len(counts) else 0.0


def report_lines(report: Mapping[str, Mapping[str, float]]) -> list[str]:
    """Return a table of the measures."""
    names = list(map(one_line, report))
    width = max(map(display_width, names))
    lines = [f"{'':{width}}  repeated turns  repeated trigrams  distinct-2"]
    for name, row in zip(names, report.values(), strict=True):
        turns, trigrams, distinct = row.values()
        padding = " " * (width - display_width(name))
        lines.append(f"{name}{padding}  {turns:14.1%}  {trigrams:17.1%}  {distinct:10.3f}")
    return lines


def print_self_chat(runs: Sequence[Run], turns: int, start: str | None, *, as_json: bool) -> None:
    """Print each turn when it is generated, and the repetition at the end; or everything as
    JSON.
    """
    spoken: list[NamedTurn] = []
    if start is not None and not as_json:
        click.echo(f"start: {one_line(start)}")
    for turn in self_chat(runs, turns, start):
        spoken.append(turn)
        if not as_json:
            click.echo(one_line(f"{turn.name}: {turn.text}"))
    report = repetition(spoken)
    if as_json:
        rows = [turn._asdict() for turn in spoken]
        folders = [str(run.folder) for run in runs]
        click.echo(
            to_json(
                {"runs": folders, "start": start, "turns": rows, "repetition": report}, indent=1
            )
        )
    else:
        click.echo("\n".join(["", *report_lines(report)]))
