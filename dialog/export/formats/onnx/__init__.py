"""ONNX: the encoder and one decoder step of any network, as two files for ONNX Runtime.

Read first: `networks.py`.

    encoder.onnx  source [B, S], mask [B, S] -> tensors of memory and first state
    step.onnx     tokens [B, T], tensors of memory and state -> logits [B, T, V], new state, maps
    onnx.json     the names of these tensors in order, special tokens, whether T may be more than 1

The sizes B, S and the number of earlier tokens are free. T is free too, unless the decoder loops
over its tokens.
"""

from __future__ import annotations

from pathlib import Path
from string import Template

from dialog.data.tokenizers.tokenizer import BOS, EOS
from dialog.export.format import Exported, Format, lacking_limits, lacking_search, search_and_limits
from dialog.export.formats.onnx.engine import OnnxModel
from dialog.export.formats.onnx.networks import MAP, NEXT
from dialog.export.formats.onnx.writing import write_networks
from dialog.generation.build import BANNED_TOKENS
from dialog.models.seq2seq import Seq2Seq
from dialog.runs.run import Run

LIMITS = ("min_length", "max_length")
"""Constraints of the search on the card."""
PROGRAM = Template("""\
import numpy
import onnxruntime

encoder, step = (
    onnxruntime.InferenceSession(f"{part}.onnx", providers=["CPUExecutionProvider"])
    for part in ("encoder", "step")
)
names = [[output.name for output in part.get_outputs()] for part in (encoder, step)]
inputs = {"source": numpy.array([source]), "mask": numpy.ones((1, len(source)), bool)}
tensors = dict(zip(names[0], encoder.run(None, inputs)))  # of memory and state
response, token = [], $begin
$lacking
while len(response) < $longest:
    result = dict(zip(names[1], step.run(None, {"tokens": numpy.array([[token]]), **tensors})))
    tensors = {name: result.get("$next" + name, tensor) for name, tensor in tensors.items()}
$attention
    scores = result["logits"][0, -1]
    scores[$banned] = -numpy.inf  # special tokens are not emitted
$shortest
    token = int(scores.argmax())
    if token == $end:
        break
    response.append(token)
""")
"""Greedy search of the card."""


class Onnx(Format):
    """Two ONNX files; the search is the caller's loop over steps."""

    engine = "ONNX Runtime"
    package = "onnxruntime"

    def check(self, model: Seq2Seq) -> None:
        """Accept any network; `write` reports an imported part that torch.onnx cannot translate."""

    def write(self, run: Run, folder: Path) -> None:
        """Write both files and their description.

        Raises:
            UserError: an imported part of the network cannot be translated.
        """
        write_networks(run.model, folder)

    def load(self, folder: Path) -> Exported:
        """Open both files on one thread of a CPU."""
        return OnnxModel(folder)

    def usage(self, run: Run) -> str:
        """Return a greedy search between the recipe's lengths, with numpy and onnxruntime; comments
        name what the recipe has besides.
        """
        search, limits = search_and_limits(run.recipe.generation)
        attention = ""
        if (pointer := run.model.decoder.pointer) is not None:
            names = {module: name for name, module in run.model.named_modules()}
            attention = (
                f'    attention = result["{MAP}{names[pointer]}"]'
                "  # weights [1, heads, 1, source tokens]"
            )
        shortest = ""
        if limits["min_length"]:
            shortest = (
                f"    if len(response) < {limits['min_length']}:\n"
                f"        scores[{EOS}] = -numpy.inf"
            )
        lacking = [*lacking_search(search), *lacking_limits(limits, LIMITS)]
        return PROGRAM.substitute(
            begin=BOS,
            end=EOS,
            next=NEXT,
            banned=[*BANNED_TOKENS],
            lacking="\n".join(f"# unlike the run: {text}" for text in lacking),
            attention=attention,
            shortest=shortest,
            longest=limits["max_length"],
        )
