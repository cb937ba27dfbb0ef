"""``dialog attention RUN --statistics`` and ``--importance``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dialog.atomic import replacing, write_json, write_text
from dialog.cli.output_file import check_new_file
from dialog.errors import UserError
from dialog.escaping import to_json
from dialog.paths import display_name

if TYPE_CHECKING:
    from PIL import Image

    from dialog.runs.run import Run


FORMATS = (".html", ".png", ".svg", ".json")


def check_measurement(
    folders: Sequence[str],
    output: Path | None,
    options: Sequence[str],
    *,
    statistics: bool,
    importance: bool,
) -> None:
    """Check what does not need a run; ``options`` are those of a drawing.

    Raises:
        UserError: an argument does not fit the measurement.
    """
    verb = "--statistics" if statistics else "--importance"
    if statistics and importance:
        raise UserError("--statistics and --importance: give one of them")
    if len(folders) != 1:
        raise UserError(f"{len(folders)} runs; {verb} measures one run folder")
    if options:
        raise UserError(f"{', '.join(options)}: {verb} measures a whole split; leave it out")
    formats = FORMATS if statistics else (".html", ".svg", ".json")
    if output is not None and output.suffix not in formats:
        raise UserError(f"--output {output}: choose a name that ends in {', '.join(formats)}")
    if output is not None:
        check_new_file(output, "--output")


def show_statistics(
    run: Run, split: str, sample: int | None, *, output: Path | None, as_json: bool
) -> None:
    """Measure the attention of a run over a split; print the table or JSON, and write a picture, a
    page or JSON.
    """
    statistics = run.attention_statistics(split, sample=sample)
    from dialog.report.drawing.attention.statistics import (
        statistics_image,
        statistics_lines,
        statistics_page,
        statistics_svg,
    )

    write_output(
        output,
        statistics,
        svg=lambda: statistics_svg(statistics),
        html=lambda: statistics_page(statistics, title=display_name(run.folder)),
        png=lambda: statistics_image(statistics),
    )
    show(statistics, statistics_lines(statistics), as_json=as_json)


def show_importance(
    run: Run, split: str, sample: int | None, *, output: Path | None, as_json: bool
) -> None:
    """Measure the importance of heads and remove them one after another; print and write as
    `show_statistics`.
    """
    ablation = run.head_ablation(split, sample=sample)
    from dialog.report.drawing.attention.ablation import (
        ablation_lines,
        ablation_page,
        ablation_svg,
    )

    write_output(
        output,
        ablation,
        svg=lambda: ablation_svg(ablation, title=display_name(run.folder)),
        html=lambda: ablation_page(ablation, title=display_name(run.folder)),
    )
    show(ablation, ablation_lines(ablation), as_json=as_json)


def show(measured: Mapping[str, Any], lines: Iterable[str], *, as_json: bool) -> None:
    """Print lines, or JSON."""
    if as_json:
        click.echo(to_json(measured, indent=1))
        return
    for line in lines:
        click.echo(line)


def write_output(
    output: Path | None,
    measured: Mapping[str, Any],
    *,
    svg: Callable[[], str],
    html: Callable[[], str],
    png: Callable[[], Image.Image] | None = None,
) -> None:
    """Write the file of --output, in the format of its name."""
    from dialog.report.drawing.canvas import write_svg

    if output is None:
        return
    if output.suffix == ".json":
        write_json(output, measured)
    elif output.suffix == ".svg":
        write_svg(output, svg())
    elif output.suffix == ".png" and png is not None:
        with replacing(output) as file:
            png().save(file, format="PNG")
    else:
        write_text(output, html())
