"""``dialog show``."""

from __future__ import annotations

import json
from collections.abc import Iterator

import click

from dialog.cli.completion import recipes, settings
from dialog.cli.options import trust_option
from dialog.config.compose import Composed, compose
from dialog.config.schema import Recipe, to_dict
from dialog.config.trust import Trust
from dialog.config.yaml_layers import leaves
from dialog.errors import UserError
from dialog.escaping import one_line


@click.command()
@click.argument("recipe", shell_complete=recipes)
@click.argument("overrides", nargs=-1, metavar="[KEY=VALUE]...", shell_complete=settings)
@click.option(
    "--examples",
    type=click.IntRange(1),
    metavar="N",
    help="Print N training examples as the model sees them.",
)
@click.option(
    "--model",
    "model",
    is_flag=True,
    help="Print the modules with their parameters and FLOPs per token.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the composed recipe as JSON.")
@trust_option
def show(
    recipe: str,
    overrides: tuple[str, ...],
    examples: int | None,
    model: bool,
    as_json: bool,
    trust: Trust,
) -> None:
    """Print a composed RECIPE, with the file and line that each value comes from.

    Example: python -m dialog show quickstart/transformer model.dropout=0.2 --model
    """
    if as_json and (model or examples):
        raise UserError("--json: not with --model or --examples")
    composed = compose(recipe, overrides, trust=trust)
    if as_json:
        click.echo(json.dumps(to_dict(composed.recipe), indent=1))
    elif not examples and not model:
        click.echo("\n".join(values(composed)))
    if model:
        click.echo("\n".join(modules(composed.recipe)))
    if examples:
        click.echo("\n".join(first_examples(composed.recipe, examples)))


def values(composed: Composed) -> Iterator[str]:
    """Yield a line for each value: the value, and its file and line, "command line" or
    "default".
    """
    lines = [
        (f"{key}: {json.dumps(value, ensure_ascii=False)}", composed.origin.get(key, "default"))
        for key, value in leaves(to_dict(composed.recipe))
    ]
    width = min(60, max(len(line) for line, _ in lines))
    return (f"{one_line(line):<{width}}  # {one_line(place)}" for line, place in lines)


def modules(recipe: Recipe) -> Iterator[str]:
    """Yield the lines of the module tree with parameters, and the FLOPs per target token."""
    import torch

    from dialog.analysis.flops import forward_flops
    from dialog.build import build_model
    from dialog.errors import section
    from dialog.models.seq2seq import count_parameters

    vocabulary, origin = vocabulary_size(recipe)
    with section("model"), torch.random.fork_rng():
        network = build_model(recipe.model, vocabulary).eval()
    for name, module in network.named_modules():
        size = sum(parameter.numel() for parameter in module.parameters())
        depth = name.count(".") + 1 if name else 0
        label = f"{'  ' * depth}{name.rpartition('.')[2] or 'model'} ({type(module).__name__})"
        if size:
            yield f"{label:<56}{size:>12,}"
    sizes = count_parameters(network)
    yield f"vocabulary: {vocabulary:,} tokens ({origin})"
    yield (
        f"parameters: {sizes['total']:,} in all, {sizes['rest']:,} without embeddings and output"
        " layer"
    )
    source = recipe.data.max_source
    target = recipe.data.max_target
    flops = forward_flops(network, source, target) // target
    yield (
        f"forward: {flops:,} FLOPs per target token ({target} target and {source} source tokens,"
        " encoder included)"
    )


def vocabulary_size(recipe: Recipe) -> tuple[int, str]:
    """Return the size of the vocabulary and its origin: the corpus, or without it the recipe."""
    from dialog.data.store.store import Store
    from dialog.runs.check import check_data
    from dialog.runs.prepare import prepare_data

    check_data(recipe)
    try:
        return len(Store(prepare_data(recipe), "train").tokenizer), "trained on the corpus"
    except UserError as error:
        stated = recipe.data.tokenizer.get("vocabulary")
        if stated is None:
            raise
        return int(stated), f"from the recipe; {error}"


def first_examples(recipe: Recipe, count: int) -> Iterator[str]:
    """Yield the source and the target tokens of the first training examples."""
    from dialog.data.store.store import Store
    from dialog.runs.check import check_data
    from dialog.runs.prepare import prepare_data

    check_data(recipe)
    store = Store(prepare_data(recipe), "train")
    for row in range(min(count, len(store))):
        for side, tokens in (("source", store.source(row)), ("target", store.target(row))):
            yield f"{row} {side}: " + one_line(
                " ".join(store.tokenizer.label(int(token)) for token in tokens)
            )
