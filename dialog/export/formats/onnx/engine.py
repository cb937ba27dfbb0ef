"""The exported files, computed by ONNX Runtime.

Shapes: B rows, S source tokens, T target tokens, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import numpy as np
import numpy.typing as npt
import onnxruntime  # type: ignore[import-untyped]  # it has no annotations
import torch

from dialog.data.tokenizers.tokenizer import BOS
from dialog.errors import UserError
from dialog.export.format import Tokens, padded, token_scores, until_end
from dialog.export.formats.onnx.networks import NEXT
from dialog.export.formats.onnx.writing import DESCRIPTION, ENCODER, STEP
from dialog.json_files import read_json
from dialog.models.state import Rows

Tensors = dict[str, npt.NDArray[np.generic]]
ERRORS = 3
"""Severity from which on ONNX Runtime prints messages."""


class OnnxModel:
    """Encoder and step on one thread of a CPU."""

    def __init__(self, folder: Path) -> None:
        self.encoder, self.step = (session(folder / name) for name in (ENCODER, STEP))
        self.several_tokens = bool(
            read_json(folder / DESCRIPTION, "several_tokens")["several_tokens"]
        )

    def log_probabilities(
        self, sources: Sequence[Tokens], targets: Sequence[Tokens]
    ) -> list[list[float]]:
        """Return log p(y_t | y_<t, source) in nats of each token of each target, in float64."""
        tensors = self.start(sources)
        tokens = padded([[BOS, *target[:-1]] for target in targets])[0].numpy()  # [B, T]
        parts = [tokens] if self.several_tokens else np.split(tokens, tokens.shape[1], 1)
        logits = [self.advance(part, tensors)["logits"] for part in parts]
        return token_scores(torch.from_numpy(np.concatenate(logits, 1)).double(), targets)

    def greedy(self, sources: Sequence[Tokens], length: int) -> list[list[int]]:
        """Return the most probable token, step by step, up to the end token; ended rows are
        computed further.
        """
        tensors = self.start(sources)
        tokens = np.full((len(sources), 1), BOS)
        chosen = []
        for _ in range(length):
            tokens = self.advance(tokens, tensors)["logits"][:, -1:].argmax(-1)  # [B, 1]
            chosen.append(tokens)
        rows = np.concatenate(chosen, 1).tolist()
        return [until_end(row) for row in rows]

    def start(self, sources: Sequence[Tokens]) -> Tensors:
        """Return the tensors of memory and first state."""
        source, mask = padded(sources)  # [B, S]
        return run(self.encoder, {"source": source.numpy(), "mask": mask.numpy()})

    def advance(self, tokens: npt.NDArray[np.int64], tensors: Tensors) -> Tensors:
        """Return logits [B, T, V] and maps for tokens [B, T], and replace the state in
        ``tensors``.
        """
        result = run(self.step, {"tokens": tokens, **tensors})
        tensors.update({name: result[NEXT + name] for name in tensors if NEXT + name in result})
        return result


@dataclass(frozen=True)
class OnnxRows(Rows):
    """Tensors of memory or state, in the order of their names."""

    tensors: tuple[torch.Tensor, ...]


class OnnxStep:
    """Step of the search in an exported folder."""

    def __init__(self, model: OnnxModel) -> None:
        self.model = model
        names = [output.name for output in model.encoder.get_outputs()]
        self.memory = [name for name in names if name.startswith("memory.")]
        self.state = [name for name in names if not name.startswith("memory.")]

    def start(self, source: torch.Tensor, mask: torch.Tensor) -> tuple[OnnxRows, OnnxRows]:
        """Encode a source [N, S], mask True = real; return memory and state."""
        tensors = run(self.model.encoder, {"source": source.numpy(), "mask": mask.numpy()})
        return rows_of(tensors, self.memory), rows_of(tensors, self.state)

    def __call__(
        self, tokens: torch.Tensor, memory: OnnxRows, state: OnnxRows
    ) -> tuple[torch.Tensor, OnnxRows]:
        """Read tokens [N, T], one after the other; return logits [N, T, V] and the new state."""
        logits = []
        given = dict(zip(self.memory, memory.tensors, strict=True))
        tensors = {name: tensor.numpy() for name, tensor in given.items()}
        given = dict(zip(self.state, state.tensors, strict=True))
        tensors |= {name: tensor.numpy() for name, tensor in given.items()}
        for place in range(tokens.shape[1]):
            token = tokens[:, place : place + 1].numpy()
            logits.append(torch.from_numpy(self.model.advance(token, tensors)["logits"]))
        return torch.cat(logits, 1), rows_of(tensors, self.state)

    def represent(self, tokens: torch.Tensor, memory: Rows, state: Rows) -> NoReturn:
        """Raise UserError: the files have no vectors of the logits."""
        raise UserError("search contrastive: ONNX Runtime does not have it; choose another search")


def rows_of(tensors: Tensors, names: Sequence[str]) -> OnnxRows:
    """Return the tensors of these names."""
    return OnnxRows(tuple(torch.from_numpy(tensors[name]) for name in names))


def session(path: Path) -> onnxruntime.InferenceSession:
    """Open a file on one thread."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = ERRORS
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def run(network: onnxruntime.InferenceSession, inputs: Tensors) -> Tensors:
    """Return all outputs by name."""
    names = [output.name for output in network.get_outputs()]
    return dict(zip(names, network.run(names, inputs), strict=True))
