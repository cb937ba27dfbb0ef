"""Export for transformers: a class of the library where it has an equal network, else a class of
dialog.

Read first: `network.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from transformers import GenerationConfig

from dialog.atomic import write_text
from dialog.config.trust import imported_names
from dialog.errors import UserError
from dialog.export.format import CODE, Exported, Format
from dialog.export.formats.huggingface.chat import write_tokenizer
from dialog.export.formats.huggingface.engine import (
    ExportedTransformers,
    open_with_code,
    without_progress_bars,
)
from dialog.export.formats.huggingface.generation import generation_settings
from dialog.export.formats.huggingface.native import unsupported, write_native
from dialog.export.formats.huggingface.network import DialogConfig, DialogForConditionalGeneration
from dialog.export.formats.huggingface.single_file import single_file
from dialog.export.metadata import TASK
from dialog.json_files import read_json
from dialog.models.seq2seq import Seq2Seq
from dialog.runs.run import Run
from dialog.version import __version__

NETWORK = f"{__name__}.network"
"""Module whose import makes transformers know the class of dialog."""
AUTO = "AutoModelForSeq2SeqLM"
CLASSES = {"AutoConfig": "DialogConfig", AUTO: "DialogForConditionalGeneration"}
"""Classes in the file `CODE`, by the class of transformers that looks for them."""
PIPELINE = "DialogPipeline"
MODULE = CODE.removesuffix(".py")


class HuggingFaceFormat(Format):
    """Folder for `from_pretrained`: config.json, model.safetensors, generation_config.json and the
    tokenizer.
    """

    engine = "transformers"
    package = "transformers"

    def check(self, model: Seq2Seq) -> None:
        """Check that the network is one of dialog's own parts.

        Raises:
            UserError: a part that a recipe imports by a dotted name.
        """
        for key in ("encoder", "decoder", "head"):
            for dotted in imported_names(model.arguments[key]):
                raise UserError(
                    f"--format huggingface: model.{key} imports {dotted!r}, which a folder without"
                    " code cannot hold; use --format onnx"
                )

    def write(self, run: Run, folder: Path) -> None:
        """Write config.json, model.safetensors and generation_config.json."""
        native = not unsupported(run.model)
        extra = code_values(native=native) if self.with_code else {}
        with without_progress_bars():
            if native:
                write_native(run, folder, extra)
            else:
                write_own(run.model, folder, extra)
        if self.with_code:
            write_text(folder / CODE, code(native=native))
        settings = generation_settings(run.recipe.generation)
        GenerationConfig(**settings.values).save_pretrained(str(folder))
        mode = (folder / "config.json").stat().st_mode
        (folder / "model.safetensors").chmod(mode)  # safetensors lets only its owner read

    def write_tokenizer(self, run: Run, folder: Path) -> None:
        """Write the tokenizer with a chat template."""
        write_tokenizer(run, folder)

    def load(self, folder: Path) -> Exported:
        """Open an exported folder with transformers, in float32; code in the folder is run if it is
        this package's.

        Raises:
            UserError: the folder has other code.
        """
        file = folder / CODE
        if not file.exists() or "auto_map" not in read_json(folder / "config.json"):
            return ExportedTransformers(folder)
        if file.read_text(encoding="utf-8") != code(native=False):
            raise UserError(
                f"{file}: not the code of this version of dialog-seq2seq; export the run again"
            )
        return open_with_code(file, CLASSES[AUTO])

    def library(self, run: Run) -> str:
        """Return transformers, unless the folder needs the class of dialog."""
        needs_dialog = unsupported(run.model) and not self.with_code
        return "dialog-seq2seq" if needs_dialog else self.package

    def usage(self, run: Run) -> str:
        """Return the lines of the card; a comment names what generation_config.json lacks."""
        name = AUTO
        imports = [f"from transformers import {AUTO}"]
        if unsupported(run.model) and self.with_code:
            name = CLASSES[AUTO]
            imports = [f"from {MODULE} import {name}  # code of this folder"]
        elif unsupported(run.model):
            imports.append(
                f"import {NETWORK}  # of dialog-seq2seq; transformers then knows the class"
            )
        lines = [
            "import torch",
            *imports,
            f'model = {name}.from_pretrained(".")  # generate uses generation_config.json',
        ]
        lacking = generation_settings(run.recipe.generation).lacking
        lines += [f"# unlike the run: {text}" for text in lacking]
        lines.append(
            "response = model.generate(torch.tensor([source]))[0, 1:].tolist()  # without the begin"
            " token"
        )
        return "\n".join(lines)


def write_own(model: Seq2Seq, folder: Path, extra: Mapping[str, Any]) -> None:
    """Write a network as our own class; config.json has the ``extra`` values too."""
    own = DialogForConditionalGeneration(DialogConfig(network=model.arguments, **extra))
    own.network.load_state_dict(model.state_dict())
    own.save_pretrained(str(folder))


def code_values(*, native: bool) -> dict[str, Any]:
    """Return the values of config.json by which transformers finds the code; if ``native``, the
    pipeline alone.
    """
    pipeline = {"impl": f"{MODULE}.{PIPELINE}", "pt": [AUTO], "type": "text"}
    values: dict[str, Any] = {"custom_pipelines": {TASK: pipeline}}
    if native:
        return values
    return {"auto_map": {name: f"{MODULE}.{own}" for name, own in CLASSES.items()}, **values}


def code(*, native: bool) -> str:
    """Return the source code of the pipeline, of the network's class if it is not ``native``, and
    of all that they use.

    It imports torch and transformers only.
    """
    classes = {f"{__name__}.pipeline": [PIPELINE]}
    if not native:
        classes[NETWORK] = [*CLASSES.values()]
    head = (
        f"Code of dialog-seq2seq {__version__} for transformers, in one"
        " file.\n\nSPDX-License-Identifier: Apache-2.0\n"
    )
    return single_file(classes, head)
