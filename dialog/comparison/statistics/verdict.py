"""The verdict of a comparison, the same for page, terminal, Markdown and LaTeX: a paragraph to
paste into a paper, and a line for each note.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from dialog.comparison.decisions.primary import OF_LIKELIHOOD
from dialog.comparison.statistics.differences import TWO_RUNS, TWO_RUNS_JACKKNIFE
from dialog.report.formats.metrics import Better, better_of, metric_display
from dialog.report.formats.results import Difference, Ranked
from dialog.report.tables import interval_text, p_text, signed

UNIT = {"bits_per_byte": "bits per byte"}
"""Metrics whose values have a unit; of the others, the label is given."""
TITLES = {
    "cornell": "Cornell Movie-Dialogs",
    "crosswoz": "CrossWOZ",
    "dailydialog": "DailyDialog",
    "empathetic": "EmpatheticDialogues",
    "kdconv": "KdConv",
    "multi30k": "Multi30k",
    "multiwoz": "MultiWOZ",
    "opensubtitles": "OpenSubtitles",
    "personachat": "PersonaChat",
    "selfdialogue": "Self-dialogue",
    "sgd": "Schema-Guided Dialogue",
    "switchboard": "Switchboard",
    "switchboard_ms98": "Switchboard",
    "taskmaster": "Taskmaster",
    "topical_chat": "Topical-Chat",
    "ubuntu": "Ubuntu",
    "builtin": "the built-in corpus",
}
"""Published names of corpora; other components, such as jsonl, read a corpus of any name."""


@dataclass(frozen=True)
class EvaluationSet:
    """Test set of a comparison.

    Attributes:
        corpus: Component name of the corpus; empty if it is unknown.
        split: Name of the split.
        examples: Number of responses; None if it is unknown.
        dialogues: Number of dialogues.
        grouped: Whether the dialogue of each response is known.
    """

    corpus: str = ""
    split: str = "test"
    examples: int | None = None
    dialogues: int = 0
    grouped: bool = True

    def __str__(self) -> str:
        title = TITLES.get(self.corpus)
        place = f"{title}'s {self.split} split" if title else f"the {self.split} split"
        if self.examples is None:
            return f"{place} ({self.dialogues:,} dialogues)"
        if not self.grouped:
            return f"{place} ({self.examples:,} responses)"
        return f"{place} ({self.examples:,} responses in {self.dialogues:,} dialogues)"


@dataclass(frozen=True)
class Circumstances:
    """Facts that a verdict states beside its figures.

    Attributes:
        test_set: The test set.
        runs: Number of evaluated runs of each contender.
        files: Contenders that are files of responses.
        diverged: Number of diverged runs and of all runs, by contender.
        missing: Contenders with runs that are still missing.
        late: Pairs whose present seeds are beyond the planned looks.
        looks: Planned number of looks.
        level: Level of the intervals.
    """

    test_set: EvaluationSet
    runs: Mapping[str, int]
    files: Collection[str] = ()
    diverged: Mapping[str, tuple[int, int]] | None = None
    missing: Collection[str] = ()
    late: Collection[tuple[str, str]] = ()
    looks: int = 1
    level: float = 0.95


def verdict(
    records: Sequence[Difference],
    rankings: Mapping[str, Sequence[Ranked]],
    better: Mapping[str, Better],
    primary: str,
    about: Circumstances,
) -> str:
    """Return the verdict: a line with a paragraph, then a line for each note.

    Args:
        records: Records of `decided`.
        rankings: Ranking in each tested metric on all dialogues.
        better: Better direction of each metric.
        primary: The primary metric.
        about: Circumstances.
    """
    whole = [record for record in records if record.subset == "all"]
    main = [record for record in whole if record.metric == primary]
    measured = [record for record in main if record.measured]
    if not measured:
        sentences = [*_untested(whole)]
    elif len(about.runs) == 2:
        sentences = [
            _pair(measured[0], rankings[primary], about),
            *_subsets(records, primary, about),
            *_secondary(measured[0], whole, better),
        ]
    else:
        sentences = [*_order(measured, rankings[primary], primary, about)]
    lines = [" ".join([*sentences, *_scope(whole, primary, about)])]
    return "\n".join(filter(None, [*lines, *_notes(records, primary, about)]))


def _pair(record: Difference, ranking: Sequence[Ranked], about: Circumstances) -> str:
    """Return "On the test split (...), a (3 seeds) has 1.329 bits per byte and b 1.424, a
    difference of ...".
    """
    display = metric_display(record.metric)
    means = {entry.name: display.format(entry.mean) for entry in ranking}
    unit = UNIT.get(record.metric)
    scale = "of 100 " if display.highest == 100 else ""
    what = unit or f"{scale}in {lowered(display.label)}"
    a = f"{record.a}{_seeds(about.runs[record.a])}"
    b = f"{record.b}{_seeds(about.runs[record.b])}"
    return (
        f"On {about.test_set}, {a} has {means[record.a]} {what} and {b} {means[record.b]},"
        f" a difference of {_amount(record, about)}."
    )


def _amount(record: Difference, about: Circumstances, *, brief: bool = False) -> str:
    """Return "−0.095 (95 % interval −0.099 to −0.092; t test over seeds and dialogues, p <
    0.001)".
    """
    to_text = metric_display(record.metric).format
    difference = signed(record.difference or 0.0, to_text).replace(" pp", " percentage points")
    limits = interval_text(record.interval, to_text).partition("]")[0][1:].replace(", ", " to ")
    interval = limits if brief else f"{100 * about.level:g} % interval {limits}"
    p = _probability(record, about)
    if brief:
        return f"{difference} ({interval}{f'; {p}' if p else ''})"
    return f"{difference} ({interval}{f'; {name_of_test(record.method)}, {p}' if p else ''})"


def _probability(record: Difference, about: Circumstances) -> str:
    if record.p_holm is None:
        return ""
    p = p_text(record.p_holm)
    corrected = f" corrected for {about.looks} looks" if about.looks > 1 else ""
    return f"p {p if p.startswith('<') else f'= {p}'}{corrected}"


def name_of_test(method: str) -> str:
    """Return the name of a test in a sentence."""
    if method in (TWO_RUNS, TWO_RUNS_JACKKNIFE):
        return "paired randomization test over dialogues"
    return "t test over seeds and dialogues"


def _seeds(number: int) -> str:
    return f" ({number} seeds)" if number > 1 else ""


def _subsets(records: Sequence[Difference], primary: str, about: Circumstances) -> Iterator[str]:
    """Yield the differences in the primary metric on clean and on leaked dialogues."""
    parts = [
        f"{_amount(record, about, brief=True)} on {record.subset} dialogues"
        for record in records
        if record.metric == primary and record.subset != "all" and record.measured
    ]
    if parts:
        yield f"It is {listed(parts)}."


def _secondary(
    main: Difference, whole: Sequence[Difference], better: Mapping[str, Better]
) -> Iterator[str]:
    """Yield which secondary metrics are decided, for whom; and those that should have a test and
    have none.
    """
    others = [record for record in whole if record.p_holm is not None and record is not main]
    if others and not main.decided:
        yield (
            f"Since this is not significant, none of the {len(others)} secondary metrics is tested."
        )
    elif others:
        winners: dict[str, list[str]] = {}
        for record in others:
            best = better_of((record.a, record.b), record.difference, better[record.metric])
            if record.decided and best is not None:
                winners.setdefault(best, []).append(lowered(metric_display(record.metric).label))
        outcomes = [f"{name} is better in {listed(labels)}" for name, labels in winners.items()]
        first = f"Of {len(others)} secondary metrics, corrected among themselves"
        rest = [lowered(metric_display(one.metric).label) for one in others if not one.decided]
        count = f"{len(rest)} are" if len(rest) > 1 else f"{listed(rest)} is" if rest else ""
        last = f"; {count} not decided" if rest and winners else ""
        yield f"{first}, {'; '.join(outcomes) or 'none is decided'}{last}."


def _untested(whole: Sequence[Difference]) -> Iterator[str]:
    """Yield why nothing is tested."""
    reasons: dict[str, list[str]] = {}
    for record in whole:
        if not record.measured:
            reasons.setdefault(record.why_untested, []).append(record.metric)
    if len(reasons) == 1 and not any(record.measured for record in whole):
        yield f"No metric is tested: {next(iter(reasons))}."
    else:
        for reason, metrics in reasons.items():
            labels = [metric_display(metric).label for metric in dict.fromkeys(metrics)]
            yield f"{listed([labels[0], *map(lowered, labels[1:])])}: not tested: {reason}."


def _order(
    records: Sequence[Difference],
    ranking: Sequence[Ranked],
    primary: str,
    about: Circumstances,
) -> Iterator[str]:
    """Yield the contenders by the primary metric, with the letters of their groups."""
    display = metric_display(primary)
    numbers = {about.runs[entry.name] for entry in ranking}
    same = f" over {numbers.pop()} seeds" if len(numbers) == 1 and max(numbers) > 1 else ""
    entries = [
        f"{entry.name}{'' if same else _seeds(about.runs[entry.name])}"
        f" {display.format(entry.mean)} ({entry.groups})"
        for entry in ranking
    ]
    tests = listed([*dict.fromkeys(name_of_test(record.method) for record in records)])
    yield (
        f"On {about.test_set}, mean {lowered(display.label)}{same}, best first:"
        f" {separated(entries)}."
    )
    yield (
        "Contenders that share a letter are not distinguished with a probability of error of"
        f" {100 * (1 - about.level):.0f} % over all pairs ({tests})."
    )


def _scope(whole: Sequence[Difference], primary: str, about: Circumstances) -> Iterator[str]:
    """Yield to which systems the verdict applies if contenders have one run; likelihoods are of the
    references, not of responses.
    """
    single = [name for name, number in about.runs.items() if number == 1]
    trained = [name for name in single if name not in about.files]
    answered = [name for name in single if name in about.files]
    if not any(record.measured for record in whole) or not single:
        return
    number = {2: "two"}.get(len(about.runs), str(len(about.runs)))
    if len(trained) == len(about.runs):
        yield (
            f"Each model was trained once, so this compares {number} runs, not {number}"
            " architectures."
        )
        return
    by_responses = primary not in OF_LIKELIHOOD
    if len(answered) == len(about.runs):
        done = "answered" if by_responses else "was measured"
        subject = "responses" if by_responses else "systems"
        yield f"Each system {done} once, so this compares these {subject}, not architectures."
        return
    parts = []
    if trained:
        verb = "was" if len(trained) == 1 else "were"
        parts.append(f"{listed(trained)} {verb} trained once")
    if answered:
        verb = "answered" if by_responses else f"{'was' if len(answered) == 1 else 'were'} measured"
        parts.append(f"{listed(answered)} {verb} once")
    runs = "runs" if trained else "responses" if by_responses else "systems"
    yield f"{listed(parts)}, so this is about these {runs}, not about other ones."


def _notes(records: Sequence[Difference], primary: str, about: Circumstances) -> Iterator[str]:
    """Yield what a reader must know beside the paragraph."""
    tested = {(record.a, record.b) for record in records if record.p is not None}
    if about.missing:
        yield f"Runs of {listed([*about.missing])} are missing, so their pairs are not tested yet."
    late = [pair for pair in about.late if pair in tested]
    if late:
        pairs = f"{len(late)} pairs" if len(late) > 1 else listed(late[0])
        planned = f"{about.looks} look{'s were' if about.looks > 1 else ' was'}"
        yield (
            f"Decisions on {pairs} are those of earlier seeds, since {planned} planned: means and"
            " intervals include the added seeds; before the first report, plan more with --looks."
        )
    if not about.test_set.grouped:
        yield (
            "Without dialogue ids, each response counts as a dialogue of its own; intervals are"
            " too narrow if responses share dialogues."
        )
    yield from diverged_runs(about.runs, about.diverged or {})


def diverged_runs(names: Collection[str], diverged: Mapping[str, tuple[int, int]]) -> Iterator[str]:
    """Yield "1 of 3 runs of lstm diverged." for each contender with a diverged run."""
    for name in names:
        number, runs = diverged.get(name, (0, 0))
        if number:
            yield f"{number} of {runs} runs of {name} diverged."


def lowered(label: str) -> str:
    """Return a label within a sentence: token accuracy, F1."""
    return label[:1].lower() + label[1:] if label[1:2].islower() else label


def listed(texts: Sequence[str]) -> str:
    """Return "a, b and c"."""
    return " and ".join([separated(texts[:-1]), texts[-1]] if len(texts) > 1 else texts)


def separated(texts: Sequence[str]) -> str:
    """Return "a, b, c"; with semicolons if a text has a comma, like the names of --vary with two
    keys.
    """
    return ("; " if any("," in text for text in texts) else ", ").join(texts)
