"""``dialog export``."""

from __future__ import annotations

import json
from pathlib import Path

import click

from dialog.cli.completion import runs_and_settings
from dialog.cli.options import check_only_with, trust_option
from dialog.config.compose import split_overrides
from dialog.config.trust import Trust
from dialog.errors import UserError
from dialog.export.formats import FORMATS
from dialog.paths import check_new

WEB = "web"
"""The format of a page, which may have two runs and be one file."""


@click.command()
@click.argument(
    "runs",
    nargs=-1,
    required=True,
    metavar="RUN [RUN] [KEY=VALUE]...",
    shell_complete=runs_and_settings,
)
@click.option(
    "--format",
    "name",
    required=True,
    type=click.Choice([*FORMATS, WEB]),
    help="Format of the engine.",
)
@click.option(
    "--output", required=True, type=click.Path(path_type=Path), help="New folder, or page."
)
@click.option(
    "--with-code",
    is_flag=True,
    help="With huggingface: add the code that transformers lacks for this model.",
)
@click.option("--single-file", is_flag=True, help="With web: write one HTML file.")
@click.option(
    "--weights",
    type=click.Choice(["float16", "int8", "float32"]),
    default="float16",
    show_default=True,
    help="With web: numbers that are stored; the page computes in float32.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the parity report as JSON.")
@trust_option
def export(
    runs: tuple[str, ...],
    name: str,
    output: Path,
    with_code: bool,
    single_file: bool,
    weights: str,
    as_json: bool,
    trust: Trust,
) -> None:
    """Export a RUN for another engine, and check that the engine computes what the run does.

    \b
    huggingface  model.safetensors and config.json for the package transformers, which opens
                 it with a class of its own
                 if it has one for this model, else with a class of dialog or, with --with-code, of
                 the folder
    ctranslate2  Transformers, for fast generation on CPUs and GPUs
    onnx         any network: encoder.onnx and step.onnx, with the attention maps
    web          a page in which one or two runs answer, without a server: a folder or one file

    The new folder also has the tokenizer, a card README.md with code that generates a response, and
    parity.json: how far log-probabilities of random targets and greedy responses differ from the
    run's. An export that differs by more than rounding is not kept. generation=CHOICE selects the
    search of the card's program, of generation_config.json and of the page. Each format needs the
    extra of its packages; web needs onnx, and downloads onnxruntime-web once.

    Example: python -m dialog export runs/quickstart/transformer/... --format ctranslate2 --output
        exported
    """  # noqa: D301 - click reads the character \b
    check_new(output)
    check_only_with(f"--format {WEB}", name == WEB, "single_file", "weights")
    folders, overrides = split_overrides(runs)
    if len(folders) != 1 and name != WEB:
        raise UserError(f"--format {name}: {len(folders)} runs; give one, or --format {WEB}")
    from dialog.export.export import PARITY, find_format
    from dialog.export.export import export as export_run
    from dialog.export.web.page import export_page, report
    from dialog.runs.load import load

    if name != WEB:
        find_format(name, with_code=with_code)  # before the weights are read
    loaded = [load(folder, overrides=overrides, device="cpu", trust=trust) for folder in folders]
    if name == WEB:
        models = export_page(loaded, output, weights=weights, single_file=single_file)
        for model in models:
            click.echo(f"parity: {model.name}: {model.parity}", err=True)
        click.echo(json.dumps(report(models), indent=2) if as_json else output)
        return
    [run] = loaded
    parity = export_run(run, name, output, with_code=with_code)
    click.echo(f"parity: {parity}", err=True)
    click.echo((output / PARITY).read_text(encoding="utf-8").rstrip() if as_json else output)
