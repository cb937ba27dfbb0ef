"""TensorBoard."""

from __future__ import annotations

import os
import time
from argparse import Namespace
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from lightning.pytorch.loggers import Logger
from PIL.Image import Image

from dialog.errors import install
from dialog.report.markdown import text_table
from dialog.training.loggers.background import TableRows

if TYPE_CHECKING:
    from tensorboard.compat.proto.summary_pb2 import Summary
    from tensorboard.summary.writer.record_writer import RecordWriter


class TensorBoardTracker(Logger):
    """TensorBoard event files in the run folder; needs the extra ``tensorboard``.

    Written without torch's SummaryWriter, whose own thread prints a traceback when the disk is
    full.

    Args:
        folder: The run folder.
        self_attention: Whether a run also records maps of self-attention; cross-attention is always
            recorded.
    """

    def __init__(self, folder: Path, *, self_attention: bool = False) -> None:
        super().__init__()
        if find_spec("tensorboard") is None:
            raise ImportError(f"needs TensorBoard: {install('tensorboard')}")
        self.folder = folder / "tensorboard"
        self._writer: RecordWriter | None = None

    @property
    def name(self) -> str:
        """Name of the folder."""
        return self.folder.name

    @property
    def version(self) -> str:
        """Empty: a run has one folder of events."""
        return ""

    def log_hyperparams(
        self, params: dict[str, Any] | Namespace, *args: object, **kwargs: object
    ) -> None:
        """Do nothing: recipe.yaml is in the run folder."""

    def log_metrics(self, metrics: Mapping[str, float], step: int | None = None) -> None:
        """Write numbers at an optimizer step."""
        from torch.utils.tensorboard.summary import scalar

        for key, value in metrics.items():
            self._write(step, summary=scalar(key, value))  # type: ignore[no-untyped-call]

    def log_images(self, images: Mapping[str, Image], step: int) -> None:
        """Write images at an optimizer step."""
        from torch.utils.tensorboard.summary import image

        for key, picture in images.items():
            drawn = image(key, np.asarray(picture), dataformats="HWC")  # type: ignore[no-untyped-call]
            self._write(step, summary=drawn)

    def log_table(self, key: str, columns: list[str], data: TableRows, step: int) -> None:
        """Write rows of values as a Markdown table."""
        from torch.utils.tensorboard.summary import text

        rows = [[*map(str, row)] for row in data]
        summary = text(key, text_table(columns, rows))  # type: ignore[no-untyped-call]
        self._write(step, summary=summary)

    def save(self) -> None:
        """Flush the file."""
        if self._writer is not None:
            self._writer.flush()

    def finalize(self, status: str) -> None:
        """Close the file."""
        if self._writer is not None:
            self._writer.close()

    def _write(
        self, step: int | None, *, summary: Summary | None = None, file_version: str | None = None
    ) -> None:
        from tensorboard.compat.proto.event_pb2 import Event

        if self._writer is None:
            from tensorboard.summary.writer.record_writer import RecordWriter

            self.folder.mkdir(exist_ok=True)
            path = self.folder / f"events.out.tfevents.{time.time_ns()}.{os.getpid()}"
            self._writer = RecordWriter(path.open("wb"))
            self._write(None, file_version="brain.Event:2")
        event = Event(wall_time=time.time(), step=step, summary=summary, file_version=file_version)
        self._writer.write(event.SerializeToString())
