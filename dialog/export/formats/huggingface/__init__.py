"""Export for transformers: a class of the library where it has an equal network, else a class of dialog.

Read first: `network.py`.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from dialog.config.trust import imported_names
from dialog.errors import UserError
from dialog.export.contract import Exported, Format

if TYPE_CHECKING:
    from dialog.models.seq2seq import Seq2Seq
    from dialog.runs.run import Run

NETWORK = "dialog.export.formats.huggingface.network"
"""Module whose import makes transformers know the class of dialog."""


class HuggingFaceFormat(Format):
    """Folder for `from_pretrained`: config.json, model.safetensors, generation_config.json and the tokenizer."""

    engine = "transformers"
    packages = ("transformers",)

    def check(self, model: Seq2Seq) -> None:
        """Check that the network is one of dialog's own parts.

        Raises:
            UserError: a part that a recipe imports by a dotted name.
        """
        for key in ("encoder", "decoder", "head"):
            for dotted in imported_names(model.arguments[key]):
                raise UserError(
                    f"--format huggingface: model.{key} imports {dotted!r}, which a folder without code cannot hold; "
                    "use --format onnx"
                )

    def write(self, run: Run, folder: Path) -> None:
        """Write config.json, model.safetensors and generation_config.json."""
        from dialog.export.formats.huggingface.engine import without_progress_bars
        from dialog.export.formats.huggingface.generation import generation_config, generation_settings

        with without_progress_bars():
            if is_native(run.model):
                from dialog.export.formats.huggingface.native import write

                write(run, folder)
            else:
                write_own(run.model, folder)
        generation_config(generation_settings(run.recipe.generation).values).save_pretrained(str(folder))
        mode = (folder / "config.json").stat().st_mode
        (folder / "model.safetensors").chmod(mode)  # safetensors lets only its owner read

    def load(self, folder: Path) -> Exported:
        """Open an exported folder with transformers, in float32."""
        from dialog.export.formats.huggingface.engine import open_folder

        return open_folder(folder)

    def usage(self, run: Run) -> str:
        """Return the lines of the card; a comment names what generation_config.json lacks."""
        from dialog.export.formats.huggingface.generation import generation_settings

        settings = generation_settings(run.recipe.generation)
        lines = ["import torch", "from transformers import AutoModelForSeq2SeqLM", ""]
        if not is_native(run.model):
            lines += [f"import {NETWORK}  # of dialog-seq2seq; transformers then knows the class", ""]
        lines.append('model = AutoModelForSeq2SeqLM.from_pretrained(".")  # generate uses generation_config.json')
        lines += [f"# unlike the run: {text}" for text in settings.lacking]
        lines.append("response = model.generate(torch.tensor([source]))[0, 1:].tolist()  # without the begin token")
        return "\n".join(lines) + "\n"


def is_native(model: Seq2Seq) -> bool:
    """Return whether transformers has an equal network."""
    from dialog.export.formats.huggingface.native import unsupported

    return not unsupported(model)


def write_own(model: Seq2Seq, folder: Path) -> None:
    """Write a network as our own class."""
    from dialog.export.formats.huggingface.network import DialogConfig, DialogForConditionalGeneration

    own = DialogForConditionalGeneration(DialogConfig(network=model.arguments))
    own.network.load_state_dict(model.state_dict())
    own.save_pretrained(str(folder))
