"""``dialog evaluate``."""

from __future__ import annotations

from pathlib import Path

import click

from dialog.data.dialogue import SPLITS
from dialog.escaping import to_json


@click.command()
@click.argument("run", type=click.Path(path_type=Path))
@click.argument("overrides", nargs=-1, metavar="[KEY=VALUE]...")
@click.option("--split", type=click.Choice(SPLITS), default="test", show_default=True)
@click.option("--trust", is_flag=True, help="Let the run's recipe import code.")
@click.option("--json", "as_json", is_flag=True, help="The metrics as JSON.")
def evaluate(run: Path, overrides: tuple[str, ...], split: str, trust: bool, as_json: bool) -> None:
    """Score a RUN on a split: metrics.json and responses.jsonl in its evaluation folder.

    Processes that torchrun or srun has started share the examples.

    Example: dialog-seq2seq evaluate runs/quickstart/transformer/20260101-120000-abcd --split validation
    """
    from dialog.report.measures import metric_display, sort_metrics
    from dialog.runs.evaluate import evaluate as evaluate_run
    from dialog.runs.load import load
    from dialog.training.distributed.cluster import joined

    with joined():
        metrics = evaluate_run(load(run, overrides=overrides, trust=trust), split)
    if as_json:
        click.echo(to_json(metrics, indent=1))
        return
    numbers = {
        name: float(value["score"] if isinstance(value, dict) else value)
        for name, value in metrics.items()
        if isinstance(value, int | float) or (isinstance(value, dict) and "score" in value)
    }
    for name in sort_metrics(set(numbers)):
        display = metric_display(name)
        click.echo(f"{display.label:<28}{display.format(numbers[name]):>14}")
