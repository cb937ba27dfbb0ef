"""``dialog tune``."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dialog.cli.completion import recipes, settings
from dialog.cli.options import check_new_file, check_only_with
from dialog.config.compose import compose
from dialog.config.trust import FULL_TRUST
from dialog.errors import UserError
from dialog.escaping import to_json

if TYPE_CHECKING:
    from dialog.config.schema import Recipe
    from dialog.training.callbacks.trial import RangeTest


@click.command()
@click.argument("recipe", shell_complete=recipes)
@click.argument("overrides", nargs=-1, metavar="[KEY=VALUE]...", shell_complete=settings)
@click.option(
    "--lr",
    is_flag=True,
    help="Suggest a learning rate by a range test, which raises it at every step.",
)
@click.option(
    "--batch-tokens", is_flag=True, help="Find the largest batch, in tokens, that fits in memory."
)
@click.option(
    "--steps",
    type=click.IntRange(20),
    default=100,
    show_default=True,
    help="Number of learning rates to try.",
)
@click.option("--lowest", type=float, default=1e-6, show_default=True, help="Lowest learning rate.")
@click.option(
    "--highest", type=float, default=1.0, show_default=True, help="Highest learning rate."
)
@click.option(
    "--most",
    type=click.IntRange(1),
    default=131_072,
    show_default=True,
    help="Largest batch to try, in tokens.",
)
@click.option(
    "--output",
    type=click.Path(path_type=Path),
    metavar="FILE.svg",
    help="Plot of the loss over the learning rate.",
)
@click.option("--json", "as_json", is_flag=True, help="Print all measurements as JSON.")
def tune(
    recipe: str,
    overrides: tuple[str, ...],
    lr: bool,
    batch_tokens: bool,
    steps: int,
    lowest: float,
    highest: float,
    most: int,
    output: Path | None,
    as_json: bool,
) -> None:
    """Suggest a learning rate or a batch size for a RECIPE.

    The short training runs are not kept; the only file written is that of --output.

    Example: python -m dialog tune quickstart/transformer --lr --output lr.svg
    """
    composed = compose(recipe, overrides, trust=FULL_TRUST)
    if not lr and not batch_tokens:
        raise UserError("nothing to tune; give --lr, --batch-tokens or both")
    if batch_tokens and composed.recipe.data.batch_examples is not None:
        raise UserError(
            "--batch-tokens: data.batch_examples sets the batches; add data.batch_examples=null"
        )
    check_only_with("--lr", lr, "steps", "lowest", "highest")
    check_only_with("--batch-tokens", batch_tokens, "most")
    if not 0 < lowest < highest:
        raise UserError(f"--lowest {lowest:g} must be above 0 and below --highest {highest:g}")
    if output is not None:
        if not lr or output.suffix != ".svg":
            raise UserError(f"--output {output}: the plot must be an .svg file, and needs --lr")
        check_new_file(output, "--output")
    results: dict[str, Any] = {"recipe": composed.name}
    if lr:
        results["lr"] = _rates(composed.recipe, lowest, highest, steps, output)
    if batch_tokens:
        results["batch_tokens"] = _sizes(composed.recipe, most)
    click.echo(to_json(results) if as_json else "\n".join(_lines(results)))


def _rates(
    recipe: Recipe, lowest: float, highest: float, steps: int, output: Path | None
) -> dict[str, Any]:
    from dialog.report.drawing.canvas import write_svg
    from dialog.tuning.range_test import range_test, steepest

    test = range_test(recipe, lowest=lowest, highest=highest, steps=steps)
    suggestion = steepest(test)
    if output is not None:
        write_svg(output, _plot(test, suggestion))
    return {"suggestion": suggestion, "rates": test.rates, "losses": test.losses}


def _plot(test: RangeTest, suggestion: float | None) -> str:
    from dialog.report.drawing.charts import curves_svg

    points = [(math.log10(rate), loss) for rate, loss in zip(test.rates, test.losses, strict=False)]
    curves = {"loss of a batch, lowest value ringed": points}
    if suggestion is not None:
        at = test.rates.index(suggestion)
        curves[f"suggestion: {suggestion:.2g}"] = points[at : at + 1]
    return curves_svg(curves, x="log10 of the learning rate", y="loss (nats per target token)")


def _sizes(recipe: Recipe, most: int) -> dict[str, Any]:
    from dialog.tuning.range_test import sizes_test

    first = min(1024, most)
    trials = sizes_test(recipe, first=first, most=most)
    if not trials:
        raise UserError(f"a batch of {first} tokens does not fit in memory; choose a smaller model")
    fastest = max(trials, key=lambda trial: trial.target_tokens_per_second)
    return {
        "largest": trials[-1].batch_tokens,
        "fastest": fastest.batch_tokens,
        "tried": [trial._asdict() for trial in trials],
    }


def _lines(results: dict[str, Any]) -> Iterator[str]:
    if rates := results.get("lr"):
        suggestion = rates["suggestion"]
        value = (
            "none: the loss does not fall"
            if suggestion is None
            else f"{suggestion:.2g}, where the loss falls fastest"
        )
        yield f"optimizer.lr: {value} ({len(rates['rates'])} steps from {rates['rates'][0]:.2g})"
    if sizes := results.get("batch_tokens"):
        yield (
            f"data.batch_tokens: {sizes['largest']} is the largest tried that fits,"
            f" {sizes['fastest']} the fastest"
        )
        for trial in sizes["tried"]:
            rate = trial["target_tokens_per_second"]
            memory = trial["peak_memory"] / 2**30
            yield (
                f"{trial['batch_tokens']:>9,} tokens: {rate:>9,.0f} target tokens/s, peak memory"
                f" {memory:.2f} GiB"
            )
