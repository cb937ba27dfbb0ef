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
from typing import TYPE_CHECKING

from dialog.export.format import Exported, Format

if TYPE_CHECKING:
    from dialog.models.seq2seq import Seq2Seq
    from dialog.runs.run import Run


class Onnx(Format):
    """Two ONNX files; the search is the caller's loop over steps."""

    engine = "ONNX Runtime"
    packages = ("onnxruntime", "onnx", "onnxscript")

    def check(self, model: Seq2Seq) -> None:
        """Accept any network; `write` reports an imported part that torch.onnx cannot translate."""

    def write(self, run: Run, folder: Path) -> None:
        """Write both files and their description.

        Raises:
            UserError: an imported part of the network cannot be translated.
        """
        from dialog.export.formats.onnx.writing import write_networks

        write_networks(run.model, folder)

    def load(self, folder: Path) -> Exported:
        """Open both files on one thread of a CPU."""
        from dialog.export.formats.onnx.engine import OnnxModel

        return OnnxModel(folder)

    def usage(self, run: Run) -> str:
        """Return a greedy search with numpy and onnxruntime."""
        from dialog.export.formats.onnx.usage import greedy_code

        return greedy_code(run)
