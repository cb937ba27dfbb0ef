"""Code of the card: a greedy search over the exported files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from dialog.config.components import Component
from dialog.config.schema import GenerationConfig
from dialog.data.tokenizers.tokenizer import BOS, EOS
from dialog.export.formats.onnx.networks import MAP, NEXT
from dialog.export.model_settings import search_and_limits
from dialog.generation.build import BANNED_TOKENS
from dialog.runs.run import Run

LENGTHS = ("min_length", "max_length")


def greedy_code(run: Run) -> str:
    """Return the code that computes `response` from `source`: greedy search between the recipe's
    lengths.

    A comment names what the recipe has besides.
    """
    search, limits = search_and_limits(run.recipe.generation)
    names = {module: name for name, module in run.model.named_modules()}
    pointer = run.model.decoder.pointer
    earliest = limits["min_length"]
    no_early_end = (
        [f"    if len(response) < {earliest}:", f"        scores[{EOS}] = -numpy.inf"]
        if earliest
        else []
    )
    lines = [
        "import numpy",
        "import onnxruntime",
        "",
        "encoder, step = (",
        '    onnxruntime.InferenceSession(f"{part}.onnx", providers=["CPUExecutionProvider"])',
        '    for part in ("encoder", "step")',
        ")",
        "names = [[output.name for output in part.get_outputs()] for part in (encoder, step)]",
        'inputs = {"source": numpy.array([source]), "mask": numpy.ones((1, len(source)), bool)}',
        "tensors = dict(zip(names[0], encoder.run(None, inputs)))  # of memory and state",
        f"response, token = [], {BOS}",
        *(f"# unlike the run: {text}" for text in lacking(search, limits)),
        f"while len(response) < {limits['max_length']}:",
        (
            '    result = dict(zip(names[1], step.run(None, {"tokens": numpy.array([[token]]),'
            " **tensors})))"
        ),
        (
            f'    tensors = {{name: result.get("{NEXT}" + name, tensor) for name, tensor in'
            " tensors.items()}"
        ),
    ]
    if pointer is not None:
        lines.append(
            f'    attention = result["{MAP}{names[pointer]}"]  # weights [1, heads, 1, source'
            " tokens]"
        )
    lines += [
        '    scores = result["logits"][0, -1]',
        f"    scores[{[*BANNED_TOKENS]}] = -numpy.inf  # special tokens are not emitted",
        *no_early_end,
        "    token = int(scores.argmax())",
        f"    if token == {EOS}:",
        "        break",
        "    response.append(token)",
    ]
    return "\n".join(lines) + "\n"


def lacking(search: Component, limits: Mapping[str, Any]) -> list[str]:
    """Return the search and the constraints of a recipe that the code lacks."""
    nothing = asdict(GenerationConfig())
    other = (
        []
        if search["name"] == "greedy"
        else [f"generation.search {search['name']}, here greedy search"]
    )
    return other + [
        f"generation.{key}"
        for key, value in limits.items()
        if key not in LENGTHS and value != nothing[key]
    ]
