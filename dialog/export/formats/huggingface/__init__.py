"""Export for transformers: a class of the library where it has an equal network, else a class of
dialog.

Read first: `network.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dialog.atomic import write_text
from dialog.config.trust import imported_names
from dialog.errors import UserError
from dialog.export.format import CODE, Exported, Format
from dialog.export.formats.huggingface.single_file import single_file
from dialog.export.metadata import TASK
from dialog.json_files import read_json
from dialog.version import __version__

if TYPE_CHECKING:
    from dialog.models.seq2seq import Seq2Seq
    from dialog.runs.run import Run

CLASSES = {"AutoConfig": "DialogConfig", "AutoModelForSeq2SeqLM": "DialogForConditionalGeneration"}
"""Classes in the file `CODE`, by the class of transformers that looks for them."""
PIPELINE = "DialogPipeline"
NETWORK = "dialog.export.formats.huggingface.network"
"""Module whose import makes transformers know the class of dialog."""


class HuggingFaceFormat(Format):
    """Folder for `from_pretrained`: config.json, model.safetensors, generation_config.json and the
    tokenizer.
    """

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
                    f"--format huggingface: model.{key} imports {dotted!r}, which a folder without"
                    " code cannot hold; use --format onnx"
                )

    def write(self, run: Run, folder: Path) -> None:
        """Write config.json, model.safetensors and generation_config.json."""
        from dialog.export.formats.huggingface.engine import without_progress_bars
        from dialog.export.formats.huggingface.generation import (
            generation_config,
            generation_settings,
        )

        with without_progress_bars():
            native = is_native(run.model)
            extra = code_values(native=native) if self.with_code else {}
            if native:
                from dialog.export.formats.huggingface.native import write

                write(run, folder, extra)
            else:
                write_own(run.model, folder, extra)
            if self.with_code:
                write_text(folder / CODE, code(native=native))
        generation_config(generation_settings(run.recipe.generation).values).save_pretrained(
            str(folder)
        )
        mode = (folder / "config.json").stat().st_mode
        (folder / "model.safetensors").chmod(mode)  # safetensors lets only its owner read

    def write_tokenizer(self, run: Run, folder: Path) -> None:
        """Write the tokenizer with a chat template."""
        from dialog.export.formats.huggingface.chat import write_tokenizer

        write_tokenizer(run, folder)

    def load(self, folder: Path) -> Exported:
        """Open an exported folder with transformers, in float32; code in the folder is run if it is
        this package's.

        Raises:
            UserError: the folder has other code.
        """
        from dialog.export.formats.huggingface.engine import open_folder, open_with_code

        file = folder / CODE
        if not file.exists() or "auto_map" not in read_json(folder / "config.json"):
            return open_folder(folder)
        if file.read_text(encoding="utf-8") != code(native=False):
            raise UserError(
                f"{file}: not the code of this version of dialog-seq2seq; export the run again"
            )
        return open_with_code(folder, CODE, CLASSES["AutoModelForSeq2SeqLM"])

    def library(self, run: Run) -> str:
        """Return transformers, unless the folder needs the class of dialog."""
        return "transformers" if self.with_code or is_native(run.model) else "dialog-seq2seq"

    def usage(self, run: Run) -> str:
        """Return the lines of the card; a comment names what generation_config.json lacks."""
        from dialog.export.formats.huggingface.generation import generation_settings

        settings = generation_settings(run.recipe.generation)
        name = "AutoModelForSeq2SeqLM"
        lines = ["import torch"]
        if is_native(run.model):
            lines += [f"from transformers import {name}", ""]
        elif self.with_code:
            name = CLASSES[name]
            lines += [f"from {CODE.removesuffix('.py')} import {name}  # code of this folder", ""]
        else:
            lines += [f"from transformers import {name}", ""]
            lines += [
                f"import {NETWORK}  # of dialog-seq2seq; transformers then knows the class",
                "",
            ]
        lines.append(f'model = {name}.from_pretrained(".")  # generate uses generation_config.json')
        lines += [f"# unlike the run: {text}" for text in settings.lacking]
        lines.append(
            "response = model.generate(torch.tensor([source]))[0, 1:].tolist()  # without the begin"
            " token"
        )
        return "\n".join(lines) + "\n"


def is_native(model: Seq2Seq) -> bool:
    """Return whether transformers has an equal network."""
    from dialog.export.formats.huggingface.native import unsupported

    return not unsupported(model)


def write_own(model: Seq2Seq, folder: Path, extra: Mapping[str, Any] | None = None) -> None:
    """Write a network as our own class; config.json has the ``extra`` values too."""
    from dialog.export.formats.huggingface.modeling import (
        DialogConfig,
        DialogForConditionalGeneration,
    )

    own = DialogForConditionalGeneration(DialogConfig(network=model.arguments, **(extra or {})))
    own.network.load_state_dict(model.state_dict())
    own.save_pretrained(str(folder))


def code_values(*, native: bool) -> dict[str, Any]:
    """Return the values of config.json by which transformers finds the code; if ``native``, the
    pipeline alone.
    """
    module = CODE.removesuffix(".py")
    pipeline = {"impl": f"{module}.{PIPELINE}", "pt": ["AutoModelForSeq2SeqLM"], "type": "text"}
    classes = (
        {} if native else {"auto_map": {name: f"{module}.{own}" for name, own in CLASSES.items()}}
    )
    return {**classes, "custom_pipelines": {TASK: pipeline}}


def code(*, native: bool) -> str:
    """Return the source code of the pipeline, of the network's class if it is not ``native``, and
    of all that they use.

    It imports torch and transformers only.
    """
    classes = {f"{__name__}.pipeline": [PIPELINE]}
    if not native:
        classes[f"{__name__}.modeling"] = [*CLASSES.values()]
    head = (
        f"Code of dialog-seq2seq {__version__} for transformers, in one"
        " file.\n\nSPDX-License-Identifier: Apache-2.0\n"
    )
    return single_file(classes, head)
