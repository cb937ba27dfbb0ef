"""``dialog compare``."""

from __future__ import annotations

import logging
import shlex
from collections.abc import Sequence
from pathlib import Path
from shutil import get_terminal_size
from typing import TYPE_CHECKING

import click

from dialog.cli.completion import recipes_and_settings
from dialog.cli.options import check_only_with, is_given, trust_option
from dialog.config.trust import Trust
from dialog.errors import UserError
from dialog.escaping import to_json

if TYPE_CHECKING:
    from dialog.report.formats.results import Results

log = logging.getLogger("dialog")


@click.command()
@click.argument(
    "contenders",
    nargs=-1,
    metavar="CONTENDER... [KEY=VALUE]...",
    shell_complete=recipes_and_settings,
)
@click.option(
    "--seeds",
    type=click.IntRange(1),
    help="Number of seeds per recipe [default: 1, or those of the folder].",
)
@click.option(
    "--output",
    type=click.Path(path_type=Path),
    help="Folder of the comparison, new or to continue [default: comparisons/...].",
)
@click.option(
    "--vary", multiple=True, metavar="KEY=A,B", help="A contender for each value; may be repeated."
)
@click.option(
    "--tune",
    multiple=True,
    metavar="KEY=A,B",
    help="Each recipe continues with the value that is best in a trial; may be repeated.",
)
@click.option(
    "--jobs", type=click.IntRange(1), default=1, show_default=True, help="Number of runs at a time."
)
@click.option(
    "--primary",
    metavar="METRIC",
    help="Metric that is tested first [default: bits_per_byte; f1 for files without likelihood].",
)
@click.option(
    "--looks",
    type=click.IntRange(1),
    help="Number of reports on new seeds that may decide [default: 1].",
)
@click.option(
    "--strict",
    is_flag=True,
    help="Reject contenders that differ in what a fair comparison keeps equal.",
)
@click.option(
    "--system",
    "systems",
    multiple=True,
    metavar="NAME:COMMAND",
    help=(
        "A program that answers the contexts of the test set; also hf:MODEL or openai:URL#MODEL."
        " May be repeated."
    ),
)
@click.option(
    "--timeout",
    type=click.FloatRange(0, min_open=True),
    default=300.0,
    show_default=True,
    help="Seconds for a response of a program.",
)
@click.option(
    "--references",
    metavar="FILE,...",
    help=(
        "Test set of systems without a recipe: a file of dialog contexts, or texts (.txt) with one"
        " reference per line, one file for each reference."
    ),
)
@click.option(
    "--metrics",
    multiple=True,
    metavar="NAME,...",
    help=(
        "Further metrics of files of responses: names, or components as in a recipe. May be"
        " repeated."
    ),
)
@trust_option
@click.option(
    "--ratings",
    multiple=True,
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Add the ratings of a study: files of its pages, or CSV. Several may follow.",
)
@click.option(
    "--study",
    type=click.Path(path_type=Path),
    metavar="OUT",
    help="Write pairs of responses for people, as pages and CSV, into a new folder.",
)
@click.option(
    "--raters",
    type=click.IntRange(1),
    default=5,
    show_default=True,
    help="Number of raters of --study.",
)
@click.option(
    "--turns",
    type=click.IntRange(1),
    help="Whole dialogues of N turns in --study: each contender talks with itself.",
)
@click.option(
    "--judge",
    metavar="COMMAND",
    help=(
        "A program that chooses between responses of two contenders; also openai:URL#MODEL. With"
        " --timeout."
    ),
)
@click.option(
    "--items",
    type=click.IntRange(1),
    help=("Pairs of responses of each two contenders [default: 200 for --judge, 50 for --study]."),
)
@click.option(
    "--paper",
    type=click.Path(path_type=Path),
    metavar="OUT",
    help="Write the parts of a paper to a new folder: LaTeX, figures as PDF, data, BibTeX.",
)
@click.option("--json", "as_json", is_flag=True, help="Print results.json instead of the table.")
@click.option(
    "--job", is_flag=True, hidden=True, help="Train and evaluate only, as one process of --jobs."
)
@click.option(
    "--named", hidden=True, multiple=True, help="With --job: a run folder that it may write to."
)
def compare(
    contenders: tuple[str, ...],
    seeds: int | None,
    output: Path | None,
    vary: tuple[str, ...],
    tune: tuple[str, ...],
    jobs: int,
    primary: str | None,
    looks: int | None,
    strict: bool,
    systems: tuple[str, ...],
    timeout: float,
    references: str | None,
    metrics: tuple[str, ...],
    trust: Trust,
    ratings: tuple[Path, ...],
    study: Path | None,
    raters: int,
    turns: int | None,
    judge: str | None,
    items: int | None,
    paper: Path | None,
    as_json: bool,
    job: bool,
    named: tuple[str, ...],
) -> None:
    """Train and evaluate CONTENDERS, and write a report with a verdict; finished runs are not
    trained again.

    A CONTENDER is a recipe, a run folder or NAME=FILE,FILE: responses of another system (.jsonl or
    .txt), one file for each of its seeds; a single file needs no NAME. A run folder is evaluated
    with the settings that it was trained with; several runs of one recipe count as its seeds.
    KEY=VALUE, --vary and --tune apply to recipes only. --tune trains each combination of its values
    once per recipe with the first seed, and chooses the one with the lowest validation loss.

    One argument may be the folder of an earlier comparison, to continue it or to add contenders or
    seeds. To continue after an interruption, give this folder, or repeat a command with --output.
    Several processes may run the same command with --output; they divide the work.

    \b
    Example: python -m dialog compare quickstart/lstm_bahdanau quickstart/transformer --seeds 3
    Continue:          python -m dialog compare DIR
    More seeds:        python -m dialog compare DIR --seeds 8
    A new contender:   python -m dialog compare DIR quickstart/transformer
    Variants:          python -m dialog compare quickstart/lstm_bahdanau
                         --vary model.decoder.attention=additive,dot,none
    Equal tuning:      python -m dialog compare quickstart/lstm_bahdanau quickstart/transformer
                         --tune optimizer.lr=3e-4,1e-3,3e-3 --seeds 3
    Other systems:     python -m dialog compare runs/mine/20260101-120000-abcd
                         theirs=a1.jsonl,a2.jsonl,a3.jsonl
    Programs:          python -m dialog compare DIR --system 'mine: python mine.py'
    A judge:           python -m dialog compare DIR --judge 'python judge.py'
    A study:           python -m dialog compare DIR --study OUT
    Its ratings:       python -m dialog compare DIR --ratings ann.jsonl bob.jsonl
    A paper:           python -m dialog compare DIR --paper OUT

    Exit codes: 0 for a complete comparison, 2 for errors that you can fix, 1 if a run failed, 130
    and 143 after SIGINT and SIGTERM.
    """  # noqa: D301 - click marks unwrapped text with a backspace
    from dialog.comparison.grid.contenders import split_arguments

    names, overrides = split_arguments(contenders)
    if not (contenders or systems):
        raise UserError("compare needs contenders; see compare --help")
    check_only_with("--judge or --study", judge or study, "items")
    check_only_with("--study", study, "raters", "turns")
    if ratings:
        check_finished_only("ratings", contenders[:1])
        from dialog.comparison.preference.ratings import add_ratings

        files = [*ratings, *map(Path, contenders[1:])]
        show_preferences(add_ratings(Path(contenders[0]), files), as_json=as_json)
        return
    if study:
        check_finished_only("study", contenders)
        from dialog.comparison.preference.study import write_study

        written = write_study(
            *(Path(contenders[0]), study),
            raters=raters,
            items=items,
            turns=turns or 0,
            trust=trust,
        )
        click.echo(written)
        return
    if paper:
        check_finished_only("paper", contenders)
        from dialog.paper.folder import write_paper

        write_paper(Path(contenders[0]), paper)
        click.echo(to_json({"paper": str(paper)}) if as_json else paper / "paper.tex")
        return
    if judge and is_finished(contenders):
        from dialog.comparison.preference.judge import judge as ask

        judged = ask(Path(contenders[0]), judge, items=items, seconds=timeout)
        show_preferences(judged, as_json=as_json)
        return
    from dialog.comparison.grid.plan import Request, prepare_grid

    request = Request(
        *(names, overrides, vary, seeds, output, jobs, trust, strict, job, named, tune),
        references=[Path(file) for file in references.split(",")] if references else (),
        systems=systems,
        timeout=timeout,
        primary=primary,
        looks=looks,
        metrics=metrics,
    )
    grid = prepare_grid(request)
    if grid.overrides and output is not None and not (overrides or job):
        log.info("%s: continued with its settings, %s", grid.folder, shlex.join(grid.overrides))
    from dialog.comparison.compare import compare as run
    from dialog.report.verdict import terminal_table

    results = run(grid, request)
    if results is None:
        return
    if judge:
        from dialog.comparison.preference.judge import judge as ask

        results = ask(grid.folder, judge, items=items, seconds=timeout)
    click.echo(
        to_json(results) if as_json else terminal_table(results, get_terminal_size().columns)
    )
    click.echo(f"report: {grid.folder / 'report.html'}", err=as_json)


OF_FINISHED = {
    "judge": ("items", "timeout"),
    "study": ("raters", "items", "turns", "trust"),
    "ratings": (),
    "paper": (),
}
"""Parameters that belong to an option for a finished comparison."""


def is_finished(contenders: tuple[str, ...]) -> bool:
    """Return whether the command names a finished comparison and nothing to add."""
    is_folder = len(contenders) == 1 and (Path(contenders[0]) / "results.json").is_file()
    return is_folder and not other_options("judge")


def other_options(option: str) -> list[str]:
    """Return the parameters on the command line that do not belong to an option for a finished
    comparison.
    """
    own = ("contenders", option, "as_json", *OF_FINISHED[option])
    return [
        name for name in click.get_current_context().params if name not in own and is_given(name)
    ]


def check_finished_only(option: str, contenders: Sequence[str]) -> None:
    """Check that an option has a comparison folder, and no other contender or option.

    Raises:
        UserError: anything else is given.
    """
    if len(contenders) != 1 or other_options(option):
        raise UserError(
            f"--{option}: needs a finished comparison folder and no other contender or option"
        )


def show_preferences(results: Results, *, as_json: bool) -> None:
    """Print the preferences of people and judges."""
    from dialog.report.verdict import preference_tables

    sections = {"ratings": results.ratings, "judges": results.judges}
    width = get_terminal_size().columns
    click.echo(to_json(sections) if as_json else preference_tables(results, width))
