"""TensorBoard."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from lightning.pytorch.loggers import TensorBoardLogger
from PIL.Image import Image

from dialog.report.markdown import text_table


class TensorBoardTracker(TensorBoardLogger):
    """TensorBoard event files in the run folder; needs the extra ``tensorboard``."""

    def __init__(self, folder: Path) -> None:
        super().__init__(save_dir=str(folder), name="tensorboard", version="", default_hp_metric=False)

    def log_images(self, images: Mapping[str, Image], step: int) -> None:
        """Log images at an optimizer step."""
        for key, image in images.items():
            self.experiment.add_image(key, np.asarray(image), step, dataformats="HWC")

    def log_table(self, key: str, columns: list[str], data: list[list[str]], step: int) -> None:
        """Log rows of text as a Markdown table."""
        self.experiment.add_text(key, text_table(columns, data), step)
