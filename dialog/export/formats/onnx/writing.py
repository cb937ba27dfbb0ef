"""Translate the two networks to ONNX.

Shapes: B rows, S source tokens, T target tokens, T' target tokens so far.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from onnxscript import INT64, ir, opset20
from torch import Tensor, nn

from dialog.atomic import write_json
from dialog.config.trust import imported_names
from dialog.data.tokenizers.tokenizer import BOS, EOS, OTHER, PAD, SELF, UNK
from dialog.errors import UserError
from dialog.export.formats.onnx.layers import in_onnx_operators, traced_lengths
from dialog.export.formats.onnx.networks import (
    MAP,
    NEXT,
    EncoderNetwork,
    StepNetwork,
    Structure,
    started,
    steps_any_length,
)
from dialog.models.seq2seq import Seq2Seq

ENCODER = "encoder.onnx"
STEP = "step.onnx"
DESCRIPTION = "onnx.json"
OPSET = 20
"""Version of the operators; ONNX Runtime has them since 1.17."""
SPECIAL = {"padding": PAD, "begin": BOS, "end": EOS, "unknown": UNK, "other": OTHER, "self": SELF}
SIZES = (2, 5, 3)
OTHER_SIZES = (3, 6, 4)
"""B, S and T' of the example, and of a second one: the dimensions that differ are free."""
DIMENSIONS = {
    **dict(zip(SIZES, ("batch", "source", "past"), strict=True)),
    SIZES[1] + SIZES[2]: "past",  # of a decoder that reads the source in its own layers
}
TOKENS = 7
"""T of the example."""
GRID = "grid"
SHAPE = "turn_shape"
"""Names of the additional input and output of a hierarchical encoder."""
REGISTRATION = "torch.onnx._internal.exporter._registration"
"""Logger that warns about operators of torchvision, if that is not installed."""
WARNINGS = ("# The axis name: .* will not be used", ".*isinstance.treespec, LeafSpec")
"""Warnings: a name that several inputs share, and a call inside of torch."""
Shape = dict[int, str]
"""Names of the free dimensions by their place."""


def write_networks(model: Seq2Seq, folder: Path) -> None:
    """Write `encoder.onnx`, `step.onnx` and `onnx.json`.

    Raises:
        UserError: an imported part of the network cannot be translated.
    """
    several = steps_any_length(model)
    with torch.no_grad(), quiet_exporter(), reported_errors(model):
        copied = in_onnx_operators(model)
        with traced_lengths():
            inputs, outputs = write_step(copied, folder / STEP, several=several)
            write_encoder(copied, folder / ENCODER, inputs)
    description = {
        "opset": OPSET,
        "special": SPECIAL,
        "inputs": {ENCODER: ["source", "mask"], STEP: ["tokens", *inputs]},
        "outputs": {ENCODER: inputs, STEP: outputs},
        "memory": [name for name in inputs if not name.startswith("state.")],
        "state": [name for name in inputs if name.startswith("state.")],
        "next": NEXT,
        "attention": [name for name in outputs if name.startswith(MAP)],
        "several_tokens": several,
    }
    write_json(folder / DESCRIPTION, description)


def write_step(model: Seq2Seq, path: Path, *, several: bool) -> tuple[list[str], list[str]]:
    """Write the step for one token, or for ``several``; return the names of memory and state, and
    of all outputs.
    """
    structure, tensors = example(model, SIZES)
    _, others = example(model, OTHER_SIZES)
    shapes = [free(tensor, others[name]) for name, tensor in tensors.items()]
    network = StepNetwork(model, structure).eval()
    past = [*tensors.values()]
    tokens = torch.full((SIZES[0], TOKENS if several else 1), BOS)
    outputs = [*network.outputs(tokens, past)]
    tokens_shape = {0: "batch", 1: "target"} if several else {0: "batch"}
    names = ["tokens", *tensors]
    program = translated(
        network, (tokens, past), (tokens_shape, shapes), inputs=names, outputs=outputs
    )
    inputs = program.model.graph.inputs
    for value in [*inputs]:
        if value.name != "tokens" and not value.uses() and not value.is_graph_output():
            inputs.remove(value)
    save(program, path)
    return [str(value.name) for value in inputs if value.name != "tokens"], outputs


def write_encoder(model: Seq2Seq, path: Path, names: list[str]) -> None:
    """Write the encoder, whose outputs are the tensors of these names."""
    source = torch.full(SIZES[:2], EOS)
    shape = {0: "batch", 1: "source"}
    arguments: list[Tensor] = [source, torch.ones_like(source, dtype=torch.bool)]
    shapes = [shape, shape]
    inputs = ["source", "mask"]
    outputs = names
    if model.needs_turns:
        arguments.append(torch.zeros(TOKENS, TOKENS + 1))
        shapes = [*shapes, {0: "turns", 1: "turn"}]
        inputs = [*inputs, GRID]
        outputs = [*names, SHAPE]
    network = EncoderNetwork(model, names).eval()
    program = translated(network, tuple(arguments), tuple(shapes), inputs=inputs, outputs=outputs)
    if model.needs_turns:
        compute_turn_shape(program)
    save(program, path)


def compute_turn_shape(program: torch.onnx.ONNXProgram) -> None:
    """Replace the input ``grid`` by a tensor of the computed shape."""
    graph = program.model.graph
    grid = next(value for value in graph.inputs if value.name == GRID)
    shape = next(value for value in graph.outputs if value.name == SHAPE)
    node = ir.Node("", "ConstantOfShape", [shape])
    ir.convenience.replace_all_uses_with(grid, node.outputs[0])
    graph.inputs.remove(grid)
    graph.outputs.remove(shape)
    graph.append(node)
    graph.sort()


def example(model: Seq2Seq, sizes: tuple[int, int, int]) -> tuple[Structure, dict[str, Tensor]]:
    """Return the structure and tensors of memory and state of B rows with S source tokens, after T'
    target tokens.
    """
    rows, length, past = sizes
    source = torch.full((rows, length), EOS)
    structure = started(model, source, torch.ones_like(source, dtype=torch.bool))
    tensors = structure.tensors()
    after = StepNetwork(model, structure).outputs(
        torch.full((rows, past), BOS), [*tensors.values()]
    )
    # no tensor twice
    state = {name: after[NEXT + name].clone() for name in tensors if NEXT + name in after}
    return structure, {**tensors, **state}


def free(tensor: Tensor, other: Tensor) -> Shape:
    """Return the names of the dimensions that differ between two examples."""
    sizes = enumerate(zip(tensor.shape, other.shape, strict=True))
    return {place: DIMENSIONS[size] for place, (size, second) in sizes if size != second}


def translated(
    network: nn.Module,
    arguments: tuple[Any, ...],
    shapes: tuple[Any, ...],
    *,
    inputs: list[str],
    outputs: list[str],
) -> torch.onnx.ONNXProgram:
    """Translate a network to ONNX.

    Raises:
        RuntimeError: torch.onnx returned other outputs.
    """
    program = torch.onnx.export(
        network,
        arguments,
        dynamo=True,
        dynamic_shapes=shapes,
        input_names=inputs,
        output_names=outputs,
        opset_version=OPSET,
        # torch.onnx lacks it
        custom_translation_table={torch.ops.aten.cummax.default: cummax},
        # its rules drop the addition of 1e-30 in a pointer head; ONNX Runtime optimizes by itself
        optimize=False,
        verbose=False,
    )
    if program is None or [value.name for value in program.model.graph.outputs] != outputs:
        raise RuntimeError(f"torch.onnx did not return the outputs {', '.join(outputs)}")
    return program


def cummax(values: INT64, dim: int) -> tuple[Any, Any]:
    """Translate ``values.cummax(1)`` of numbers from 0 on [B, S], as `Fold` uses it; its indices
    are not used.
    """
    op: Any = opset20
    assert dim == 1
    length = op.Shape(values, start=1, end=2)
    square = op.Expand(op.Constant(value_ints=[1]), op.Concat(length, length, axis=0))
    earlier = op.Trilu(square, upper=0)  # [S, S]
    rows = op.Unsqueeze(values, op.Constant(value_ints=[1]))  # [B, 1, S]
    largest = op.ReduceMax(op.Mul(rows, earlier), op.Constant(value_ints=[2]), keepdims=0)  # [B, S]
    return largest, largest


def save(program: torch.onnx.ONNXProgram, path: Path) -> None:
    """Write a file without the traces of this machine's source code; above 1.5 GB, the weights are
    beside it.
    """
    for node in program.model.graph.all_nodes():
        node.metadata_props.clear()
    program.save(path)


@contextmanager
def reported_errors(model: Seq2Seq) -> Iterator[None]:
    """Re-raise errors of torch.onnx as UserError that names the imported parts."""
    try:
        yield
    except (torch.onnx.OnnxExporterError, RuntimeError) as error:
        cause: BaseException = error
        while cause.__cause__ is not None:
            cause = cause.__cause__
        reason = " ".join(str(cause).split())[:200]
        parts = ", ".join(imported_names(model.arguments)) or "a part"
        raise UserError(
            f"model: torch.onnx cannot translate {parts} ({reason}); use --format huggingface"
        ) from error


@contextmanager
def quiet_exporter() -> Iterator[None]:
    """Silence warnings of torch.onnx that concern no network here."""
    logger = logging.getLogger(REGISTRATION)
    level = logger.level
    with warnings.catch_warnings():
        for message in WARNINGS:
            warnings.filterwarnings("ignore", message=message)
        logger.setLevel(logging.ERROR)
        try:
            yield
        finally:
            logger.setLevel(level)
