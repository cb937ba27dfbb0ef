"""Code of the card: a greedy search over the exported files."""

from __future__ import annotations

from dialog.data.tokenizers.tokenizer import BOS, EOS
from dialog.export.formats.onnx.networks import MAP, NEXT
from dialog.generation.build import BANNED_TOKENS
from dialog.runs.run import Run


def greedy_code(run: Run) -> str:
    """Return the code that computes `response` from `source` as the run's greedy search without further constraints."""
    generation = run.recipe.generation
    names = {module: name for name, module in run.model.named_modules()}
    pointer = run.model.decoder.pointer
    earliest = generation.min_length
    no_early_end = [f"    if len(response) < {earliest}:", f"        scores[{EOS}] = -numpy.inf"] if earliest else []
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
        "# greedy search; beam search, sampling and further constraints are the caller's",
        f"while len(response) < {generation.max_length}:",
        '    result = dict(zip(names[1], step.run(None, {"tokens": numpy.array([[token]]), **tensors})))',
        f'    tensors = {{name: result.get("{NEXT}" + name, tensor) for name, tensor in tensors.items()}}',
    ]
    if pointer is not None:
        lines.append(f'    attention = result["{MAP}{names[pointer]}"]  # weights [1, heads, 1, source tokens]')
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
