"""``dialog attention``."""

from __future__ import annotations

from pathlib import Path

import click

from dialog.atomic import replacing, write_json, write_text
from dialog.errors import UserError
from dialog.paths import check_new

FORMATS = (".html", ".png", ".svg", ".json")


@click.command()
@click.argument("run", type=click.Path(path_type=Path))
@click.argument("overrides", nargs=-1, metavar="[KEY=VALUE]...")
@click.option("--context", multiple=True, help="A turn of the context; repeat it for several, the last one last.")
@click.option("--response", help="The response to draw; generated if not given.")
@click.option("--output", required=True, type=click.Path(path_type=Path), help="New file: .html, .png, .svg or .json.")
@click.option("--trust", is_flag=True, help="Allow the run's recipe to import code.")
def attention(
    run: Path, overrides: tuple[str, ...], context: tuple[str, ...], response: str | None, output: Path, trust: bool
) -> None:
    """Write the attention maps of a RUN for a response to a context.

    .html has every layer and head, .svg the mean over heads of the last cross-attention, .png its heads, .json all
    weights with their tokens. A generated response is that of the recipe's search; generation=CHOICE selects another.

    Example: dialog-seq2seq attention runs/quickstart/transformer/... --context "How are you ?" --output map.html
    """
    if output.suffix not in FORMATS:
        raise UserError(f"--output {output}: choose a name that ends in {', '.join(FORMATS)}")
    check_new(output)
    from dialog.runs.load import load

    loaded = load(run, overrides=overrides, trust=trust)
    text = loaded.respond(context).text if response is None else response
    maps = loaded.attention(context, text)
    if not any(one["kind"] == "cross" for one in maps["maps"]) and output.suffix != ".json":
        raise UserError(f"{run}: the decoder has no attention over the context; there is nothing to draw")
    if output.suffix == ".json":
        write_json(output, maps)
        return
    from dialog.report.drawing.attention_page import attention_image, attention_page, attention_svg

    if output.suffix == ".png":
        with replacing(output) as file:
            attention_image(maps).save(file, format="PNG")
    elif output.suffix == ".svg":
        write_text(output, attention_svg(maps))
    else:
        write_text(output, attention_page(maps, title=loaded.name, context=context, response=text))
