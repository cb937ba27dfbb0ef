"""``dialog evaluate``."""

from __future__ import annotations

from pathlib import Path

import click

from dialog.cli.completion import settings
from dialog.cli.options import ablate_option, ensemble_option, precision_option, trust_option
from dialog.config.trust import Trust
from dialog.data.dialogue import SPLITS
from dialog.escaping import to_json


@click.command()
@click.argument("run", type=click.Path(path_type=Path))
@click.argument("overrides", nargs=-1, metavar="[KEY=VALUE]...", shell_complete=settings)
@click.option(
    "--split",
    type=click.Choice(SPLITS),
    default="test",
    show_default=True,
    help="Split to evaluate.",
)
@click.option(
    "--name",
    help=(
        "Write to evaluation/SPLIT-NAME [default: SPLIT, or SPLIT-HASH with other settings or"
        " data]."
    ),
)
@ensemble_option
@precision_option
@ablate_option
@trust_option
@click.option("--json", "as_json", is_flag=True, help="Print the metrics as JSON.")
def evaluate(
    run: Path,
    overrides: tuple[str, ...],
    split: str,
    name: str | None,
    ensemble: tuple[Path, ...],
    precision: str,
    ablate: tuple[str, ...],
    trust: Trust,
    as_json: bool,
) -> None:
    """Evaluate a RUN on one split; writes metrics.json and responses.jsonl to its evaluation
    folder.

    Results with other settings or data than those of the RUN's recipe, or another --precision, are
    written to a separate folder. Likelihoods are in float32 in any precision. Started by torchrun
    or srun, the processes divide the examples.

    Example: python -m dialog evaluate runs/quickstart/transformer/20260101-120000-abcd --split
        validation
    """
    from dialog.report.terminal import evaluation_lines
    from dialog.runs.evaluation.evaluate import evaluate as evaluate_run
    from dialog.runs.load import load
    from dialog.training.distributed.cluster import process_group

    with process_group():
        together = load([run, *ensemble], overrides=overrides, trust=trust, ablate=ablate)
        folder, metrics = evaluate_run(together, split, name=name, precision=precision)
    click.echo(f"results in {folder}", err=True)
    if as_json:
        click.echo(to_json(metrics, indent=1))
        return
    for line in evaluation_lines(metrics):
        click.echo(line)
