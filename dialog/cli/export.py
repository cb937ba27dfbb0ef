"""``dialog export``."""

from __future__ import annotations

from pathlib import Path

import click

from dialog.cli.completion import settings
from dialog.cli.options import trust_option
from dialog.config.trust import Trust
from dialog.export.formats import FORMATS
from dialog.paths import check_new


@click.command()
@click.argument("run", type=click.Path(path_type=Path))
@click.argument("overrides", nargs=-1, metavar="[KEY=VALUE]...", shell_complete=settings)
@click.option(
    "--format", "name", required=True, type=click.Choice([*FORMATS]), help="Format of the engine."
)
@click.option("--output", required=True, type=click.Path(path_type=Path), help="New folder.")
@click.option(
    "--with-code",
    is_flag=True,
    help="With huggingface: add the code that transformers lacks for this model.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the parity report as JSON.")
@trust_option
def export(
    run: Path,
    overrides: tuple[str, ...],
    name: str,
    output: Path,
    with_code: bool,
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

    The new folder also has the tokenizer, a card README.md with code that generates a response, and
    parity.json: how far log-probabilities of random targets and greedy responses differ from the
    run's. An export that differs by more than rounding is not kept. generation=CHOICE selects the
    search of the card's program and of generation_config.json. Each format needs the extra of its
    packages.

    Example: dialog-seq2seq export runs/quickstart/transformer/... --format ctranslate2 --output
        exported
    """  # noqa: D301 - click reads the character \b
    check_new(output)
    from dialog.export.export import PARITY, find_format
    from dialog.export.export import export as export_run
    from dialog.runs.load import load

    find_format(name, with_code=with_code)  # before the weights are read
    loaded = load(run, overrides=overrides, device="cpu", trust=trust)
    parity = export_run(loaded, name, output, with_code=with_code)
    click.echo(f"parity: {parity}", err=True)
    click.echo((output / PARITY).read_text(encoding="utf-8").rstrip() if as_json else output)
