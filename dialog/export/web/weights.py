"""Weights of ONNX files in few bytes, which the page expands to float32.

The large tensors of both networks leave their files and are stored once, one after the other. Each
is stored in one of the `KINDS`; the planes of its numbers' bytes, highest first, compress better
than the numbers. `engine.js` has the same `expanded`.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterable
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import torch
from onnx.external_data_helper import set_external_data

from dialog.models.seq2seq import Seq2Seq

Values = npt.NDArray[np.float32]
FLOAT32 = "float32"
FLOAT16 = "float16"
INT8 = "int8"
KINDS = (FLOAT16, INT8, FLOAT32)
"""Kinds of numbers. ``int8``: matrices have 8 bits and a scale for each row, vectors 16 bits."""
LARGEST = 127
SMALLEST_TENSOR = 32
"""Fewest numbers of a tensor that leaves its file."""
EXPANDED = "weights.bin"
"""File of float32 numbers that the ONNX files refer to."""


@dataclass(frozen=True)
class Packed:
    """Tensors of several ONNX files, each once."""

    kinds: list[tuple[str, int, int]]  # of each tensor: kind, rows, columns
    data: bytes

    def expanded(self) -> bytes:
        """Return the numbers of all tensors in float32."""
        parts = []
        start = 0
        for kind, rows, columns in self.kinds:
            end = start + stored_size(kind, rows, columns)
            parts.append(expanded(self.data[start:end], kind, rows, columns).tobytes())
            start = end
        return b"".join(parts)


def rounded(model: Seq2Seq, kind: str) -> Seq2Seq:
    """Return a copy of a network with the weights that a kind can store."""
    copied = deepcopy(model)
    with torch.no_grad():
        for parameter in copied.parameters():
            values = by_rows(parameter.numpy())
            chosen = kind_of(values, kind)
            stored = expanded(packed(values, chosen), chosen, *values.shape)
            parameter.copy_(torch.from_numpy(stored).view_as(parameter))
    return copied


def pack_files(paths: Iterable[Path], kind: str) -> Packed:
    """Move the large tensors out of ONNX files in place; tensors with equal numbers are stored
    once.

    A tensor that the kind would change, since it is no weight, is stored in float32.
    """
    places: dict[bytes, int] = {}
    kinds: list[tuple[str, int, int]] = []
    parts: list[bytes] = []
    end = 0
    for path in paths:
        model = onnx.load(path)
        for tensor in model.graph.initializer:
            values = onnx.numpy_helper.to_array(tensor)
            if tensor.data_type != onnx.TensorProto.FLOAT or values.size < SMALLEST_TENSOR:
                continue
            content = values.tobytes()
            if content not in places:
                places[content] = end
                end += len(content)
                matrix = by_rows(values)
                chosen = kind_of(matrix, kind)
                data = packed(matrix, chosen)
                if not np.array_equal(expanded(data, chosen, *matrix.shape), matrix):
                    chosen = FLOAT32
                    data = packed(matrix, chosen)
                kinds.append((chosen, *matrix.shape))
                parts.append(data)
            tensor.raw_data = b""
            set_external_data(tensor, EXPANDED, offset=places[content], length=len(content))
            tensor.ClearField("raw_data")
        path.write_bytes(model.SerializeToString())
    return Packed(kinds, b"".join(parts))


def by_rows(values: npt.NDArray[np.generic]) -> Values:
    """Return a tensor as a matrix; a vector as a column, which has no scales of rows."""
    array = np.ascontiguousarray(values, dtype=np.float32)
    return array.reshape(-1, 1) if array.ndim < 2 else array.reshape(len(array), -1)


def kind_of(values: Values, kind: str) -> str:
    """Return the kind in which a matrix can be stored: vectors have no scales, and numbers beyond
    the largest of float16 are kept.
    """
    if kind == INT8 and values.shape[1] > 1:
        return INT8
    in_range = bool((np.abs(values) <= np.finfo(np.float16).max).all())
    return FLOAT16 if kind != FLOAT32 and in_range else FLOAT32


def packed(values: Values, kind: str) -> bytes:
    """Return the bytes of a matrix [R, C]."""
    if kind == FLOAT16:
        return planes(values.astype("<f2"))
    if kind == FLOAT32:
        return planes(values.astype("<f4"))
    # of 8 significant bits, so that products with numbers of 8 bits are exact and can be packed
    # again without change
    largest = np.abs(values).max(1, keepdims=True) / np.float32(LARGEST)  # [R, 1]
    scales = torch.from_numpy(largest).bfloat16().float().numpy()
    ratios = np.divide(values, scales, out=np.zeros_like(values), where=scales > 0)
    whole: npt.NDArray[np.int8] = np.rint(ratios).clip(-LARGEST, LARGEST).astype(np.int8)
    return planes(scales.astype("<f4")) + whole.tobytes()


def expanded(data: bytes, kind: str, rows: int, columns: int) -> Values:
    """Return the matrix [R, C] of these bytes."""
    if kind == INT8:
        scales = numbers(data[: 4 * rows], "<f4").reshape(rows, 1)
        whole = np.frombuffer(data, np.int8, offset=4 * rows).reshape(rows, columns)
        return whole.astype(np.float32) * scales
    return numbers(data, "<f2" if kind == FLOAT16 else "<f4").reshape(rows, columns)


def stored_size(kind: str, rows: int, columns: int) -> int:
    """Return the number of bytes of a matrix."""
    if kind == INT8:
        return 4 * rows + rows * columns
    return rows * columns * (2 if kind == FLOAT16 else 4)


def planes(values: npt.NDArray[Any]) -> bytes:
    """Return the highest bytes of all numbers, then the next ones."""
    size = values.dtype.itemsize
    columns: npt.NDArray[np.uint8] = values.reshape(-1).view(np.uint8).reshape(-1, size)
    return columns[:, ::-1].T.tobytes()


def numbers(data: bytes, dtype: str) -> Values:
    """Return the numbers of planes of bytes, in float32."""
    size = np.dtype(dtype).itemsize
    stored = np.frombuffer(data, np.uint8).reshape(size, -1)[::-1].T.copy().view(dtype)
    return stored.reshape(-1).astype(np.float32)


def compressed(data: bytes) -> bytes:
    """Return the bytes as a gzip file, the same each time."""
    return gzip.compress(data, 9, mtime=0)
