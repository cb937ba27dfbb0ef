"""Runs whose steps another engine computes."""

from __future__ import annotations

import logging
import tempfile
from dataclasses import replace
from pathlib import Path

from dialog.errors import UserError
from dialog.export.export import export
from dialog.runs.run import Run

log = logging.getLogger("dialog")


def check_engine(name: str) -> None:
    """Check that an engine computes single steps, which streams and all searches need.

    Raises:
        UserError: it computes whole responses only.
    """
    if name == "ctranslate2":
        raise UserError(
            "--engine ctranslate2: it computes whole responses only, and the service needs single"
            " steps; use --engine onnx"
        )


def with_engine(run: Run, name: str) -> Run:
    """Return a run whose responses an engine computes; it is exported to a temporary folder and
    compared with the run first. Attention maps are still the network's.

    Raises:
        UserError: the run cannot be exported.
        RunError: the engine does not compute what the run does.
    """
    check_engine(name)
    if name == "torch":
        return run
    from dialog.export.formats.onnx.engine import OnnxModel, OnnxStep

    with tempfile.TemporaryDirectory(prefix="dialog-") as folder:
        output = Path(folder) / name
        parity = export(run, name, output)
        log.info("%s: %s", run.name, parity)
        return replace(run, engine=OnnxStep(OnnxModel(output)))
