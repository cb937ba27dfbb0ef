"""``dialog tune-generation``."""

from __future__ import annotations

from pathlib import Path

import click

from dialog.cli.completion import runs_and_settings
from dialog.cli.options import ensemble_option, trust_option, writable
from dialog.config.compose import split_overrides
from dialog.config.trust import Trust
from dialog.errors import UserError
from dialog.escaping import to_json


@click.command("tune-generation")
@click.argument(
    "runs",
    nargs=-1,
    required=True,
    metavar="RUN [RUN] [KEY=VALUE]...",
    shell_complete=runs_and_settings,
)
@click.option(
    "--settings",
    metavar="NAME|FILE",
    help=(
        "Settings to measure: a shipped list or a YAML file [default: standard; with --vary the"
        " recipe's own]."
    ),
)
@click.option(
    "--vary",
    multiple=True,
    metavar="KEY=A,B",
    help="Measure every value of a key; may be repeated.",
)
@click.option(
    "--examples",
    type=click.IntRange(2),
    default=500,
    show_default=True,
    help="Number of validation examples.",
)
@click.option(
    "--rule", "rule_text", metavar="RULE", help="Rule that selects a setting (see above)."
)
@click.option(
    "--output",
    type=click.Path(path_type=Path),
    metavar="FOLDER",
    help="Folder of page and plots [default: RUN/generation].",
)
@ensemble_option
@trust_option
@click.option("--json", "as_json", is_flag=True, help="Print results.json instead of the tables.")
def tune_generation(
    runs: tuple[str, ...],
    settings: str | None,
    vary: tuple[str, ...],
    examples: int,
    rule_text: str | None,
    output: Path | None,
    ensemble: tuple[Path, ...],
    trust: Trust,
    as_json: bool,
) -> None:
    """Measure searches of a RUN, or of two, on the validation split; plot quality against
    diversity, select one.

    Every setting generates responses to the same examples. The selected setting is written to
    configs/generation/tuned.yaml in the run folder: use it with generation=tuned in any command, or
    with generation=FILE for another run. With --ensemble the file is tuned_ensemble.yaml. To
    continue after an interruption, repeat the command; finished settings are kept.

    RULE is "METRIC if CONDITION and ...": it selects the setting with the best METRIC among those
    that meet all conditions. A CONDITION is METRIC >= NUMBER or METRIC <= NUMBER; with " human"
    after it, the number is a multiple of the value of the references. The default is "f1 if
    rarefied_distinct_2 >= 0.5 human and length_mean >= 0.5 human". Metrics: f1, sacrebleu, bleu_2,
    distinct_1, distinct_2, rarefied_distinct_2, entropy_1, entropy_2, unique_ratio, repetition_3,
    length_mean.

    \b
    Example: python -m dialog tune-generation runs/quickstart/transformer/...
    Two runs in one plot: python -m dialog tune-generation RUN RUN2 --examples 1000
    A grid: python -m dialog tune-generation RUN --vary generation=beam5,top_p --vary
        generation.no_repeat_ngram=0,3
    """  # noqa: D301 - click reads the character \b
    folders, overrides = split_overrides(runs)
    if not 1 <= len(folders) <= 2:
        raise UserError(f"{len(folders)} runs; give one or two run folders")
    if ensemble and len(folders) > 1:
        raise UserError("--ensemble: only with one run")
    if len({Path(folder).resolve() for folder in folders}) < len(folders):
        raise UserError(f"{folders[0]}: listed twice")
    from dialog.runs.load import load
    from dialog.tuning.generation.decoding_setting import read_settings
    from dialog.tuning.generation.page import table_lines, write_pages
    from dialog.tuning.generation.rule import DEFAULT, parse_rule
    from dialog.tuning.generation.sample import NAMES, draw_sample
    from dialog.tuning.generation.tune import TuningTask, tune_generation
    from dialog.tuning.space import sweep_file

    rule = parse_rule(rule_text or DEFAULT, NAMES)
    chosen = settings or (None if vary else "standard")
    path = None if chosen is None else sweep_file("generation", chosen, option="--settings")
    loaded = [load([folder, *ensemble], overrides=overrides, trust=trust) for folder in folders]
    read = [read_settings(run, path, overrides, vary, trust=trust) for run in loaded]
    tasks = [
        TuningTask(run, own, draw_sample(run, examples))
        for run, own in zip(loaded, read, strict=True)
    ]
    folder = output or Path(folders[0]) / "generation"
    with writable(folder, "--output"):
        folder.mkdir(parents=True, exist_ok=True)
    results = tune_generation(tasks, rule)
    write_pages(results, tasks[0].sample, folder)
    click.echo(to_json(results, indent=1) if as_json else "\n".join(table_lines(results)))
    click.echo(f"page and plots in {folder}", err=True)
